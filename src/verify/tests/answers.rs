//! The answers in the evidence are those that the verdict used.

use serde_json::{Value, json};

use super::{Bench, MAIL, step};
use crate::testkit::dns::Zone;

const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\nmessage_budget_seconds = 5\n";

/// Nothing is cached, so a second query would be counted.
async fn bench() -> Bench {
    Bench::with(Zone::default().with_ttl(0), SHORT).await
}

fn answers(step: &Value) -> Vec<(String, String, Value)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = step["dns"].as_array().unwrap().iter();
    all.map(|one| (text(&one["name"]), text(&one["type"]), one["answer"].clone())).collect()
}

#[tokio::test]
async fn each_question_is_asked_once_and_its_answer_kept_as_it_was_used() {
    let bench = bench().await;
    bench.txt(
        "good.example",
        "v=spf1 include:_spf.other.example mx ptr exists:%{i}.e.example a -all",
    );
    bench.txt("good.example", "other=\u{fc}\\");
    bench.txt("_spf.other.example", "v=spf1 a:h.other.example -all");
    bench.record("h.other.example", "A", "NOERROR", "192.0.2.7");
    bench.record("h.other.example", "A", "NOERROR", "192.0.2.8");
    bench.record("good.example", "MX", "NOERROR", "20 b.good.example");
    bench.record("good.example", "MX", "NOERROR", "10 a.good.example");
    bench.record("a.good.example", "A", "NOERROR", "192.0.2.9");
    bench.record("1.2.0.192.in-addr.arpa", "PTR", "NOERROR", "out.good.example");
    bench.record("out.good.example", "A", "NOERROR", "192.0.2.1");
    let answer = bench.accepts(&bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap()).await;
    let spf = step(&answer, "spf");
    assert_eq!(spf["result"], "pass", "{spf:#}");
    let of = |name: &str, kind: &str, answer: Value| (name.to_owned(), kind.to_owned(), answer);
    let policy = "v=spf1 include:_spf.other.example mx ptr exists:%{i}.e.example a -all";
    assert_eq!(
        answers(spf),
        [
            of("good.example", "TXT", json!([policy, "other=\\195\\188\\\\"])),
            of("_spf.other.example", "TXT", json!(["v=spf1 a:h.other.example -all"])),
            of("h.other.example", "A", json!(["192.0.2.7", "192.0.2.8"])),
            of("good.example", "MX", json!(["20 b.good.example.", "10 a.good.example."])),
            of("a.good.example", "A", json!(["192.0.2.9"])),
            of("b.good.example", "A", json!("NXDOMAIN")),
            of("1.2.0.192.in-addr.arpa", "PTR", json!(["out.good.example."])),
            of("out.good.example", "A", json!(["192.0.2.1"])),
        ]
    );
    // TXT and MX of the domain; each only once, although used repeatedly.
    for (name, times) in [("good.example", 2), ("_spf.other.example", 1), ("a.good.example", 1)] {
        assert_eq!(bench.dns.queries_for(name), times, "{name}");
    }
    assert_eq!(answers(step(&answer, "dmarc"))[0].2, "NXDOMAIN");
    assert_eq!(bench.dns.queries_for("_dmarc.good.example"), 1);
}

#[tokio::test]
async fn a_temporary_failure_is_kept_and_ends_the_check_of_spf() {
    for (policy, kind, name, result) in [
        ("v=spf1 a:h.good.example ip4:192.0.2.1 -all", "A", "h.good.example", "temperror"),
        ("v=spf1 mx:h.good.example ip4:192.0.2.1 -all", "MX", "h.good.example", "temperror"),
        ("v=spf1 exists:h.good.example ip4:192.0.2.1 -all", "A", "h.good.example", "temperror"),
        ("v=spf1 include:h.good.example ip4:192.0.2.1 -all", "TXT", "h.good.example", "temperror"),
        // RFC 7208 §5.5: failed names of a ptr mechanism are skipped.
        ("v=spf1 ptr ip4:192.0.2.1 -all", "A", "out.good.example", "pass"),
        ("v=spf1 ptr ip4:192.0.2.1 -all", "PTR", "1.2.0.192.in-addr.arpa", "pass"),
    ] {
        let bench = bench().await;
        bench.txt("good.example", policy);
        bench.record("1.2.0.192.in-addr.arpa", "PTR", "NOERROR", "out.good.example");
        bench.record(name, kind, "SERVFAIL", "");
        let answer = bench.accepts(&bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap()).await;
        let spf = step(&answer, "spf");
        assert_eq!(spf["result"], result, "{policy}: {spf:#}");
        let failed = answers(spf).into_iter().find(|(asked, of, _)| asked == name && of == kind);
        let failed = failed.unwrap_or_else(|| panic!("{policy}: {spf:#}")).2;
        assert!(failed.as_str().unwrap().starts_with("temporary failure: "), "{failed}");
    }
}

#[tokio::test]
async fn names_that_nobody_could_be_asked_about_end_nothing() {
    let bench = bench().await;
    let long = "x".repeat(70);
    bench.txt("good.example", &format!("v=spf1 a:{long}.example ip4:192.0.2.1 -all"));
    let answer = bench.accepts(&bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap()).await;
    assert_eq!(step(&answer, "spf")["result"], "pass", "{:#}", step(&answer, "spf"));
}
