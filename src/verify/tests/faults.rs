//! DNS failures: the message is deferred if an answer could have changed the verdict; never
//! accepted, never refused for good.

use std::time::{Duration, Instant};

use super::forge::Forge;
use super::{Bench, MAIL, rsa_key, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;

const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\nmessage_budget_seconds = 2\n";
const DEFERRED: Proof = Proof::Undecidable(Reason::DnsUnavailable);

#[tokio::test]
async fn each_fault_of_a_key_lookup() {
    for (fault, proof) in [
        ("SERVFAIL", DEFERRED),
        ("REFUSED", DEFERRED),
        ("TIMEOUT", DEFERRED),
        ("GARBAGE", DEFERRED),
        ("NXDOMAIN", Proof::Unproven(Reason::DkimFailed)),
        ("NOERROR", Proof::Unproven(Reason::DkimFailed)),
    ] {
        let bench = Bench::with(Zone::default(), SHORT).await;
        let key = rsa_key("good.example");
        // NOERROR: the name exists, but only with another type.
        let kind = if fault == "NOERROR" { "A" } else { "TXT" };
        bench.record("s1._domainkey.good.example", kind, fault, "192.0.2.1");
        let start = Instant::now();
        let answer = bench.check(&Forge::new(&key, "").sign(MAIL)).await;
        assert_eq!(answer.proof, proof, "{fault}: {answer:#?}");
        assert!(start.elapsed() < Duration::from_secs(5), "{fault}");
        if proof == DEFERRED {
            assert!(answer.detail.contains("s1._domainkey.good.example"));
            assert_eq!(answer.summary["dkim"][0]["result"], "temperror");
        }
    }
}

#[tokio::test]
async fn truncated_answers_are_fetched_over_tcp() {
    let bench = Bench::with(Zone::default(), SHORT).await;
    let key = rsa_key("good.example");
    let record = key.txt_record().unwrap();
    bench.record("s1._domainkey.good.example", "TXT", "TRUNCATE", &record);
    bench.accepts(&Forge::new(&key, "").sign(MAIL)).await;
}

#[tokio::test]
async fn a_fault_that_could_not_change_the_verdict_defers_nothing() {
    let bench = Bench::with(Zone::default(), SHORT).await;
    let good = bench.rsa("good.example");
    let lost = rsa_key("other.example");
    bench.record("s2._domainkey.good.example", "TXT", "SERVFAIL", "");
    let other = |d: &str, extra: &str| {
        let tags = format!("v=1; a=rsa-sha256; c=relaxed/relaxed; d={d}; s=s2; h=from; {extra}");
        Forge::tagged(&lost, &tags, &["from"]).sign(MAIL)
    };
    // Another signature authenticates.
    let both = String::from_utf8(other("good.example", "")).unwrap();
    bench.accepts(&good.sign(both.as_bytes()).unwrap()).await;
    // Its domain is not aligned.
    bench.record("s2._domainkey.evil.example", "TXT", "SERVFAIL", "");
    bench.refuses(&other("evil.example", ""), Reason::DkimFailed, "evil.example").await;
    // It would not count.
    bench.refuses(&other("good.example", "x=1;"), Reason::DkimFailed, "").await;
    // Its body hash is wrong.
    let changed = both.replace("Hello.", "Hallo.");
    bench.refuses(changed.as_bytes(), Reason::DkimFailed, "body hash").await;
}

#[tokio::test]
async fn faults_of_spf_and_dmarc_change_nothing() {
    for fault in ["SERVFAIL", "REFUSED", "TIMEOUT", "GARBAGE"] {
        let bench = Bench::with(Zone::default(), SHORT).await;
        bench.record("good.example", "TXT", fault, "");
        bench.record("_dmarc.good.example", "TXT", fault, "");
        let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
        let answer = bench.accepts(&signed).await;
        assert_eq!(answer.summary["spf"]["result"], "temperror", "{fault}");
        assert_eq!(answer.summary["dmarc"]["result"], "temperror", "{fault}");
        bench.refuses(MAIL.as_bytes(), Reason::DkimMissing, "").await;
    }
}

#[tokio::test]
async fn each_step_says_how_long_it_took_itself() {
    let bench = Bench::with(Zone::default(), SHORT).await;
    bench.record("good.example", "TXT", "TIMEOUT", "");
    let answer = bench.accepts(&bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap()).await;
    let micros = |name| step(&answer, name)["micros"].as_u64().unwrap();
    assert!(micros("spf") >= 1_000_000, "{answer:#?}");
    assert!(micros("dkim") < micros("spf"), "{answer:#?}");
}

#[tokio::test]
async fn the_budget_is_one_for_everything() {
    let bench = Bench::with(
        Zone::default(),
        "[dns]\nquery_timeout_seconds = 10\nretries = 5\nmessage_budget_seconds = 1\n",
    )
    .await;
    for name in ["s1._domainkey.good.example", "good.example", "_dmarc.good.example"] {
        bench.record(name, "TXT", "TIMEOUT", "");
    }
    let key = rsa_key("good.example");
    let start = Instant::now();
    let answer = bench.check(&Forge::new(&key, "").sign(MAIL)).await;
    assert_eq!(answer.proof, DEFERRED);
    // In sequence, with retries, the queries would take three minutes.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test]
async fn an_outage_that_ends_is_over_at_once() {
    let bench = Bench::with(Zone::default(), SHORT).await;
    let key = rsa_key("good.example");
    let mail = Forge::new(&key, "").sign(MAIL);
    bench.record("s1._domainkey.good.example", "TXT", "SERVFAIL", "");
    assert_eq!(bench.check(&mail).await.proof, DEFERRED);
    bench.txt("s1._domainkey.good.example", &key.txt_record().unwrap());
    bench.accepts(&mail).await;
}

#[tokio::test]
async fn keys_are_cached_and_rotated_by_their_ttl() {
    for (ttl, proof) in [(300, Proof::Authenticated), (0, Proof::Unproven(Reason::DkimFailed))] {
        let bench = Bench::with(Zone::default().with_ttl(ttl), SHORT).await;
        let key = rsa_key("good.example");
        let name = "s1._domainkey.good.example";
        let other = rsa_key("other.example");
        let records = [key.txt_record().unwrap(), other.txt_record().unwrap()];
        bench.txt(name, &records[0]);
        let mail = Forge::new(&key, "").sign(MAIL);
        bench.accepts(&mail).await;
        bench.dns.change(|zone| zone.remove(name, "TXT")).unwrap();
        bench.txt(name, &records[1]);
        let answer = bench.check(&mail).await;
        assert_eq!(answer.proof, proof, "ttl {ttl}");
        // The evidence has the answer that was used, whatever is published at that moment.
        let used = &records[usize::from(ttl == 0)];
        assert_eq!(step(&answer, "dkim")["dns"][0]["answer"][0], used.as_str(), "ttl {ttl}");
        assert_eq!(bench.dns.queries_for(name), if ttl == 0 { 2 } else { 1 });
    }
}

#[tokio::test]
async fn aliases_and_large_and_mixed_answers() {
    let bench = Bench::with(Zone::default(), SHORT).await;
    let key = rsa_key("good.example");
    let mail = Forge::new(&key, "").sign(MAIL);
    let name = "s1._domainkey.good.example";
    // Many domains publish their provider's key by an alias.
    bench.record(name, "CNAME", "NOERROR", "key.provider.example");
    bench.txt("key.provider.example", &key.txt_record().unwrap());
    let answer = bench.accepts(&mail).await;
    assert_eq!(step(&answer, "dkim")["dns"][0]["name"], name);

    let bench = Bench::with(Zone::default(), SHORT).await;
    bench.txt(name, &"x".repeat(4000));
    bench.txt(name, "google-site-verification=abc");
    bench.txt(name, &key.txt_record().unwrap());
    bench.accepts(&mail).await;

    // An uselessly long key record.
    let bench = Bench::with(Zone::default(), SHORT).await;
    bench.txt(name, &format!("{}; n={}", key.txt_record().unwrap(), "x".repeat(16_000)));
    bench.refuses(&mail, Reason::DkimFailed, "").await;

    // An alias to itself ends, and accepts nothing.
    let bench = Bench::with(Zone::default(), SHORT).await;
    bench.record(name, "CNAME", "NOERROR", name);
    assert_ne!(bench.check(&mail).await.proof, Proof::Authenticated);
}

/// Silent DNS servers of strangers delay a message at most for their budgets, and take no time from
/// the verification.
#[tokio::test]
async fn what_is_only_recorded_is_waited_for_within_its_budget() {
    let rules = "[dns]\nquery_timeout_seconds = 10\nretries = 5\nmessage_budget_seconds = 60\n\
                 spf_budget_seconds = 1\ndmarc_budget_seconds = 1\niprev_budget_seconds = 1\n";
    let bench = Bench::with(Zone::default(), rules).await;
    for (name, kind) in
        [("good.example", "TXT"), ("_dmarc.good.example", "TXT"), ("1.2.0.192.in-addr.arpa", "PTR")]
    {
        bench.record(name, kind, "TIMEOUT", "");
    }
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    let start = Instant::now();
    let answer = bench.accepts(&signed).await;
    for name in ["spf", "dmarc", "iprev"] {
        assert_eq!(answer.summary[name]["result"], "temperror", "{name}");
    }
    // The budget of the message is a minute, and so are the queries with all their retries.
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_silent_server_of_spf_takes_no_time_from_a_message_that_waits_for_a_thread() {
    // A single query takes the whole budget.
    let rules = "[dns]\nquery_timeout_seconds = 10\nmessage_budget_seconds = 2\n\
                 [authentication]\noffload_above_bytes = 0\nmax_offloaded = 1\n";
    let mut bench = Bench::with(Zone::default(), rules).await;
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    // Now the key is cached, and only SPF is slow.
    bench.accepts(&signed).await;
    bench.record("silent.example", "TXT", "TIMEOUT", "");
    bench.reverse_path = "x@silent.example".into();
    let places = std::sync::Arc::clone(&bench.authenticator.places);
    let mut place = Some(places.try_acquire().unwrap());
    // The only thread is held until the message waits for it: if the message asked only after SPF
    // ended, its budget would be spent.
    let others = async {
        while place.take().is_some() {
            place = places.try_acquire().ok();
            tokio::task::yield_now().await;
        }
    };
    let (answer, ()) = tokio::join!(bench.accepts(&signed), others);
    assert_eq!(answer.summary["spf"]["result"], "temperror");
}
