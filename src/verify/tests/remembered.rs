//! A result cached for another message equals the result without the cache.

use serde_json::{Value, json};

use super::{Bench, step};
use crate::testkit::dns::Zone;
use crate::testkit::signer::{Key, Signer};

/// Some answers depend on the local part, on HELO, on the client and on its names.
const RECORDS: &[(&str, &str, &str, &str)] = &[
    ("good.example", "TXT", "NOERROR", "v=spf1 include:in.example exists:%{h}.helo.example -all"),
    ("in.example", "TXT", "NOERROR", "v=spf1 exists:%{l}.in.example ip4:192.0.2.1 ~all"),
    ("al.in.example", "A", "NOERROR", "127.0.0.2"),
    ("out.test.helo.example", "A", "NOERROR", "127.0.0.2"),
    ("plain.example", "TXT", "NOERROR", "v=spf1 ip4:192.0.2.1 ptr ?all"),
    ("2.2.0.192.in-addr.arpa", "PTR", "NOERROR", "mail.plain.example"),
    ("mail.plain.example", "A", "NOERROR", "192.0.2.2"),
    ("_dmarc.good.example", "TXT", "NOERROR", "v=DMARC1; p=reject; adkim=s"),
    ("_dmarc.plain.example", "TXT", "NOERROR", "v=DMARC1; p=quarantine"),
    ("lost.example", "TXT", "SERVFAIL", ""),
    // mail-auth continues where the limit of void look-ups ends our evaluation.
    (
        "void.example",
        "TXT",
        "NOERROR",
        "v=spf1 a:n1.void.example a:n2.void.example a:n3.void.example exists:%{L}.void.example -all",
    ),
    ("three.example", "TXT", "NOERROR", "v=spf1 redirect=plain.example"),
    ("sub.good.example", "TXT", "NOERROR", "v=spf1 -all"),
    ("_dmarc.three.example", "TXT", "NXDOMAIN", ""),
];

/// Removes the values that differ each time.
fn timeless(mut shown: Value) -> Value {
    match &mut shown {
        Value::Array(values) => values.iter_mut().for_each(|one| *one = timeless(one.take())),
        Value::Object(fields) => {
            for (name, value) in fields {
                let is_time = matches!(name.as_str(), "micros" | "ttl");
                *value = if is_time { json!(value.is_null()) } else { timeless(value.take()) };
            }
        }
        _ => {}
    }
    shown
}

#[tokio::test]
async fn what_is_remembered_is_what_would_be_found() {
    let mut zone = Zone::default().with_ttl(300);
    for (name, kind, code, value) in RECORDS.iter().copied() {
        zone.insert(name, kind, code, value).unwrap();
    }
    let signers = ["good.example", "sub.good.example", "plain.example"].map(|domain| {
        let signer = Signer::new(Key::generate_ed25519().unwrap(), domain, "s1");
        let record = signer.key().txt_record().unwrap();
        zone.insert(&signer.key_name(), "TXT", "NOERROR", &record).unwrap();
        signer
    });
    let mut warm =
        Bench::with(zone.clone(), "[dns]\nquery_timeout_seconds = 1\nretries = 0\n").await;
    let mut seen = 0;
    let paths = [
        "al@good.example",
        "bo@good.example",
        "x@plain.example",
        "y@three.example",
        "",
        "z@lost.example",
        "n1@void.example",
        "bob@void.example",
    ];
    for round in 0..2 {
        for (n, path) in paths.iter().enumerate() {
            for (last, helo) in [(1, "out.test"), (2, "plain.example"), (2, "good.example")] {
                let mut cold = Bench::with(zone.clone(), "").await;
                for bench in [&mut warm, &mut cold] {
                    bench.client.address = [192, 0, 2, last].into();
                    bench.client.helo = helo.into();
                    bench.reverse_path = (*path).into();
                }
                let from = ["sub.good.example", "good.example", "plain.example"][(n + round) % 3];
                let text =
                    format!("From: a@{from}\r\nDate: Mon, 1 Jan 2026 00:00:00 +0000\r\n\r\nx\r\n");
                let raw = signers[n % 3].sign(text.as_bytes()).unwrap();
                let sender = format!("a@{from}");
                let found = warm.check_from(&raw, &sender).await;
                let expected = cold.check_from(&raw, &sender).await;
                let what = format!("{path} {helo} {from}");
                assert_eq!(timeless(found.steps.clone()), timeless(expected.steps), "{what}");
                assert_eq!(step(&found, "spf")["inputs"]["reversePath"], *path);
                assert_eq!(
                    (found.summary, found.proof),
                    (expected.summary, expected.proof),
                    "{what}"
                );
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 48);
    // For three clients with their HELO: plain.example, three.example and HELO itself. Results that
    // failed or depend on the local part are not cached.
    let results = warm.authenticator.resolver.results();
    assert_eq!((results.spf.count(), results.iprev.count()), (8, 2));
    assert!(results.dmarc.count() > 10, "{}", results.dmarc.count());
}
