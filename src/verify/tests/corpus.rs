//! Messages of other people, if `GATEPOST_CORPUS` names a folder with them: `index.tsv` lists each
//! with its expected result, `zones/` has the DNS.

use std::path::Path;

use mail_parser::MessageParser;

use super::{Authentication, Bench};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;

const SUITES: [(&str, &str); 2] =
    [("stalwartlabs+mail-auth", "mail-auth.tsv"), ("lieser+dkim_verifier", "dkim_verifier.tsv")];

#[tokio::test]
async fn published_messages_come_out_as_published() {
    let Some(folder) = std::env::var_os("GATEPOST_CORPUS") else {
        say("verify: the corpus was not given (GATEPOST_CORPUS)");
        return;
    };
    let folder = Path::new(&folder);
    let index = std::fs::read_to_string(folder.join("index.tsv")).unwrap();
    for (suite, zone) in SUITES {
        let zone = std::fs::read_to_string(folder.join("zones").join(zone)).unwrap();
        let zone = Zone::parse(&zone).unwrap();
        let (mut ran, mut compared) = (0, 0);
        for line in index.lines().filter(|line| line.starts_with(suite)) {
            let columns: Vec<&str> = line.split('\t').collect();
            let expected = columns.get(5).copied().unwrap_or_default();
            let raw = std::fs::read(folder.join(columns[0])).unwrap();
            ran += 1;
            compared += usize::from(compare(zone.clone(), columns[0], &raw, expected).await);
        }
        say(&format!("verify: ran over {ran} messages of {suite}, compared {compared} outcomes"));
        assert!(ran > 0);
    }
}

/// Signed messages with keys: the verdict by our rules (None: authenticated), the result word of
/// each signature with the bits of its key, and the reason. The clock is in the year 2096.
type Verdict = (&'static str, Option<Reason>, &'static str, &'static str);

const MAIL_AUTH: &[Verdict] = &[
    ("dkim/001.txt", None, "pass 256, pass 1024", "RFC 8463, with both keys of its appendix"),
    ("dkim/002.txt", None, "pass 1024", "the example of RFC 6376 A.2, whose key has 1024 bits"),
    ("dkim/003.txt", UNALIGNED, "pass 1024, pass 1024", "a list, and a domain that is not From's"),
    ("dkim/004.txt", None, "pass 1024", "of its own domain"),
    ("dkim/005.txt", UNACCEPTABLE, "policy 1024", "x= is long over"),
    ("dkim/006.txt", None, "pass 1024", "of its own domain"),
    (
        "arc/001.txt",
        UNALIGNED,
        "pass 1024, pass 1024, fail 2048",
        "From's own was broken by a list",
    ),
    ("arc/002.txt", None, "pass 1024", "of its own domain"),
];

const LIESER: &[Verdict] = &[
    ("rfc6376-A.2.eml", None, "pass 1024", "1024 bits are the least that counts (RFC 8301)"),
    ("rfc6376-A.2-body_modified.eml", FAILED, "fail 1024", "the body is another"),
    ("rfc6376-A.2-header_subject_modified.eml", FAILED, "fail 1024", "Subject is another"),
    ("rfc6376-A.2-ill_formed-list_id.eml", None, "pass 1024", "List-Id is not signed"),
    ("rfc6376-A.2-ill_formed-missing_v.eml", FAILED, "fail 1024", "v= was taken out afterwards"),
    ("rfc8463-A.3.eml", None, "pass 256, pass 1024", "Ed25519 and RSA, both of From's domain"),
    (
        "rfc8463-A.3-key_algo_mismatch.eml",
        FAILED,
        "fail 1024, fail 256",
        "each has the other's key",
    ),
    ("dkim/added_header-from.eml", Some(Reason::SenderInvalid), "", "From is there twice"),
    ("dkim/alignment-from_not_in_auid.eml", None, "pass 1024", "i= is not what aligns, d= is"),
    ("dkim/alignment-from_not_in_sdid.eml", UNALIGNED, "pass 1024", "d= is not From's"),
    ("dkim/alignment-signed_by_parent_domain.eml", None, "pass 1024", "relaxed alignment"),
    ("dkim/flags_s-auid_and_sdid_match.eml", None, "pass 1024", "t=s, and i= is in d= itself"),
    ("dkim/flags_s-auid_is_subdomain_of_sdid.eml", UNACCEPTABLE, "policy 1024", "t=s forbids it"),
    ("dkim/header_with_non_ascii_char.eml", None, "pass 1024", "octets are signed, not letters"),
    ("dkim/time-received_after_creation.eml", None, "pass 256", "t= is not in our future"),
    ("dkim/unsigned_header-content-type.eml", None, "pass 1024", "listed, no reason to refuse"),
    ("dkim/unsigned_header-reply_to-in_domain.eml", None, "pass 1024", "listed, as above"),
    ("dkim/unsigned_header-reply_to-invalid.eml", None, "pass 1024", "listed, as above"),
];

const FAILED: Option<Reason> = Some(Reason::DkimFailed);
const UNALIGNED: Option<Reason> = Some(Reason::DkimUnaligned);
const UNACCEPTABLE: Option<Reason> = Some(Reason::DkimUnacceptable);

#[tokio::test]
async fn published_signatures_come_out_by_our_rules() {
    let Some(folder) = std::env::var_os("GATEPOST_CORPUS") else {
        return say("verify: the corpus was not given (GATEPOST_CORPUS)");
    };
    let folder = Path::new(&folder);
    for (home, (_, zone), verdicts) in [
        ("stalwartlabs+mail-auth/resources", SUITES[0], MAIL_AUTH),
        ("lieser+dkim_verifier/test/data", SUITES[1], LIESER),
    ] {
        let zone = std::fs::read_to_string(folder.join("zones").join(zone)).unwrap();
        let zone = Zone::parse(&zone).unwrap();
        for (path, reason, words, why) in verdicts {
            let raw = std::fs::read(folder.join(home).join(path)).unwrap();
            let answer = verdict(zone.clone(), path, &raw).await;
            let proof = reason.map_or(Proof::Authenticated, Proof::Unproven);
            assert_eq!(answer.proof, proof, "{path}: {why}");
            let signatures = answer.summary["dkim"].as_array().unwrap().iter();
            let found: Vec<_> = signatures
                .map(|one| format!("{} {}", one["result"].as_str().unwrap(), one["keyBits"]))
                .collect();
            assert_eq!(found.join(", "), *words, "{path}: {why}");
        }
    }
}

/// Runs one message. Returns whether there was a result to compare.
async fn compare(zone: Zone, path: &str, raw: &[u8], expected: &str) -> bool {
    if path.contains("added_header-") {
        // Two From fields, for example: the scanner refuses them, as `tests/it/corpus.rs` shows.
        return false;
    }
    let answer = verdict(zone, path, raw).await;
    let results: Vec<&str> = answer.summary["dkim"]
        .as_array()
        .unwrap()
        .iter()
        .map(|signature| signature["result"].as_str().unwrap())
        .collect();
    // `policy`: it verifies, but our rules object, for example to a date long past.
    let verifies = results.iter().any(|result| matches!(*result, "pass" | "policy"));
    let context = || format!("{path}: {expected}: {:?} {results:?}", answer.detail);
    if expected.starts_with("DKIM pass") {
        assert!(verifies, "{}", context());
    } else if expected.starts_with("DKIM not pass") {
        assert_ne!(answer.proof, Proof::Authenticated, "{}", context());
    } else if expected.starts_with("ARC pass") {
        assert_eq!(answer.summary["arc"]["result"], "pass", "{}", context());
    } else {
        return false;
    }
    true
}

/// The full result for a message, with the From that a lenient parser reads.
async fn verdict(mut zone: Zone, path: &str, raw: &[u8]) -> Authentication {
    let raw = prepare(path, raw, &mut zone);
    let bench = Bench::with(zone, "").await;
    let parsed = MessageParser::new().parse(&raw);
    let from =
        parsed.as_ref().and_then(|parsed| parsed.from()?.first()?.address().map(str::to_owned));
    let sender = from
        .filter(|from| crate::domain::address::Address::parse(from).is_ok())
        .unwrap_or_else(|| "nobody@invalid.example".into());
    bench.check_from(&raw, &sender).await
}

/// The message as sent over the network; some files begin with their keys.
fn prepare(path: &str, raw: &[u8], zone: &mut Zone) -> Vec<u8> {
    let mut raw = raw;
    if path.ends_with(".txt")
        && let Some(end) = raw.windows(2).position(|two| two == b"\n\n")
    {
        for line in String::from_utf8_lossy(&raw[..end]).lines() {
            if let Some((name, value)) = line.split_once(' ').filter(|(name, _)| name.contains('.'))
            {
                zone.remove(name, "TXT").unwrap();
                zone.insert(name, "TXT", "NOERROR", value).unwrap();
            }
        }
        raw = &raw[end + 2..];
    }
    let mut wire = Vec::with_capacity(raw.len());
    for (at, octet) in raw.iter().enumerate() {
        if *octet == b'\n' && (at == 0 || raw[at - 1] != b'\r') {
            wire.push(b'\r');
        }
        wire.push(*octet);
    }
    wire
}

/// Writes past the test harness, which hides the output of passing tests: a run must show which
/// files it covered.
pub(super) fn say(line: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{line}").unwrap();
}
