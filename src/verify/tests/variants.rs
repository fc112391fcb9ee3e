//! Input of others in many forms: DMARC records, envelopes, key records, tags. None of them
//! authenticates a sender without an aligned signature, and none spoils a valid one.

use mail_auth::dkim::Canonicalization::{Relaxed, Simple};
use serde_json::json;

use super::forge::Forge;
use super::{Bench, MAIL, NOW, rsa_key};
use crate::domain::policy::Proof;
use crate::domain::reason::Reason;
use crate::testkit::signer::{Key, Signer};

/// A signer with a published key; faster to make than one with RSA.
fn ed25519(bench: &Bench, domain: &str) -> Signer {
    bench.signer(Key::generate_ed25519().unwrap(), domain, "s1")
}

/// Threats B17: whatever a domain publishes, a spoof fails because it has no aligned signature, and
/// genuine mail has one. Only `adkim=s` counts, and only against other domains of its organization.
#[tokio::test]
async fn no_dmarc_record_accepts_a_spoof_or_refuses_the_genuine() {
    let unaligned = Proof::Unproven(Reason::DkimUnaligned);
    for records in [
        &[][..],
        &["v=DMARC1; p=none"],
        &["v=DMARC1; p=none; t=y"],
        &["v=DMARC1; p=reject; t=y"],
        &["v=DMARC1; p=reject; pct=0"],
        &["v=DMARC1; p=quarantine; pct=101"],
        &["v=DMARC1; p=reject; sp=none; np=none"],
        &["v=DMARC1; p=reject; adkim=s; aspf=s"],
        &["v=DMARC1; p=reject; psd=y"],
        &["v=DMARC1; p=reject; psd=n"],
        &["v=DMARC1; p=mostly"],
        &["v=DMARC1"],
        &["v=DMARC1;"],
        &["v=DMARC2; p=reject"],
        &["p=reject; v=DMARC1"],
        &["v=DMARC1; p=reject", "v=DMARC1; p=none"],
        &["v=DMARC1; p=none", "unrelated"],
        &["no record of any kind"],
        &[""],
        &["v=DMARC1; p=reject; rua=mailto:x@evil.example; ruf=mailto:x@evil.example; p=none"],
    ] {
        let mut bench = Bench::new().await;
        for record in records {
            bench.txt("_dmarc.good.example", record);
        }
        // The spoof has the best SPF result: the victim allows everybody.
        bench.txt("good.example", "v=spf1 +all");
        let spoof = ed25519(&bench, "evil.example").sign(MAIL.as_bytes()).unwrap();
        let genuine = ed25519(&bench, "good.example").sign(MAIL.as_bytes()).unwrap();
        let below = ed25519(&bench, "mail.good.example").sign(MAIL.as_bytes()).unwrap();
        for reverse_path in ["bounce@good.example", "x@evil.example", ""] {
            bench.reverse_path = reverse_path.into();
            let answer = bench.check(&spoof).await;
            assert_eq!(answer.proof, unaligned, "{records:?}: {answer:#?}");
            let answer = bench.check(MAIL.as_bytes()).await;
            assert_eq!(answer.proof, Proof::Unproven(Reason::DkimMissing), "{records:?}");
            bench.accepts(&genuine).await;
            // A domain that the record forbids cannot authenticate its mail.
            let strict = records.iter().any(|record| record.contains("adkim=s"));
            let expected = if strict { unaligned } else { Proof::Authenticated };
            assert_eq!(bench.check(&below).await.proof, expected, "{records:?}");
        }
    }
}

/// Threats B13, B19: MAIL FROM and HELO that no honest client sends. The domain of SPF is a host
/// name or missing, and never affects the verdict.
#[tokio::test]
async fn no_envelope_changes_the_verdict() {
    let mut bench = Bench::new().await;
    bench.txt("good.example", "v=spf1 +all");
    bench.txt("evil.example", "v=spf1 +all");
    let spoof = ed25519(&bench, "evil.example").sign(MAIL.as_bytes()).unwrap();
    let genuine = ed25519(&bench, "good.example").sign(MAIL.as_bytes()).unwrap();
    for (reverse_path, domain) in [
        ("<@evil.example,@any.example:any@good.example>", None),
        ("@evil.example:any@good.example", Some("good.example")),
        ("any@good.example(.evil.example", None),
        ("any(@evil.example)@good.example", Some("good.example")),
        ("\"any@good.example\"@evil.example", Some("evil.example")),
        ("any@good.example@evil.example", Some("evil.example")),
        ("any@evil.example\0@good.example", Some("good.example")),
        ("any@good.example\0.evil.example", None),
        ("any@good.example,x@evil.example", Some("evil.example")),
        ("any@good.example.", None),
        ("any@GOOD.example", Some("good.example")),
        ("any@_dmarc.good.example", None),
        ("any@s1._domainkey.good.example", None),
        ("any@[192.0.2.1]", None),
        ("postmaster", None),
        ("@", None),
        (" ", None),
    ] {
        bench.reverse_path = reverse_path.into();
        for helo in
            ["out.good.example", "good.example", "[192.0.2.1]", "x\0y", "_dmarc.good.example"]
        {
            bench.client.helo = helo.into();
            bench.refuses(&spoof, Reason::DkimUnaligned, "signed by evil.example").await;
            let answer = bench.accepts(&genuine).await;
            let spf = &answer.summary["spf"];
            assert_eq!(spf["domain"], json!(domain), "{reverse_path:?} {helo:?}: {spf}");
        }
    }
}

/// Threats B11: other records under the key's name make no other key count.
#[tokio::test]
async fn only_a_published_key_verifies_whatever_stands_beside_it() {
    let name = "s1._domainkey.good.example";
    let [own, other, stranger] =
        ["good", "other", "list"].map(|name| rsa_key(&format!("{name}.example")));
    let [own_record, other_record] = [&own, &other].map(|key| key.txt_record().unwrap());
    for (records, own_is_first) in [
        (vec![own_record.as_str(), &other_record], true),
        (vec![&other_record, &own_record], false),
        (vec!["", "v=spf1 -all", "v=DKIM1; p=!", &own_record], true),
        (vec!["v=DKIM1; p=", &own_record], false),
    ] {
        let bench = Bench::new().await;
        for record in &records {
            bench.txt(name, record);
        }
        let proof = bench.check(&Forge::new(&own, "").sign(MAIL)).await.proof;
        let refused = Proof::Unproven(Reason::DkimFailed);
        // RFC 6376 §6.1.2 leaves open which of several keys is used.
        assert!(proof == Proof::Authenticated || (!own_is_first && proof == refused), "{proof:?}");
        bench.refuses(&Forge::new(&stranger, "").sign(MAIL), Reason::DkimFailed, "").await;
    }
    // A circle of two aliases has no answer.
    let bench = Bench::new().await;
    bench.record(name, "CNAME", "NOERROR", "key.provider.example");
    bench.record("key.provider.example", "CNAME", "NOERROR", name);
    assert_ne!(bench.check(&Forge::new(&own, "").sign(MAIL)).await.proof, Proof::Authenticated);
}

/// SMTP lets none of these through. For other sources: the stored bytes must be the signed ones
/// (found by dkimpy: mail-auth does not notice the first two).
#[tokio::test]
async fn no_line_end_can_be_slipped_into_a_signed_body() {
    for form in [Relaxed, Simple] {
        let bench = Bench::new().await;
        let signer = ed25519(&bench, "good.example").canonicalization(form, form);
        let signed = String::from_utf8(signer.sign(MAIL.as_bytes()).unwrap()).unwrap();
        bench.accepts(signed.as_bytes()).await;
        for body in ["Hello.\r\r\n", "Hel\rlo.\r\n", "Hello.\n", "Hello.\r\n\r"] {
            let altered = signed.replace("Hello.\r\n", body);
            bench.refuses(altered.as_bytes(), Reason::DkimFailed, "body hash").await;
        }
    }
}

/// Threats B5: extreme times. Only future and past ones refuse.
#[tokio::test]
async fn times_at_the_ends_of_what_can_be_written() {
    let bench = Bench::new().await;
    let signer = bench.rsa("good.example");
    for (tags, counts) in [
        ("t=0;".into(), true),
        ("t=00000000000000000001;".into(), true),
        ("x=9999999999;".into(), true),
        ("x=0;".into(), false),
        ("t=0; x=0;".into(), false),
        (format!("t={}; x={};", NOW + 100, NOW + 50), false),
        (format!("t={NOW}; x={NOW};"), false),
        (format!("t={};", i64::MAX), false),
        (format!("t={};", u64::MAX), false),
        ("t=18446744073709551616;".into(), false),
        ("t=340282366920938463463374607431768211456;".into(), false),
    ] {
        let answer = bench.check(&Forge::new(signer.key(), &tags).sign(MAIL)).await;
        assert_eq!(answer.proof == Proof::Authenticated, counts, "{tags}: {}", answer.detail);
    }
}
