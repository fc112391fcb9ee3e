//! Tags that no careful signer writes: lengths, invalid numbers, repeated and missing tags.

use serde_json::json;

use super::forge::Forge;
use super::{Bench, MAIL};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;

#[tokio::test]
async fn numbers_that_are_none_prove_nothing() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    for tags in ["t=soon;", "t=;", "t=-1;", "x=never;", "x=99999999999999999999;", "l=x;", "l=8 8;"]
    {
        let answer = bench.check(&Forge::new(signer.key(), tags).sign(MAIL)).await;
        let known = [Reason::DkimFailed, Reason::DkimUnacceptable].map(Proof::Unproven);
        assert!(known.contains(&answer.proof), "{tags}: {:?}", answer.proof);
    }
}

/// Letter case distinguishes tag names (RFC 6376 §3.2), but not for every parser.
#[tokio::test]
async fn a_tag_in_another_case_is_the_same_tag_twice() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    for (tags, reason) in [
        ("D=evil.example;", Reason::DkimFailed),
        ("D=good.example;", Reason::DkimUnacceptable),
        ("L=8;", Reason::DkimUnacceptable),
    ] {
        let more = if tags == "L=8;" { "l=8; L=8;" } else { tags };
        let mail = Forge::new(signer.key(), more).sign(MAIL);
        bench.refuses(&mail, reason, "").await;
    }
}

#[tokio::test]
async fn a_body_beyond_l_does_not_count_and_a_longer_message_fails() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let mail = MAIL.replace("Hello.\r\n", "Hello.\r\nPay here instead.\r\n");
    let mut forge = Forge::new(signer.key(), "l=8;");
    forge.covered = Some(8);
    bench.refuses(&forge.sign(&mail), Reason::DkimUnacceptable, "l= covers 8 of 27").await;
    let mut forge = Forge::new(signer.key(), "l=0;");
    forge.covered = Some(0);
    bench.refuses(&forge.sign(&mail), Reason::DkimUnacceptable, "l= covers 0 of 27").await;
    // The part that `l=` covers is still protected.
    let signed =
        String::from_utf8(forge.sign(&mail)).unwrap().replace("Subject: Hi", "Subject: Ho");
    bench.refuses(signed.as_bytes(), Reason::DkimFailed, "").await;
    forge.covered = Some(3);
    bench.refuses(&forge.sign(&mail), Reason::DkimFailed, "body hash").await;
}

/// RFC 6376 §3.7 first makes the body canonical, then cuts it by `l=`.
#[tokio::test]
async fn l_counts_canonical_octets() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let mail = Forge::new(signer.key(), "l=8;").sign(MAIL);
    let spaced = |by: &str| String::from_utf8(mail.clone()).unwrap().replace("Hello.\r\n", by);
    bench.accepts(spaced("Hello. \t \r\n\r\n\r\n").as_bytes()).await;
    // The raw bytes up to `l=` are the signed ones, the rest is not.
    let longer = spaced("Hello.\r\nPay.\r\n");
    let said = "l= covers 8 of 14";
    bench.refuses(longer.as_bytes(), Reason::DkimUnacceptable, said).await;
}

/// A tag may occur once (RFC 6376 §3.2). The parser's choice decides what the signature proves, so
/// it never counts, even if it verifies as mail-auth reads it: with the last one.
#[tokio::test]
async fn two_domains_in_one_signature_prove_neither() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    bench.txt("s1._domainkey.both.example", &signer.key().txt_record().unwrap());
    for (first, last, reason, why) in [
        ("evil.example", "good.example", Reason::DkimUnacceptable, "d= appears twice"),
        ("both.example", "good.example", Reason::DkimUnacceptable, "d= appears twice"),
        ("good.example", "both.example", Reason::DkimUnacceptable, "d= appears twice"),
        ("good.example", "evil.example", Reason::DkimFailed, "not found"),
    ] {
        let tags = format!(
            "v=1; d={first}; a=rsa-sha256; c=relaxed/relaxed; d={last}; s=s1; h=from:subject;"
        );
        let mail = Forge::tagged(signer.key(), &tags, &["from", "subject"]).sign(MAIL);
        let answer = bench.refuses(&mail, reason, why).await;
        assert_eq!(answer.summary["alignedDomain"], json!(null));
        assert!(answer.signatures.is_empty());
    }
}

#[tokio::test]
async fn tags_that_must_be_there() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    let base = "a=rsa-sha256; c=relaxed/relaxed; d=good.example; s=s1;";
    for (tags, signed, reason, why) in [
        (format!("{base} h=from;"), &["from"][..], Reason::DkimUnacceptable, "v=1 is missing"),
        (
            format!("v=1; {base} h=to:subject;"),
            &["to", "subject"],
            Reason::DkimUnacceptable,
            "From is not signed",
        ),
        (format!("v=2; {base} h=from;"), &["from"], Reason::DkimFailed, "unreadable"),
        (
            "v=1; a=rsa-sha512; c=relaxed/relaxed; d=good.example; s=s1; h=from;".into(),
            &["from"],
            Reason::DkimFailed,
            "unreadable",
        ),
    ] {
        let mail = Forge::tagged(signer.key(), &tags, signed).sign(MAIL);
        bench.refuses(&mail, reason, why).await;
    }
}
