//! The client's name (RFC 8601 §3): recorded with its answers; no verdict.

use std::time::{Duration, Instant};

use super::{Bench, MAIL, step};
use crate::testkit::dns::Zone;

const V4: &str = "1.2.0.192.in-addr.arpa";
const V6: &str = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";

/// Records (name, type, rcode, value), and the result.
type Case = (&'static [(&'static str, &'static str, &'static str, &'static str)], &'static str);

const CASES: &[Case] = &[
    (
        &[
            (V4, "PTR", "NOERROR", "Out.good.example"),
            ("out.good.example", "A", "NOERROR", "192.0.2.1"),
        ],
        "pass",
    ),
    (&[], "permerror"),
    (&[(V4, "A", "NOERROR", "192.0.2.1")], "permerror"),
    (&[(V4, "PTR", "SERVFAIL", "")], "temperror"),
    (&[(V4, "PTR", "REFUSED", "")], "temperror"),
    (&[(V4, "PTR", "TIMEOUT", "")], "temperror"),
    (&[(V4, "PTR", "NOERROR", "out.good.example")], "fail"),
    (
        &[
            (V4, "PTR", "NOERROR", "out.good.example"),
            ("out.good.example", "A", "NOERROR", "192.0.2.9"),
        ],
        "fail",
    ),
    (
        &[(V4, "PTR", "NOERROR", "out.good.example"), ("out.good.example", "A", "SERVFAIL", "")],
        "temperror",
    ),
    (
        &[
            (V4, "PTR", "NOERROR", "lost.example"),
            (V4, "PTR", "NOERROR", "out.good.example"),
            ("lost.example", "A", "SERVFAIL", ""),
            ("out.good.example", "A", "NOERROR", "192.0.2.9"),
            ("out.good.example", "A", "NOERROR", "192.0.2.1"),
        ],
        "pass",
    ),
];

const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\niprev_budget_seconds = 1\n";

#[tokio::test]
async fn the_name_of_the_client_is_recorded_and_no_verdict() {
    for (zone, result) in CASES.iter().copied() {
        let bench = Bench::with(Zone::default(), SHORT).await;
        for (name, kind, rcode, value) in zone {
            bench.record(name, kind, rcode, value);
        }
        let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        let answer = bench.accepts(&signed).await;
        let iprev = step(&answer, "iprev");
        assert_eq!(iprev["result"], result, "{zone:?}: {iprev:#}");
        let name = (result == "pass").then_some("out.good.example");
        let summary = &answer.summary["iprev"];
        assert_eq!((summary["result"].as_str(), summary["name"].as_str()), (Some(result), name));
        let asked = iprev["dns"].as_array().unwrap();
        assert_eq!((&asked[0]["name"], &asked[0]["type"]), (&V4.into(), &"PTR".into()));
        let hosts = zone.iter().filter(|record| record.1 == "PTR" && record.2 == "NOERROR").count();
        assert_eq!(asked.len(), 1 + hosts, "{iprev:#}");
    }
}

#[tokio::test]
async fn ipv6_and_what_is_ipv4_inside_it() {
    for (client, pointer, kind, address) in
        [("2001:db8::1", V6, "AAAA", "2001:db8::1"), ("::ffff:192.0.2.1", V4, "A", "192.0.2.1")]
    {
        let mut bench = Bench::new().await;
        bench.client.address = client.parse().unwrap();
        bench.record(pointer, "PTR", "NOERROR", "out.good.example");
        bench.record("out.good.example", kind, "NOERROR", address);
        let answer = bench.check(MAIL.as_bytes()).await;
        assert_eq!(answer.summary["iprev"]["result"], "pass", "{client}");
    }
}

#[tokio::test]
async fn ten_names_are_looked_at() {
    for (place, result) in [(9, "pass"), (10, "fail")] {
        let bench = Bench::new().await;
        for name in 0..12 {
            let host = format!("h{name}.example");
            bench.record(V4, "PTR", "NOERROR", &host);
            let address = if name == place { "192.0.2.1" } else { "192.0.2.9" };
            bench.record(&host, "A", "NOERROR", address);
        }
        let answer = bench.check(MAIL.as_bytes()).await;
        assert_eq!(answer.summary["iprev"]["result"], result);
        assert_eq!(bench.dns.queries_for("h9.example"), 1);
        assert_eq!(bench.dns.queries_for("h10.example"), 0);
    }
}

/// The silent DNS server of a stranger's address must not delay its message, and others', for the
/// whole budget.
#[tokio::test]
async fn a_silent_server_of_names_is_not_waited_for_long() {
    let rules = "[dns]\nquery_timeout_seconds = 10\nretries = 5\nmessage_budget_seconds = 60\n\
                 iprev_budget_seconds = 1\n";
    let bench = Bench::with(Zone::default(), rules).await;
    bench.record(V4, "PTR", "TIMEOUT", "");
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    let start = Instant::now();
    let answer = bench.accepts(&signed).await;
    assert_eq!(answer.summary["iprev"]["result"], "temperror");
    // The budget of the message is a minute, and so are the queries with all their retries.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

/// A label may contain any bytes, and people read lines with the name.
#[tokio::test]
async fn a_name_cannot_leave_its_place() {
    let bench = Bench::new().await;
    let name = "a\r\nx:\u{9b}.example";
    bench.record(V4, "PTR", "NOERROR", name);
    bench.record(name, "A", "NOERROR", "192.0.2.1");
    let answer = bench.check(MAIL.as_bytes()).await;
    let iprev = &answer.summary["iprev"];
    assert_eq!((&iprev["result"], &iprev["name"]), (&"pass".into(), &"a??x:?.example".into()));
}

#[tokio::test]
async fn nobody_is_asked_about_an_address_that_every_host_has() {
    for client in ["0.0.0.0", "::", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        let mut bench = Bench::new().await;
        bench.client.address = client.parse().unwrap();
        let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        let answer = bench.accepts(&signed).await;
        let iprev = step(&answer, "iprev");
        assert_eq!((&iprev["result"], &iprev["dns"]), (&"none".into(), &serde_json::json!([])));
        assert!(iprev["detail"].as_str().unwrap().starts_with(client), "{iprev}");
        assert_eq!(answer.summary["iprev"]["result"], "none");
    }
}
