//! The acceptance rule of contract §2, item by item.

use mail_auth::dkim::Canonicalization::{Relaxed, Simple};
use serde_json::json;

use super::forge::Forge;
use super::{Bench, MAIL, NOW, rsa_key, step};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::dns::Zone;
use crate::testkit::signer::{Key, Signer};

const WEEK: i64 = 7 * 86_400;

#[tokio::test]
async fn an_aligned_signature_authenticates() {
    let bench = Bench::new().await;
    bench.txt("good.example", "v=spf1 ip4:192.0.2.1 -all");
    bench.txt("_dmarc.good.example", "v=DMARC1; p=reject");
    let signer = bench.rsa("good.example");
    let signed = signer.sign(MAIL.as_bytes()).unwrap();
    let answer = bench.accepts(&signed).await;
    assert_eq!(answer.detail, "signed by good.example");
    assert_eq!(answer.summary["alignedDomain"], "good.example");
    assert_eq!(answer.summary["unsignedHeaders"], json!([]));
    assert_eq!(
        answer.summary["spf"],
        json!({"result": "pass", "domain": "good.example", "identity": "mailfrom"})
    );
    assert_eq!(answer.summary["dmarc"], json!({"result": "pass", "policy": "reject"}));
    assert_eq!(answer.summary["arc"]["result"], "none");
    let dkim = &answer.summary["dkim"][0];
    assert_eq!(dkim["result"], "pass");
    assert_eq!(dkim["algorithm"], "rsa-sha256");
    assert_eq!(dkim["keyBits"], 2048);
    assert_eq!(dkim["counts"], true);
    assert_eq!((&dkim["domain"], &dkim["selector"]), (&json!("good.example"), &json!("s1")));
    // As in the signature's h=, folded.
    let text = String::from_utf8(signed).unwrap();
    let listed = text.split_once("h=").unwrap().1.split_once(';').unwrap().0.to_lowercase();
    let listed: Vec<_> = listed.split(':').map(str::trim).collect();
    assert!(listed.contains(&"from") && listed.contains(&"subject"), "{listed:?}");
    assert_eq!(dkim["signedHeaders"], json!(listed));
    let names: Vec<_> = answer.steps.as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["dkim", "alignment", "spf", "arc", "dmarc", "iprev"]);
    let asked = &step(&answer, "dkim")["dns"][0];
    assert_eq!(asked["name"], "s1._domainkey.good.example");
    assert_eq!(asked["ttl"], 300);
    assert!(asked["answer"][0].as_str().unwrap().starts_with("v=DKIM1; k=rsa; p=MII"));
    let asked = &step(&answer, "spf")["dns"][0];
    assert_eq!(asked["answer"][0], "v=spf1 ip4:192.0.2.1 -all");
}

#[tokio::test]
async fn every_canonicalization_and_both_algorithms() {
    for key in [rsa_key("good.example"), Key::generate_ed25519().unwrap()] {
        let key = Key::from_pem(&key.to_pem()).unwrap();
        let bench = Bench::new().await;
        let signer = bench.signer(key, "good.example", "s1");
        for header in [Relaxed, Simple] {
            for body in [Relaxed, Simple] {
                let signer = signer.clone().canonicalization(header, body);
                bench.accepts(&signer.sign(MAIL.as_bytes()).unwrap()).await;
            }
        }
    }
}

#[tokio::test]
async fn no_signature_or_none_that_verifies() {
    let bench = Bench::new().await;
    bench.refuses(MAIL.as_bytes(), Reason::DkimMissing, "no DKIM-Signature").await;
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    let text = String::from_utf8(signed).unwrap();
    for (changed, why) in [
        (text.replace("Hello.", "Hallo."), "body hash"),
        (text.replace("Subject: Hi", "Subject: Ho"), ""),
        (text.replace("s=s1", "s=s2"), "not found"),
        (text.replace("bh=", "bh=!"), "unreadable"),
    ] {
        bench.refuses(changed.as_bytes(), Reason::DkimFailed, why).await;
    }
    let broken = format!("DKIM-Signature: nonsense\r\n{MAIL}");
    bench.refuses(broken.as_bytes(), Reason::DkimFailed, "unreadable").await;
}

#[tokio::test]
async fn what_counts_and_what_does_not() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let key = signer.key();
    for (tags, why) in [
        (format!("t={};", NOW - 10), None),
        (format!("t={};", NOW + 299), None),
        (format!("t={};", NOW + WEEK + 1), Some("ahead of our clock")),
        (format!("t={}; l=9;", NOW + 301), Some("ahead of our clock; l= covers")),
        (format!("t={}; x={};", NOW - 10, NOW + 10), None),
        (format!("t={}; x={};", NOW - 10, NOW - 1), Some("expired")),
        ("t=900000000; x=1000000000;".into(), Some("expired")),
        ("l=8;".into(), None),
        ("l=9;".into(), Some("l= covers 9 of 8")),
        ("d=good.example;".into(), Some("d= appears twice")),
        ("i=boss@good.example;".into(), None),
        ("i=boss@sub.good.example;".into(), None),
        ("i=boss@evil.example;".into(), Some("i= lies outside d=")),
        ("i=boss@notgood.example;".into(), Some("i= lies outside d=")),
        ("i=boss;".into(), Some("i= lies outside d=")),
        ("q=dns/txt;".into(), None),
        ("q=carrier/pigeon;".into(), Some("q=")),
        ("z=Subject:Hi; foo=bar;".into(), None),
    ] {
        let mail = Forge::new(key, &tags).sign(MAIL);
        match why {
            None => drop(bench.accepts(&mail).await),
            Some(why) => drop(bench.refuses(&mail, Reason::DkimUnacceptable, why).await),
        }
    }
}

/// One of two clocks is wrong, and it may be either: a signature that would count later defers.
#[tokio::test]
async fn what_was_signed_ahead_of_our_clock_waits_unless_another_signature_counts() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let ahead = |seconds: i64| {
        let mail = Forge::new(signer.key(), &format!("t={};", NOW + seconds)).sign(MAIL);
        String::from_utf8(mail).unwrap()
    };
    for seconds in [301, 3600, WEEK] {
        let answer = bench.check(ahead(seconds).as_bytes()).await;
        assert_eq!(answer.proof, Proof::Undecidable(Reason::DkimNotYetValid), "{seconds}");
        assert!(answer.detail.contains(&format!("t= is {seconds} seconds ahead")));
        assert_eq!(answer.summary["dkim"][0]["result"], "policy");
        assert_eq!(step(&answer, "alignment")["result"], "temperror");
        let causes = &step(&answer, "alignment")["inputs"]["causes"];
        assert_eq!(*causes, serde_json::json!(["not_yet_valid"]));
    }
    // Another signature counts, and a failed one does not spoil it.
    bench.accepts(&signer.sign(ahead(3600).as_bytes()).unwrap()).await;
    let failed = rsa_key("other.example");
    let both = String::from_utf8(Forge::new(&failed, "").sign(&ahead(3600))).unwrap();
    let answer = bench.check(both.as_bytes()).await;
    assert_eq!(answer.proof, Proof::Undecidable(Reason::DkimNotYetValid));
    // Never aligned, or forged: no reason to wait.
    let stranger = bench.rsa("evil.example");
    let tags = format!(
        "v=1; a=rsa-sha256; c=relaxed/relaxed; d=evil.example; s=s1; h=from; t={};",
        NOW + 3600
    );
    let mail = Forge::tagged(stranger.key(), &tags, &["from"]).sign(MAIL);
    bench.refuses(&mail, Reason::DkimUnacceptable, "ahead of our clock").await;
    let forged = ahead(3600).replace("Subject: Hi", "Subject: Ho");
    bench.refuses(forged.as_bytes(), Reason::DkimFailed, "").await;
    // The key look-up fails: with the key, the signature might count later.
    let fresh = Bench::new().await;
    fresh.record("s1._domainkey.good.example", "TXT", "SERVFAIL", "");
    let answer = fresh.check(ahead(3600).as_bytes()).await;
    assert_eq!(answer.proof, Proof::Undecidable(Reason::DnsUnavailable));
}

#[tokio::test]
async fn how_far_ahead_waits_is_the_operators() {
    for (rules, days, waits) in [
        ("defer_future_days = 0\n", 0, false),
        ("defer_future_days = 1\n", 1, true),
        ("defer_future_days = 1\n", 2, false),
    ] {
        let bench = Bench::with(Zone::default(), &format!("[authentication]\n{rules}")).await;
        let signer = bench.rsa("good.example");
        let signed = NOW + days * 86_400 + if days == 0 { 301 } else { 0 };
        let answer =
            bench.check(&Forge::new(signer.key(), &format!("t={signed};")).sign(MAIL)).await;
        let expected = if waits {
            Proof::Undecidable(Reason::DkimNotYetValid)
        } else {
            Proof::Unproven(Reason::DkimUnacceptable)
        };
        assert_eq!(answer.proof, expected, "{rules} {days}");
    }
}

#[tokio::test]
async fn what_the_key_record_forbids() {
    for (record, why) in [
        ("v=DKIM1; h=sha1:sha256; s=*; {p}", None),
        ("v=DKIM1; s=email; {p}", None),
        ("{p}", None),
        ("v=DKIM1; h=sha1; {p}", Some((Reason::DkimUnacceptable, "h="))),
        ("v=DKIM1; s=tlsrpt; {p}", Some((Reason::DkimUnacceptable, "s="))),
        ("v=DKIM1; t=y; {p}", Some((Reason::DkimUnacceptable, "t=y"))),
        ("v=DKIM1; t=s; {p}", Some((Reason::DkimUnacceptable, "t=s"))),
        ("k=rsa; v=DKIM1; {p}", Some((Reason::DkimFailed, ""))),
        ("v=DKIM1; {p}; {p}", Some((Reason::DkimUnacceptable, "twice"))),
        ("v=DKIM1; p=", Some((Reason::DkimFailed, "revoked"))),
        ("v=DKIM2; {p}", Some((Reason::DkimFailed, ""))),
        ("v=DKIM1; k=ed448; {p}", Some((Reason::DkimFailed, ""))),
        ("hello", Some((Reason::DkimFailed, ""))),
    ] {
        let bench = Bench::new().await;
        let key = rsa_key("good.example");
        let p = key.txt_record().unwrap();
        let p = p.rsplit("; ").next().unwrap();
        bench.txt("s1._domainkey.good.example", &record.replace("{p}", p));
        let mail = Forge::new(&key, "i=boss@sub.good.example;").sign(MAIL);
        match why {
            None => drop(bench.accepts(&mail).await),
            Some((reason, why)) => drop(bench.refuses(&mail, reason, why).await),
        }
    }
}

#[tokio::test]
async fn time_is_the_time_of_the_question() {
    let mut bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let mail = Forge::new(signer.key(), "t=1000000000; x=1000001000;").sign(MAIL);
    bench.now = 1_000_000_500;
    bench.accepts(&mail).await;
    bench.now = 1_000_001_000;
    bench.refuses(&mail, Reason::DkimUnacceptable, "expired").await;
    // An expired and forged signature is reported as forged.
    let forged = String::from_utf8(mail).unwrap().replace("Hello.", "Hallo.");
    bench.refuses(forged.as_bytes(), Reason::DkimFailed, "").await;
    let forged = forged.replace("Hallo.", "Hello.").replace("Subject: Hi", "Subject: Ho");
    bench.refuses(forged.as_bytes(), Reason::DkimFailed, "").await;
}

async fn verdict(d: &str, from: &str) -> Proof {
    let bench = Bench::new().await;
    // Public suffixes with their own DMARC record: the tree walk would join their tenants.
    for suffix in ["co.uk", "github.io"] {
        bench.txt(&format!("_dmarc.{suffix}"), "v=DMARC1; p=none");
    }
    let signer = bench.rsa(d);
    let sender = format!("boss@{from}");
    let mail = MAIL.replace("boss@good.example", &sender);
    bench.check_from(&signer.sign(mail.as_bytes()).unwrap(), &sender).await.proof
}

#[tokio::test]
async fn alignment() {
    let unaligned = Proof::Unproven(Reason::DkimUnaligned);
    for (d, from, proof) in [
        ("mail.good.example", "good.example", Proof::Authenticated),
        ("good.example", "mail.good.example", Proof::Authenticated),
        ("evil.example", "good.example", unaligned),
        ("a.github.io", "b.github.io", unaligned),
        ("github.io", "b.github.io", unaligned),
        ("co.uk", "bank.co.uk", unaligned),
        ("bank.co.uk", "shop.co.uk", unaligned),
        ("nhs.uk", "nhs.uk", Proof::Authenticated),
        ("eu.org", "eu.org", Proof::Authenticated),
    ] {
        assert_eq!(verdict(d, from).await, proof, "{d} for {from}");
    }
}

#[tokio::test]
async fn the_detail_names_the_providers_own_domain() {
    let bench = Bench::new().await;
    bench.txt("_dmarc.good.example", "v=DMARC1; p=none");
    bench.txt("good.example", "v=spf1 +all");
    let mail = bench.rsa("mail.provider.example").sign(MAIL.as_bytes()).unwrap();
    let said = "signed by mail.provider.example, From is good.example";
    let answer = bench.refuses(&mail, Reason::DkimUnaligned, said).await;
    assert!(answer.signatures.is_empty());
    // SPF alone satisfies DMARC; it does not authenticate.
    assert_eq!(answer.summary["dmarc"]["result"], "pass");
}

#[tokio::test]
async fn one_good_signature_among_others_is_enough() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let other = bench.rsa("list.example");
    let twice = other.sign(&signer.sign(MAIL.as_bytes()).unwrap()).unwrap();
    let answer = bench.accepts(&twice).await;
    assert_eq!(answer.summary["dkim"].as_array().unwrap().len(), 2);
    assert_eq!(answer.signatures.len(), 1);
    let ed = Key::generate_ed25519().unwrap();
    let ed = bench.signer(ed, "good.example", "ed");
    let both = ed.sign(&signer.sign(MAIL.as_bytes()).unwrap()).unwrap();
    assert_eq!(bench.accepts(&both).await.signatures.len(), 2);
}

#[tokio::test]
async fn which_signatures_mark_the_message() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let base = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s1;";
    for (tags, signed, marks) in [
        (format!("{base} h=from:subject;"), &["from", "subject"][..], 0),
        (format!("{base} t=1; h=from;"), &["from"], 1),
        (format!("{base} h=from:date;"), &["from", "date"], 1),
        (format!("{base} h=from:Message-ID;"), &["from", "message-id"], 1),
        (format!("{base} h=from:reply-to;"), &["from"], 0),
    ] {
        let mail = Forge::tagged(signer.key(), &tags, signed).sign(MAIL);
        let marked = bench.accepts(&mail).await.signatures;
        assert_eq!(marked.len(), marks, "{tags}");
        // Folding `b=` differently gives the same mark.
        let folded = String::from_utf8(mail).unwrap().replacen(" b=", " b=\r\n\t ", 1);
        assert_eq!(bench.accepts(folded.as_bytes()).await.signatures, marked);
    }
}

#[tokio::test]
async fn unsigned_fields_are_listed_and_no_reason_to_refuse() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example").headers(["From", "Subject"]);
    let mail =
        MAIL.replace("Subject:", "Content-Type: text/html\r\nReply-To: x@y.example\r\nSubject:");
    let answer = bench.accepts(&signer.sign(mail.as_bytes()).unwrap()).await;
    assert_eq!(
        answer.summary["unsignedHeaders"],
        json!(["date", "reply-to", "to", "message-id", "content-type"])
    );
    // A signature covers as many fields of a name as it names, counted from the last one.
    let signer = signer.headers(["From", "List-Id"]);
    let mail = "List-Id: <a.b>\r\nFrom: boss@good.example\r\n\r\nHi\r\n";
    let signed = String::from_utf8(signer.sign(mail.as_bytes()).unwrap()).unwrap();
    for (added, unsigned) in [
        ("Received: x\r\n", json!([])),
        ("Auto-Submitted: x\r\nReturn-Path: <>\r\n", json!(["auto-submitted", "return-path"])),
        ("List-Id: <c.d>\r\n", json!(["list-id"])),
    ] {
        let answer = bench.accepts(format!("{added}{signed}").as_bytes()).await;
        assert_eq!(answer.summary["unsignedHeaders"], unsigned, "{added}");
    }
}

#[tokio::test]
async fn signed_absence_forbids_a_later_field() {
    let bench = Bench::new().await;
    let signed = bench.rsa("good.example").sign(MAIL.as_bytes()).unwrap();
    let text = String::from_utf8(signed).unwrap();
    let added = text.replace("Subject: Hi", "Reply-To: x@evil.example\r\nSubject: Hi");
    bench.refuses(added.as_bytes(), Reason::DkimFailed, "").await;
    // RFC 6376 §8.15: signing From twice leaves no room for a second one.
    let signer = bench.signer(rsa_key("other.example"), "good.example", "s2");
    let signer: Signer = signer.headers(["From", "From", "Subject"]);
    let signed = signer.sign(MAIL.as_bytes()).unwrap();
    bench.accepts(&signed).await;
}

#[tokio::test]
async fn white_space_lines_at_the_end_of_the_body() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let mail = MAIL.replace("Hello.\r\n", "Hello.\r\n \t\r\n  \r\n\r\n");
    bench.accepts(&signer.sign(mail.as_bytes()).unwrap()).await;
    // Another server trims white space, which relaxed canonicalization ignores.
    let signed = String::from_utf8(signer.sign(mail.as_bytes()).unwrap()).unwrap();
    bench.accepts(signed.trim_end().as_bytes()).await;
}

#[tokio::test]
async fn a_large_message_goes_the_other_way_round() {
    let bench = Bench::new().await;
    let mail = format!("{MAIL}{}", "0123456789abcde\r\n".repeat(30_000));
    let signed = bench.rsa("good.example").sign(mail.as_bytes()).unwrap();
    assert!(signed.len() > 262_144);
    bench.accepts(&signed).await;
}

#[tokio::test]
async fn spf_asks_for_the_identity_that_is_there() {
    let mut bench = Bench::new().await;
    bench.txt("out.good.example", "v=spf1 ip4:192.0.2.1 -all");
    let mail = MAIL.as_bytes();
    bench.reverse_path = String::new();
    let spf = bench.check(mail).await.summary["spf"].clone();
    assert_eq!(spf, json!({"result": "pass", "domain": "out.good.example", "identity": "helo"}));
    for odd in ["x@_dmarc.good.example", "postmaster", "x@[192.0.2.1]", "x@good.example."] {
        bench.reverse_path = odd.into();
        let before = bench.dns.queries_for("_dmarc.good.example");
        let spf = bench.check(mail).await.summary["spf"].clone();
        assert_eq!(spf["result"], "none", "{odd}");
        assert!(bench.dns.queries_for("_dmarc.good.example") <= before + 1);
    }
}
