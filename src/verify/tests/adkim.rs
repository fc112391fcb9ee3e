//! `adkim=s`: a domain can forbid its subdomains to speak for it (contract §2).

use super::Authentication;
use super::{Bench, MAIL, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;
use crate::testkit::signer::Key;

const STRICT: &str = "v=DMARC1; p=reject; adkim=s";
const RELAXED: &str = "v=DMARC1; p=reject";
const OWN: &str = "_dmarc.good.example";
const SUB: &str = "_dmarc.a.good.example";
const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n";
const DEFERRED: Proof = Proof::Undecidable(Reason::DnsUnavailable);
const UNALIGNED: Proof = Proof::Unproven(Reason::DkimUnaligned);

async fn signed(bench: &Bench, from: &str, signer: &str) -> Authentication {
    let sender = format!("boss@{from}");
    let signer = bench.signer(Key::generate_ed25519().unwrap(), signer, "s1");
    let mail = signer.sign(MAIL.replace("boss@good.example", &sender).as_bytes()).unwrap();
    bench.check_from(&mail, &sender).await
}

/// Records (name, text), From, signer, and the record that forbids it.
type Case =
    (&'static [(&'static str, &'static str)], &'static str, &'static str, Option<&'static str>);

const CASES: &[Case] = &[
    (&[(OWN, STRICT)], "good.example", "good.example", None),
    (&[(OWN, STRICT)], "good.example", "a.good.example", Some(OWN)),
    // The organization's record applies to domains below it.
    (&[(OWN, STRICT)], "a.good.example", "good.example", Some(OWN)),
    (&[(OWN, STRICT)], "a.good.example", "b.good.example", Some(OWN)),
    (&[(OWN, STRICT)], "a.good.example", "a.good.example", None),
    // But not to a domain with its own record.
    (&[(OWN, STRICT), (SUB, RELAXED)], "a.good.example", "good.example", None),
    (&[(OWN, RELAXED), (SUB, STRICT)], "a.good.example", "good.example", Some(SUB)),
    (&[(OWN, RELAXED), (SUB, STRICT)], "good.example", "a.good.example", None),
    (&[(OWN, "v=DMARC1; p=none; adkim=S")], "good.example", "a.good.example", Some(OWN)),
    // Without p= the policy is p=none if reports are requested, else there is none (RFC 9989 4.7).
    (
        &[(OWN, "v=DMARC1; adkim=s; rua=mailto:x@good.example")],
        "good.example",
        "a.good.example",
        Some(OWN),
    ),
    (&[(OWN, "v=DMARC1; adkim=s")], "good.example", "a.good.example", None),
    // Two records, or an unreadable one, count as none.
    (&[(OWN, STRICT), (OWN, RELAXED)], "good.example", "a.good.example", None),
    (&[(OWN, STRICT), (SUB, STRICT), (SUB, RELAXED)], "a.good.example", "good.example", Some(OWN)),
    (&[(OWN, "v=DMARC1; p=maybe; adkim=s")], "good.example", "a.good.example", None),
    (&[(OWN, "v=DMARC2; p=none; adkim=s")], "good.example", "a.good.example", None),
    // None of these hides the organization's record.
    (&[(OWN, STRICT), (SUB, "v=DMARC2; p=none")], "a.good.example", "b.good.example", Some(OWN)),
    (&[(OWN, STRICT), (SUB, "v=DMARC1; p=maybe")], "a.good.example", "b.good.example", Some(OWN)),
    (
        &[(OWN, STRICT), (SUB, "v=DMARC1; adkim=r; sp=maybe")],
        "a.good.example",
        "good.example",
        Some(OWN),
    ),
    (
        &[(OWN, RELAXED), (SUB, "v=DMARC1; p=maybe; adkim=s")],
        "a.good.example",
        "good.example",
        None,
    ),
    // An unreadable tag is ignored (RFC 7489 6.3). With an unreadable policy the record is p=none
    // if reports are requested (6.6.3).
    (&[(OWN, "v=DMARC1; p=none; adkim=s; fo=x")], "good.example", "a.good.example", Some(OWN)),
    (
        &[(OWN, "v=DMARC1; p=maybe; adkim=s; rua=mailto:x@good.example")],
        "good.example",
        "a.good.example",
        Some(OWN),
    ),
    (&[(OWN, "v=DMARC1; p=none; sp=maybe; adkim=s")], "good.example", "a.good.example", None),
    (&[(OWN, "v=DMARC1; p=none; adkim=strict")], "good.example", "a.good.example", None),
    (&[(OWN, STRICT), (SUB, "v=DMARC1; p=none; adkim=x")], "a.good.example", "good.example", None),
    // An unreadable record ends the walk, but records below it still apply.
    (
        &[(OWN, STRICT), ("_dmarc.example", "v=DMARC1; p=maybe")],
        "a.good.example",
        "b.good.example",
        Some(OWN),
    ),
    (
        &[(OWN, RELAXED), ("_dmarc.example", "v=DMARC1; p=maybe")],
        "a.good.example",
        "b.good.example",
        None,
    ),
];

#[tokio::test]
async fn whom_a_domain_forbids_to_speak_for_it_does_not() {
    for (records, from, signer, forbids) in CASES.iter().copied() {
        // Nothing is cached, so a second query would be counted.
        let bench = Bench::with(Zone::default().with_ttl(0), "").await;
        for (name, text) in records {
            bench.txt(name, "something else");
            bench.txt(name, text);
        }
        let answer = signed(&bench, from, signer).await;
        let (about, inputs) =
            (format!("{records:?} {from} {signer}"), &step(&answer, "alignment")["inputs"]);
        let expected = forbids.map_or(Proof::Authenticated, |_| UNALIGNED);
        assert_eq!(answer.proof, expected, "{about}: {answer:#?}");
        assert_eq!(answer.summary["dkim"][0]["aligned"], forbids.is_none(), "{about}");
        if let Some(record) = forbids {
            assert_eq!(inputs["causes"], serde_json::json!(["forbidden_by_dmarc"]), "{about}");
            assert_eq!((&inputs["record"], &inputs["adkim"]), (&record.into(), &"strict".into()));
            assert!(answer.explanation.contains(record), "{}", answer.explanation);
            let detail = format!("signed by {signer}, From is {from} (adkim=s at {record})");
            assert_eq!(answer.detail, detail);
        }
        // The deciding answers are kept, the policy before other texts, and were queried once.
        let kept = step(&answer, "dmarc")["dns"].as_array().unwrap();
        for (name, text) in records {
            let alone = records.iter().filter(|(other, _)| other == name).count() == 1;
            let kept = kept.iter().find(|answer| answer["name"] == **name);
            if let Some(kept) = kept.filter(|_| alone && text.contains("DMARC1")) {
                assert_eq!(kept["answer"], serde_json::json!([text, "something else"]), "{about}");
            }
            assert!(bench.dns.queries_for(name) <= 1, "{about}: {name}");
        }
        assert_eq!(bench.dns.queries_for(&format!("_dmarc.{from}")), 1, "{about}");
    }
}

/// Every fault of the look-up: for the domain itself, one below, one beside, and a stranger.
#[tokio::test]
async fn each_fault_of_a_dmarc_lookup() {
    for (fault, by_others) in [
        ("SERVFAIL", DEFERRED),
        ("REFUSED", DEFERRED),
        ("TIMEOUT", DEFERRED),
        ("GARBAGE", DEFERRED),
        ("NXDOMAIN", Proof::Authenticated),
        ("NOERROR", Proof::Authenticated),
    ] {
        for (from, signer, proof) in [
            ("good.example", "good.example", Proof::Authenticated),
            ("good.example", "a.good.example", by_others),
            ("a.good.example", "good.example", by_others),
            ("a.good.example", "b.good.example", by_others),
            ("a.good.example", "a.good.example", Proof::Authenticated),
            ("good.example", "evil.example", UNALIGNED),
        ] {
            let bench = Bench::with(Zone::default(), SHORT).await;
            // NOERROR: the name exists, but only with another type.
            let kind = if fault == "NOERROR" { "A" } else { "TXT" };
            bench.record(OWN, kind, fault, "192.0.2.1");
            let answer = signed(&bench, from, signer).await;
            assert_eq!(answer.proof, proof, "{fault} {from} {signer}: {answer:#?}");
            if proof == DEFERRED {
                let causes = &step(&answer, "alignment")["inputs"]["causes"];
                assert_eq!(*causes, serde_json::json!(["dmarc_unavailable"]));
                assert!(answer.detail.contains(&format!("DMARC record of {from} could not")));
                assert!(answer.signatures.is_empty(), "nothing is marked by what may be forbidden");
            }
        }
    }
}

/// The domain's own record applies, whatever is published above it.
#[tokio::test]
async fn a_fault_above_the_record_that_applies_changes_nothing() {
    for (record, proof) in [(STRICT, UNALIGNED), (RELAXED, Proof::Authenticated), ("", DEFERRED)] {
        let bench = Bench::with(Zone::default(), SHORT).await;
        bench.record("_dmarc.example", "TXT", "SERVFAIL", "");
        if !record.is_empty() {
            bench.txt(OWN, record);
        }
        let answer = signed(&bench, "good.example", "a.good.example").await;
        assert_eq!(answer.proof, proof, "{record}: {answer:#?}");
    }
}

/// While the record above an unreadable one is missing, the applicable record is unknown.
#[tokio::test]
async fn a_fault_above_a_record_that_cannot_be_read_defers() {
    for (fault, proof) in [("SERVFAIL", DEFERRED), ("NXDOMAIN", Proof::Authenticated)] {
        let bench = Bench::with(Zone::default(), SHORT).await;
        bench.txt(SUB, "v=DMARC1; p=maybe");
        bench.record(OWN, "TXT", fault, "");
        let answer = signed(&bench, "a.good.example", "good.example").await;
        assert_eq!(answer.proof, proof, "{fault}: {answer:#?}");
        let own = signed(&bench, "a.good.example", "a.good.example").await;
        assert_eq!(own.proof, Proof::Authenticated, "{fault}: {own:#?}");
    }
}

/// A spent budget is a failed look-up: it refuses nobody, and accepts nobody who may be forbidden.
#[tokio::test]
async fn a_budget_of_dmarc_that_is_spent_is_a_failed_lookup() {
    let rules = "[dns]\nquery_timeout_seconds = 10\nretries = 5\nmessage_budget_seconds = 60\n\
                 dmarc_budget_seconds = 1\n";
    for (signer, proof) in [("good.example", Proof::Authenticated), ("a.good.example", DEFERRED)] {
        let bench = Bench::with(Zone::default(), rules).await;
        bench.record(OWN, "TXT", "TIMEOUT", "");
        assert_eq!(signed(&bench, "good.example", signer).await.proof, proof, "{signer}");
    }
}

/// If the operator's rule is strict anyway, no record is waited for.
#[tokio::test]
async fn where_alignment_is_strict_anyway_no_record_is_waited_for() {
    let rules = format!("{SHORT}[authentication]\nalignment = \"strict\"\n");
    let bench = Bench::with(Zone::default(), &rules).await;
    bench.record(OWN, "TXT", "SERVFAIL", "");
    let answer = signed(&bench, "good.example", "a.good.example").await;
    assert_eq!(answer.proof, UNALIGNED);
    assert_eq!(step(&answer, "alignment")["inputs"]["causes"], serde_json::json!(["unaligned"]));
}

/// A name too long for its own record is subject to the one above it.
#[tokio::test]
async fn a_long_name_does_not_escape_from_the_record_above_it() {
    let bench = Bench::new().await;
    bench.txt(OWN, STRICT);
    let label = "x".repeat(59);
    let from = format!("{label}.{label}.{label}.{label}.good.example");
    assert!(from.len() <= 253 && from.len() + "_dmarc.".len() > 253);
    assert_eq!(signed(&bench, &from, "good.example").await.proof, UNALIGNED);
}
