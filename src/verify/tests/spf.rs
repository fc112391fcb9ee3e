//! SPF beyond the published suite: mail-auth's errors, their trace in the record, and that none of
//! it changes a verdict.

use std::fmt::Write as _;

use super::{Bench, MAIL, NOW, spf_of, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;

/// Record of good.example, our result, mail-auth's (`-` if it needs another answer), look-ups, void
/// look-ups, and a part of the reason.
type Case = (&'static str, &'static str, &'static str, u64, u64, &'static str);

const CASES: &[Case] = &[
    ("v=spf1 ip4:192.0.2.1 -all", "pass", "pass", 0, 0, "ip4:192.0.2.1 of good.example matches"),
    ("v=spf1 ip4:192.0.2.2", "neutral", "neutral", 0, 0, "nothing in the record"),
    ("v=spf1 a:1.none.example a:2.none.example ?all", "neutral", "neutral", 2, 2, "?all"),
    (
        "v=spf1 a:1.none.example a:2.none.example a:3.none.example +all",
        "permerror",
        "pass",
        3,
        3,
        "more than 2 look-ups found nothing",
    ),
    (
        "v=spf1 mx:1.none.example exists:2.none.example ptr:x.example +all",
        "permerror",
        "-",
        3,
        3,
        "RFC 7208 4.6.4",
    ),
    // One term is one void look-up, however many hosts it has.
    ("v=spf1 mx:hosts.example ip4:192.0.2.1", "pass", "pass", 1, 1, "ip4:192.0.2.1"),
    // The qualifier of an inner include matters only to the inner record.
    ("v=spf1 ?include:outer.example -all", "neutral", "pass", 2, 0, "?include:outer.example"),
    ("v=spf1 -include:refusing.example +all", "pass", "fail", 2, 0, "+all of good.example"),
    // The owner of a PTR record can write anything into it.
    ("v=spf1 exists:ok.%{p} -all", "fail", "-", 1, 1, "-all"),
    ("v=spf1 ip6:::ffff:192.0.2.0/112 -all", "fail", "pass", 0, 0, "-all"),
    ("v=spf1 exists:six.example -all", "fail", "-", 1, 1, "-all"),
    ("v=spf1 ip4:192.0.2.1/33", "permerror", "pass", 0, 0, "/33 is not a prefix length"),
    ("v=spf1 ip4:192.0.2.1 moo", "permerror", "permerror", 0, 0, "\"moo\" is not a mechanism"),
    ("v=spf1 include:none.example +all", "permerror", "permerror", 1, 1, "no SPF record"),
    ("v=spf1 redirect=none.example", "permerror", "permerror", 1, 1, "no SPF record"),
    ("v=spf1 include:two.example +all", "permerror", "pass", 1, 0, "publishes 2 SPF records"),
    ("v=spf1 redirect=good.example", "permerror", "permerror", 11, 0, "more than 10 terms"),
    ("v=spf1 a:lost.example +all", "temperror", "-", 1, 0, "lost.example could not be"),
    ("v=spf10 +all", "none", "none", 0, 0, "publishes no SPF record"),
];

async fn bench() -> Bench {
    let bench = Bench::with(Zone::default(), "").await;
    for (name, record) in [
        ("outer.example", "v=spf1 include:inner.example -all"),
        ("refusing.example", "v=spf1 -include:inner.example ?all"),
        ("inner.example", "v=spf1 ip4:192.0.2.0/24 -all"),
        ("two.example", "v=spf1 +all"),
        ("two.example", "v=spf1 -all"),
    ] {
        bench.txt(name, record);
    }
    bench.record("1.2.0.192.in-addr.arpa", "PTR", "NOERROR", "trusted.example");
    bench.record("ok.trusted.example", "A", "NOERROR", "127.0.0.2");
    bench.record("six.example", "AAAA", "NOERROR", "2001:db8::1");
    bench.record("lost.example", "A", "SERVFAIL", "");
    bench.record("hosts.example", "MX", "NOERROR", "10 a.hosts.example");
    bench.record("hosts.example", "MX", "NOERROR", "10 b.hosts.example");
    bench.record("hosts.example", "MX", "NOERROR", "10 c.hosts.example");
    bench
}

#[tokio::test]
async fn what_mail_auth_says_is_corrected_and_the_record_says_why() {
    for (record, result, library, lookups, voids, why) in CASES.iter().copied() {
        let bench = bench().await;
        // For `ptr`, no name of the client leads back.
        bench.txt("good.example", record);
        if record.contains(" ptr:") {
            bench.dns.change(|zone| zone.remove("1.2.0.192.in-addr.arpa", "PTR")).unwrap();
        }
        let spf = spf_of(&bench, &bench.client, "x@good.example").await;
        let inputs = &spf["inputs"];
        assert_eq!(spf["result"], result, "{record}: {spf:#}");
        assert_eq!(inputs["library"].as_str().unwrap_or("-"), library, "{record}: {spf:#}");
        assert_eq!(inputs["lookups"], lookups, "{record}: {spf:#}");
        assert_eq!(inputs["voidLookups"], voids, "{record}: {spf:#}");
        let detail = spf["detail"].as_str().unwrap();
        assert!(detail.contains(why), "{record}: {detail}");
        let corrected = (result != library && library != "-").then_some(library);
        assert_eq!(inputs["correctedFrom"].as_str(), corrected, "{record}");
        assert_eq!(detail.contains("mail-auth would say"), corrected.is_some(), "{detail}");
    }
}

#[tokio::test]
async fn the_limit_of_void_lookups_is_the_operators() {
    for (limit, result) in [(0, "permerror"), (1, "pass"), (10, "pass")] {
        let rules = format!("[dns]\nmax_void_lookups = {limit}\n");
        let bench = Bench::with(Zone::default(), &rules).await;
        bench.txt("good.example", "v=spf1 a:none.example ip4:192.0.2.1");
        let spf = spf_of(&bench, &bench.client, "x@good.example").await;
        assert_eq!(spf["result"], result, "{limit}");
    }
}

/// RFC 7208 §4.6.4: ten terms with ten hosts each, the client's ten names (§5.5), and the record
/// itself: strangers cannot cause more queries.
#[tokio::test]
async fn a_tree_of_records_costs_a_bounded_number_of_questions() {
    let bench = Bench::new().await;
    let mut terms = String::new();
    for term in 0..12 {
        write!(terms, "mx:{term}.%{{p}}.big.example ").unwrap();
        for host in 0..10 {
            let host = format!("{term}.{host}.hosts.example");
            let value = format!("10 {host}");
            bench.record(&format!("{term}.unknown.big.example"), "MX", "NOERROR", &value);
            bench.record(&host, "A", "NOERROR", "198.51.100.1");
        }
    }
    for name in 0..12 {
        let name = format!("{name}.names.example");
        bench.record("1.2.0.192.in-addr.arpa", "PTR", "NOERROR", &name);
        bench.record(&name, "A", "NOERROR", "198.51.100.1");
    }
    bench.txt("good.example", &format!("v=spf1 {terms} -all"));
    let spf = spf_of(&bench, &bench.client, "x@good.example").await;
    assert_eq!(spf["result"], "permerror");
    assert_eq!(bench.dns.queries(), 1 + 10 * (1 + 10) + (1 + 10));
    assert_eq!(spf["dns"].as_array().unwrap().len(), 122);
}

/// Threats F: a stranger's record is neither expanded nor kept beyond its bounds.
#[tokio::test]
async fn a_record_of_macros_costs_little() {
    let rules = "[dns]\nmax_void_lookups = 10\n";
    let sender = format!("{}@good.example", "x".repeat(40));
    for (term, result, questions) in [
        // Every term of a record of allowed length; and a record that is too long. It comes over
        // TCP, because the answer over UDP is truncated.
        (format!("exists:{}", "%{s}".repeat(190)), "neutral", 12),
        (format!("exists:{}", "%{s}".repeat(1500)), "permerror", 2),
    ] {
        let bench = Bench::with(Zone::default(), rules).await;
        let terms: String = (0..10).fold(String::new(), |mut terms, n| {
            write!(terms, "{term}.{n}.x.example ").unwrap();
            terms
        });
        bench.txt("good.example", &format!("v=spf1 {terms}?all"));
        let spf = spf_of(&bench, &bench.client, &sender).await;
        assert_eq!(spf["result"], result, "{}", spf["detail"]);
        assert_eq!(bench.dns.queries(), questions);
        let names = spf["dns"].as_array().unwrap().iter();
        assert!(names.map(|one| one["name"].as_str().unwrap().len()).all(|octets| octets <= 253));
        assert!(spf.to_string().len() < 16_384, "{}", spf.to_string().len());
    }
}

#[tokio::test]
async fn what_is_longer_than_8_kib_is_no_record() {
    for (octets, result) in [(8192, "pass"), (8193, "permerror")] {
        let bench = Bench::new().await;
        let record = "v=spf1 ip4:192.0.2.1 x=";
        bench.txt("good.example", &format!("{record}{}", "y".repeat(octets - record.len())));
        let spf = spf_of(&bench, &bench.client, "x@good.example").await;
        assert_eq!((&spf["result"], &spf["inputs"]["library"]), (&result.into(), &result.into()));
    }
}

/// A label longer than any name leaves nothing, and the root is not queried instead.
#[tokio::test]
async fn a_name_without_a_dot_that_is_too_long_is_not_the_root() {
    let bench = Bench::new().await;
    bench.txt("good.example", &format!("v=spf1 exists:{}%{{l}} ?all", "x".repeat(250)));
    bench.record(".", "A", "NOERROR", "127.0.0.2");
    let spf = spf_of(&bench, &bench.client, "aaaa@good.example").await;
    assert_eq!(spf["result"], "neutral", "{spf:#}");
    assert_eq!(bench.dns.queries(), 1);
}

/// Contract §2: SPF is only recorded; no result of it changes the verdict.
#[tokio::test]
async fn no_result_of_spf_is_a_verdict() {
    for (record, fault, result) in [
        ("v=spf1 ip4:192.0.2.1 -all", "NOERROR", "pass"),
        ("v=spf1 -all", "NOERROR", "fail"),
        ("v=spf1 ~all", "NOERROR", "softfail"),
        ("v=spf1 ?all", "NOERROR", "neutral"),
        ("v=spf1 moo", "NOERROR", "permerror"),
        ("v=spf1 ip4:192.0.2.1/33", "NOERROR", "permerror"),
        ("", "SERVFAIL", "temperror"),
        ("", "NXDOMAIN", "none"),
    ] {
        let bench = Bench::new().await;
        bench.record("good.example", "TXT", fault, record);
        bench.txt("evil.example", "v=spf1 +all");
        let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        let answer = bench.accepts(&signed).await;
        assert_eq!(answer.summary["spf"]["result"], result, "{record}");
        assert_eq!(step(&answer, "spf")["result"], result, "{record}");
        assert_eq!(answer.detail, "signed by good.example");
        let unsigned = bench.refuses(MAIL.as_bytes(), Reason::DkimMissing, "").await;
        assert_eq!(unsigned.summary["spf"]["result"], result, "{record}");
        let other = bench.rsa("evil.example").sign(MAIL.as_bytes()).unwrap();
        let proof = bench.check(&other).await.proof;
        assert_eq!(proof, Proof::Unproven(Reason::DkimUnaligned), "{record}, {NOW}");
    }
}

/// The client's own words become names for queries, and parts of texts for people.
#[tokio::test]
async fn what_the_client_says_stays_inside_a_name() {
    let mut bench = Bench::new().await;
    bench.txt("good.example", "v=spf1 exists:%{l}.%{h}.x.example exists:%{S}.y.example ?all");
    bench.client.helo = "a.example; \u{7}".into();
    for local in ["a\r\nb", "\"q@r\"", "\u{e9}\u{202e}", "..", &"x".repeat(64), "%{d}", "*"] {
        let spf = spf_of(&bench, &bench.client, &format!("{local}@good.example")).await;
        assert_eq!(spf["result"], "neutral", "{local:?}: {spf:#}");
        assert!(!spf["detail"].as_str().unwrap().contains(|c: char| c.is_control()));
    }
}
