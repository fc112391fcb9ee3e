//! The resolver in use: cached and repeated queries, large answers, failures, and the time budget.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;

use super::forge::Forge;
use super::{Bench, MAIL, rules, spf_of, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;
use crate::testkit::signer::Key;
use crate::verify::{Authenticator, Servers};

const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n";
const DEFERRED: Proof = Proof::Undecidable(Reason::DnsUnavailable);

#[tokio::test]
async fn answers_are_asked_for_once_within_their_ttl_negative_ones_too() {
    for (ttl, times) in [(300, 1), (0, 3)] {
        let bench = Bench::with(Zone::default().with_ttl(ttl), "").await;
        bench.txt("good.example", "v=spf1 a:none.example a:text.example mx -all");
        bench.txt("text.example", "there are no addresses");
        let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        for _ in 0..3 {
            let answer = bench.accepts(&signed).await;
            assert_eq!(answer.summary["spf"]["result"], "permerror");
        }
        for name in
            ["s1._domainkey.good.example", "_dmarc.good.example", "none.example", "text.example"]
        {
            assert_eq!(bench.dns.queries_for(name), times, "{name}, ttl {ttl}");
        }
        // TXT and MX.
        assert_eq!(bench.dns.queries_for("good.example"), 2 * times, "ttl {ttl}");
        assert_eq!(bench.dns.queries_for("1.2.0.192.in-addr.arpa"), times, "ttl {ttl}");
    }
}

#[tokio::test]
async fn without_a_cache_everything_is_asked_again() {
    let bench = Bench::with(Zone::default(), "[dns]\ncache_mib = 0\n").await;
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    for times in 1..3 {
        bench.accepts(&signed).await;
        assert_eq!(bench.dns.queries_for("s1._domainkey.good.example"), times);
    }
}

#[tokio::test]
async fn failures_are_asked_again() {
    for fault in ["SERVFAIL", "REFUSED"] {
        let bench = Bench::with(Zone::default(), SHORT).await;
        bench.record("s1._domainkey.good.example", "TXT", fault, "");
        let key = Key::generate_ed25519().unwrap();
        let mail = Forge::new(&key, "").sign(MAIL);
        for times in 1..3 {
            bench.check(&mail).await;
            assert!(bench.dns.queries_for("s1._domainkey.good.example") >= times, "{fault}");
        }
    }
}

/// An answer over UDP has a few hundred bytes; the rest is fetched over TCP, and its character
/// strings of 255 bytes are joined.
#[tokio::test]
async fn large_answers_are_read_whole() {
    let bench = Bench::new().await;
    let mut record = "v=spf1".to_owned();
    while record.len() < 8_100 {
        write!(record, " ip4:198.51.100.{}", record.len() % 256).unwrap();
    }
    bench.txt("good.example", &format!("{record} ip4:192.0.2.1 -all"));
    let spf = spf_of(&bench, &bench.client, "x@good.example").await;
    assert_eq!(spf["result"], "pass");
    // Among many others, each of which proves something to another party.
    let bench = Bench::new().await;
    for n in 0..40 {
        bench.txt("good.example", &format!("site-verification={n}{}", "x".repeat(400)));
    }
    bench.txt("good.example", "v=spf1 ip4:192.0.2.1 -all");
    let spf = spf_of(&bench, &bench.client, "x@good.example").await;
    assert_eq!(spf["result"], "pass");
    assert_eq!(spf["dns"][0]["answer"].as_array().unwrap().len(), 41);
}

/// Excess records are dropped, so that they cost no memory.
#[tokio::test]
async fn an_answer_of_too_many_records_is_cut() {
    let bench = Bench::new().await;
    bench.txt("good.example", "v=spf1 a:many.example -all");
    for n in 0..1000 {
        let address = format!("198.51.{}.{}", n / 250, n % 250);
        bench.record("many.example", "A", "NOERROR", &address);
    }
    let spf = spf_of(&bench, &bench.client, "x@good.example").await;
    assert_eq!(spf["result"], "fail");
    assert_eq!(spf["dns"][1]["answer"].as_array().unwrap().len(), 100);
    assert_eq!(spf["dns"][1]["truncated"], true);
}

#[tokio::test]
async fn aliases_are_followed_whatever_is_asked_for() {
    let bench = Bench::new().await;
    for (name, kind, value) in [
        ("good.example", "CNAME", "records.provider.example"),
        ("records.provider.example", "TXT", "v=spf1 a:www.good.example -all"),
        ("www.good.example", "CNAME", "web.provider.example"),
        ("web.provider.example", "CNAME", "host.provider.example"),
        ("host.provider.example", "A", "192.0.2.1"),
        ("loop.example", "CNAME", "pool.example"),
        ("pool.example", "CNAME", "loop.example"),
    ] {
        bench.record(name, kind, "NOERROR", value);
    }
    let spf = spf_of(&bench, &bench.client, "x@good.example").await;
    assert_eq!(spf["result"], "pass", "{spf:#}");
    // An alias to itself ends, and is no pass.
    let start = Instant::now();
    let spf = spf_of(&bench, &bench.client, "x@loop.example").await;
    assert_ne!(spf["result"], "pass");
    assert!(start.elapsed() < Duration::from_secs(20));
}

/// A server that sends the answer made by `reply` over UDP, and never answers over TCP.
async fn crooked(reply: impl Fn(&mut Vec<u8>) + Send + 'static) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut buffer = vec![0; 1500];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            let mut octets = buffer[..length].to_vec();
            reply(&mut octets);
            if !octets.is_empty() {
                let _ = socket.send_to(&octets, client).await;
            }
        }
    });
    address
}

async fn asking(server: SocketAddr, overrides: &str) -> Bench {
    let mut bench = Bench::new().await;
    let servers = Servers::Given(vec![server]);
    bench.authenticator = Authenticator::new(servers, &rules(overrides), "gw.example").unwrap();
    bench
}

/// Name of the fault, and the change to the question.
type Crime = (&'static str, fn(&mut Vec<u8>));

/// No forged or broken answer accepts or refuses.
#[tokio::test]
async fn what_is_no_answer_defers() {
    // RFC 1035 §4.1.1: bytes 0 and 1 are the id, 2 has QR (0x80) and TC (0x02), 3 has RCODE.
    let crimes: [Crime; 6] = [
        ("silence", Vec::clear),
        ("another id", |octets| {
            octets[0] ^= 0xff;
            octets[2] |= 0x80;
        }),
        ("truncated, and nobody at TCP", |octets| octets[2] |= 0x82),
        ("the question again", |_| {}),
        ("not implemented", |octets| {
            octets[2] |= 0x80;
            octets[3] = 4;
        }),
        ("a header that is cut", |octets| {
            octets[2] |= 0x80;
            octets.truncate(11);
        }),
    ];
    let key = Key::generate_ed25519().unwrap();
    let tags = "v=1; a=ed25519-sha256; c=relaxed/relaxed; d=good.example; s=s1; h=from;";
    let mail = Forge::tagged(&key, tags, &["from"]).sign(MAIL);
    for (crime, reply) in crimes {
        let bench =
            asking(crooked(reply).await, &format!("{SHORT}message_budget_seconds = 2\n")).await;
        let answer = bench.check(&mail).await;
        assert_eq!(answer.proof, DEFERRED, "{crime}: {answer:#?}");
        for name in ["spf", "dmarc", "iprev"] {
            assert_eq!(answer.summary[name]["result"], "temperror", "{crime}");
        }
    }
}

/// Ten signatures, SPF, the client's name and DMARC, and no server responds: one budget covers all.
#[tokio::test]
async fn the_budget_holds_when_every_server_is_silent() {
    let overrides = "[dns]\nquery_timeout_seconds = 10\nretries = 5\nmessage_budget_seconds = 1\n";
    let bench = asking(crooked(Vec::clear).await, overrides).await;
    let key = Key::generate_ed25519().unwrap();
    let mut mail = MAIL.to_owned();
    for n in 0..10 {
        let tags =
            format!("v=1; a=ed25519-sha256; c=relaxed/relaxed; d=good.example; s=s{n}; h=from;");
        mail = String::from_utf8(Forge::tagged(&key, &tags, &["from"]).sign(&mail)).unwrap();
    }
    let start = Instant::now();
    let answer = bench.check(mail.as_bytes()).await;
    assert_eq!(answer.proof, DEFERRED);
    assert_eq!(step(&answer, "dkim")["dns"].as_array().unwrap().len(), 10);
    // A single query with its retries would take a minute.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}
