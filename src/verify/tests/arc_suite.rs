//! The published ARC suite: each chain has the expected result, except for the listed deviations;
//! no chain passes that must fail.

use std::collections::BTreeMap;

use mail_parser::MessageParser;

use super::Bench;
use super::corpus::say;
use super::yaml::{entries, suite, text};
use crate::domain::policy::Proof;
use crate::testkit::dns::Zone;

/// Test name, our result, and why it is not the expected one.
const DEVIATIONS: &[(&str, &str, &str)] = &[
    ("ams_fields_c_na", "fail", "without c= it is simple (RFC 6376 §3.5); this was made relaxed"),
    ("ams_fields_h_dup1", "none", "it has To twice: our scanner refuses it unseen"),
    ("ams_fields_h_dup2", "none", "it has To twice: our scanner refuses it unseen"),
    (
        "ams_fields_h_empty",
        "fail",
        "mail-auth reads no signature over no field; From must be in it",
    ),
];

#[tokio::test]
async fn the_suite_of_arc_comes_out_as_published() {
    let Some(scenarios) = suite("arc_test_suite/arc-draft-validation-tests.yml") else { return };
    let mut ran = 0;
    let mut found = BTreeMap::new();
    for scenario in &scenarios {
        let mut zone = Zone::default();
        for (name, record) in entries(&scenario["txt-records"]) {
            zone.insert(name, "TXT", "NOERROR", text(record)).unwrap();
        }
        let mut bench = Bench::with(zone, "").await;
        bench.now = 1_500_000_000;
        for (name, test) in entries(&scenario["tests"]) {
            ran += 1;
            let expected = match text(&test["cv"]).to_lowercase() {
                // A sealer reported the failure itself: nothing is left to validate.
                nothing if nothing.is_empty() => "fail".to_owned(),
                expected => expected,
            };
            let raw = mended(test["message"].as_str().unwrap());
            let parsed = MessageParser::new().parse(raw.as_bytes());
            let from = parsed.as_ref().and_then(|parsed| parsed.from()?.first()?.address());
            let sender = from.unwrap_or("nobody@d1.example.org");
            let answer = bench.check_from(raw.as_bytes(), sender).await;
            // No sealer is trusted here.
            assert_ne!(answer.proof, Proof::Authenticated, "{name}");
            let result = answer.summary["arc"]["result"].as_str().unwrap_or("none");
            if result != expected {
                assert_ne!(result, "pass", "{name}");
                found.insert(name, result.to_owned());
            }
        }
    }
    say(&format!("verify: ran over {ran} tests of ARC"));
    assert!(ran > 150);
    let listed = DEVIATIONS.iter().map(|(name, result, _)| (*name, (*result).to_owned()));
    assert_eq!(found, listed.collect());
}

/// Many messages repeat MIME-Version, which our scanner refuses before any verification. The
/// signatures cover the last one, so the first can be removed.
fn mended(message: &str) -> String {
    let (header, body) = message.split_once("\n\n").unwrap_or((message, ""));
    let field = "MIME-Version: 1.0\n";
    let header = match header.matches(field).count() {
        2 => header.replacen(field, "", 1),
        _ => header.to_owned(),
    };
    format!("{header}\n\n{body}").replace('\n', "\r\n")
}
