//! DMARC: records are evaluated and recorded, and apart from `adkim=s` none changes a verdict.

use serde_json::{Value, json};

use super::{Bench, MAIL, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;

/// Records (name, text), From, the results for a message signed by good.example and for one signed
/// by evil.example, and the policy.
type Case = (
    &'static [(&'static str, &'static str)],
    &'static str,
    &'static str,
    &'static str,
    Option<&'static str>,
);

const UNALIGNED: Proof = Proof::Unproven(Reason::DkimUnaligned);
const OWN: &str = "_dmarc.good.example";
const SUB: &str = "_dmarc.a.good.example";

const CASES: &[Case] = &[
    (&[(OWN, "v=DMARC1; p=reject")], "good.example", "pass", "fail", Some("reject")),
    (&[(OWN, "v=DMARC1; p=none")], "good.example", "pass", "fail", Some("none")),
    (&[(OWN, "v=DMARC1; p=reject; pct=0")], "good.example", "pass", "fail", Some("reject")),
    // RFC 9989 §4.7: t=y lowers the policy by one level.
    (&[(OWN, "v=DMARC1; p=reject; t=y")], "good.example", "pass", "fail", Some("quarantine")),
    (&[(OWN, "v=DMARC1; p=quarantine; t=y")], "good.example", "pass", "fail", Some("none")),
    (&[(OWN, "v=DMARC1; p=reject; sp=none")], "there.good.example", "pass", "fail", Some("none")),
    (
        &[(OWN, "v=DMARC1; p=none; sp=none; np=reject")],
        "gone.good.example",
        "pass",
        "fail",
        Some("reject"),
    ),
    (
        &[(OWN, "v=DMARC1; p=none; sp=quarantine; np=reject")],
        "there.good.example",
        "pass",
        "fail",
        Some("quarantine"),
    ),
    (&[(OWN, "v=DMARC1; p=reject; adkim=s")], "a.good.example", "fail", "fail", Some("reject")),
    (
        &[(SUB, "v=DMARC1; p=none"), (OWN, "v=DMARC1; p=reject")],
        "a.good.example",
        "pass",
        "fail",
        Some("none"),
    ),
    (&[], "good.example", "none", "none", None),
    (
        &[(OWN, "v=DMARC1; p=reject"), (OWN, "v=DMARC1; p=none")],
        "good.example",
        "none",
        "none",
        None,
    ),
    (
        &[(OWN, "hello"), (OWN, "v=DMARC1; p=reject")],
        "good.example",
        "pass",
        "fail",
        Some("reject"),
    ),
    (&[(OWN, "v=DMARC2; p=reject")], "good.example", "none", "none", None),
    (&[(OWN, "v=DMARC1; p=maybe")], "good.example", "permerror", "permerror", None),
];

async fn checked(records: &[(&str, &str)], from: &str, signer: &str) -> (Proof, Value, Value) {
    let bench = Bench::new().await;
    for (name, text) in records {
        bench.txt(name, text);
    }
    bench.record("there.good.example", "A", "NOERROR", "192.0.2.7");
    let sender = format!("boss@{from}");
    let mail = MAIL.replace("boss@good.example", &sender);
    let signed = bench.rsa(signer).sign(mail.as_bytes()).unwrap();
    let answer = bench.check_from(&signed, &sender).await;
    let step = step(&answer, "dmarc").clone();
    assert_eq!(step["result"], answer.summary["dmarc"]["result"]);
    (answer.proof, answer.summary["dmarc"].clone(), step)
}

#[tokio::test]
async fn what_is_published_is_recorded_and_but_for_adkim_no_verdict() {
    for (records, from, own, foreign, policy) in CASES.iter().copied() {
        for (signer, result, proof) in
            [("good.example", own, Proof::Authenticated), ("evil.example", foreign, UNALIGNED)]
        {
            let (found, summary, step) = checked(records, from, signer).await;
            let strict = records.iter().any(|(_, text)| text.contains("adkim=s"));
            let proof = if strict && from != signer { UNALIGNED } else { proof };
            assert_eq!(found, proof, "{records:?} {from} {signer}");
            let expected = json!({"result": result, "policy": policy});
            assert_eq!(summary, expected, "{records:?} {from} {signer}: {step:#}");
            assert_eq!(step["dns"][0]["name"], format!("_dmarc.{from}"));
        }
    }
}

/// In RFC 9989's walk, a public suffix with its own record joins its tenants.
#[tokio::test]
async fn where_the_tree_and_the_list_differ_the_record_says_so() {
    let suffix: &[(&str, &str)] = &[("_dmarc.github.io", "v=DMARC1; p=none")];
    let strict: &[(&str, &str)] = &[(OWN, "v=DMARC1; p=none; adkim=s")];
    for (records, from, signer, tree, list, result) in [
        (suffix, "b.github.io", "a.github.io", Some(true), false, "pass"),
        (suffix, "b.github.io", "b.github.io", Some(true), true, "pass"),
        // No list allows a domain that the record forbids.
        (strict, "a.good.example", "good.example", Some(false), false, "fail"),
        (strict, "a.good.example", "a.good.example", Some(true), true, "pass"),
        (strict, "good.example", "evil.example", Some(false), false, "fail"),
        (&[], "a.good.example", "good.example", None, true, "none"),
    ] {
        let (proof, summary, step) = checked(records, from, signer).await;
        assert_eq!(summary["result"], result, "{from} {signer}");
        assert_eq!(proof == Proof::Authenticated, list, "{from} {signer}");
        let inputs = &step["inputs"];
        assert_eq!(inputs["alignedByTree"], json!(tree), "{from} {signer}");
        assert_eq!(inputs["alignedByList"], json!(list), "{from} {signer}");
        let said = step["detail"].as_str().unwrap().contains("which decides here");
        assert_eq!(said, tree.is_some_and(|tree| tree != list), "{step:#}");
    }
}

/// A longer record is not even parsed; other texts there do not matter.
#[tokio::test]
async fn what_is_longer_than_8_kib_is_no_policy() {
    for (start, octets, result) in [
        ("v=DMARC1; p=reject; x=", 8192, "pass"),
        ("v=DMARC1; p=reject; x=", 8193, "permerror"),
        ("v=DMARC1; p=reject; x=", 40_000, "permerror"),
        ("something else ", 40_000, "none"),
    ] {
        let record = format!("{start}{}", "y".repeat(octets - start.len()));
        let (proof, summary, step) =
            checked(&[(OWN, &record)], "good.example", "good.example").await;
        assert_eq!(summary["result"], result, "{octets}");
        assert_eq!(proof, Proof::Authenticated);
        assert!(step.to_string().len() < 10_000, "{}", step.to_string().len());
    }
}
