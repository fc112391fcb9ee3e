//! Other people's messages, where `GATEPOST_CORPUS` names a folder of them: `index.tsv` says what
//! each is and what should come of it, `zones/` holds the DNS.

use std::path::Path;

use mail_parser::MessageParser;

use super::Bench;
use crate::domain::policy::Proof;
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

/// Runs one message; answers whether there was an outcome to compare with.
async fn compare(mut zone: Zone, path: &str, raw: &[u8], expected: &str) -> bool {
    let raw = prepare(path, raw, &mut zone);
    let bench = Bench::with(zone, "").await;
    let parsed = MessageParser::new().parse(&raw);
    let from =
        parsed.as_ref().and_then(|parsed| parsed.from()?.first()?.address().map(str::to_owned));
    let sender = from
        .filter(|from| crate::domain::address::Address::parse(from).is_ok())
        .unwrap_or_else(|| "nobody@invalid.example".into());
    let answer = bench.check_from(&raw, &sender).await;
    let results: Vec<&str> = answer.summary["dkim"]
        .as_array()
        .unwrap()
        .iter()
        .map(|signature| signature["result"].as_str().unwrap())
        .collect();
    // `policy`: it verifies, and our rules object, for example to a date long past.
    let verifies = results.iter().any(|result| matches!(*result, "pass" | "policy"));
    let context = || format!("{path} ({sender}): {expected}: {:?} {results:?}", answer.detail);
    if expected.starts_with("DKIM pass") {
        assert!(verifies, "{}", context());
    } else if expected.starts_with("DKIM not pass") {
        let added = path.contains("added_header-");
        assert!(added || answer.proof != Proof::Authenticated, "{}", context());
    } else if expected.starts_with("ARC pass") {
        assert_eq!(answer.summary["arc"]["result"], "pass", "{}", context());
    } else {
        return false;
    }
    true
}

/// The message as it would come over the wire; some files keep their keys in front of it.
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

/// Past the harness, which hides what a passing test prints: whoever reads a run must see what it
/// ran over.
pub(super) fn say(line: &str) {
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{line}").unwrap();
}
