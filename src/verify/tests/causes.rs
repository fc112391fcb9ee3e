//! Every cause arises when it should, and its text names the domains concerned.

use std::collections::BTreeSet;

use super::forge::Forge;
use super::{Bench, MAIL, NOW, rsa_key, step};
use crate::domain::cause::Cause;
use crate::domain::policy::Proof;
use crate::testkit::dns::Zone;
use crate::testkit::signer::Key;

const NAME: &str = "s1._domainkey.good.example";
const SHORT: &str = "[dns]\nquery_timeout_seconds = 1\nretries = 0\n";
/// Tested elsewhere: `vectors` (a key that signs with SHA-1), `chains`, `adkim`; and only `examine`
/// knows whether mail-auth examined a signature.
const ELSEWHERE: &[Cause] = &[
    Cause::Sha1,
    Cause::ChainKeyUnavailable,
    Cause::ChainNotYetValid,
    Cause::ForbiddenByDmarc,
    Cause::DmarcUnavailable,
    Cause::BeyondLimits,
];

/// A message, the key record under `NAME`, and rules.
struct Case {
    mail: Vec<u8>,
    record: String,
    rules: &'static str,
}

/// The causes in the evidence, and the explanation.
async fn blamed(case: &Case) -> (Vec<Cause>, String) {
    let bench = Bench::with(Zone::default(), case.rules).await;
    match case.record.as_str() {
        "SERVFAIL" => bench.record(NAME, "TXT", "SERVFAIL", ""),
        "" => {}
        record => bench.txt(NAME, record),
    }
    let answer = bench.check(&case.mail).await;
    assert_ne!(answer.proof, Proof::Authenticated);
    let causes = step(&answer, "alignment")["inputs"]["causes"].as_array().unwrap().clone();
    let causes = causes.iter().map(|code| code.as_str().unwrap().parse().unwrap()).collect();
    (causes, answer.explanation)
}

fn by_tags(key: &Key) -> Vec<(Cause, String)> {
    let tagged = |tags: &str, signed: &[&str]| {
        let tags = format!("a=rsa-sha256; c=relaxed/relaxed; {tags}");
        String::from_utf8(Forge::tagged(key, &tags, signed).sign(MAIL)).unwrap()
    };
    let more = |tags: &str| String::from_utf8(Forge::new(key, tags).sign(MAIL)).unwrap();
    let names = "subject:".repeat(101);
    vec![
        (Cause::NotYetValid, more(&format!("t={};", NOW + 1000))),
        (Cause::SignedInFuture, more(&format!("t={};", NOW + 8 * 86_400))),
        (Cause::Expired, more(&format!("t={}; x={};", NOW - 10, NOW - 1))),
        (Cause::ExpiresBeforeSigned, more(&format!("t={NOW}; x={};", NOW - 1))),
        (Cause::BodyPartlySigned, more("l=9;")),
        (Cause::IdentityOutside, more("i=boss@evil.example;")),
        (Cause::KeyMethodUnknown, more("q=carrier/pigeon;")),
        (Cause::TagsBroken, more("d=good.example;")),
        (
            Cause::FromNotSigned,
            tagged("v=1; d=good.example; s=s1; h=to:subject;", &["to", "subject"]),
        ),
        (Cause::VersionMissing, tagged("d=good.example; s=s1; h=from;", &["from"])),
        (Cause::NamesUnfit, tagged("v=1; d=good.example; s=-s1; h=from;", &["from"])),
        (
            Cause::TooManyNames,
            tagged(&format!("v=1; d=good.example; s=s1; h=from:{names}to;"), &[]),
        ),
        (Cause::Unaligned, tagged("v=1; d=other.example; s=s1; h=from;", &["from"])),
        (Cause::UnalignedProvider, tagged("v=1; d=good.onmicrosoft.com; s=s1; h=from;", &["from"])),
        (Cause::SignatureUnreadable, format!("DKIM-Signature: nonsense\r\n{MAIL}")),
        (Cause::NotSigned, MAIL.to_owned()),
        (Cause::BodyChanged, more("").replace("Hello.", "Hallo.")),
        (Cause::HeaderChanged, more("").replace("Subject: Hi", "Subject: Ho")),
    ]
}

fn by_record(key: &Key) -> Vec<(Cause, String)> {
    let record = key.txt_record().unwrap();
    let with = |tag: &str| record.replace("v=DKIM1;", &format!("v=DKIM1; {tag};"));
    vec![
        (Cause::KeyMissing, String::new()),
        (Cause::KeyRevoked, "v=DKIM1; p=".into()),
        (Cause::KeyUnreadable, "hello".into()),
        (Cause::KeyUnreadable, with("n=1; n=2")),
        (Cause::KeyOfAnotherKind, Key::generate_ed25519().unwrap().txt_record().unwrap()),
        (Cause::KeyForbidsHash, with("h=sha1")),
        (Cause::KeyForbidsMail, with("s=tlsrpt")),
        (Cause::KeyForbidsSubdomain, with("t=s")),
        (Cause::KeyTesting, with("t=y")),
        (Cause::KeyUnavailable, "SERVFAIL".into()),
    ]
}

#[tokio::test]
async fn each_cause_is_named_where_it_arises() {
    let key = rsa_key("good.example");
    let record = key.txt_record().unwrap();
    let mut cases = Vec::new();
    for (cause, mail) in by_tags(&key) {
        let mail = mail.into_bytes();
        cases.push((cause, Case { mail, record: record.clone(), rules: SHORT }));
    }
    for (cause, record) in by_record(&key) {
        let mail = Forge::new(&key, "i=boss@sub.good.example;").sign(MAIL);
        cases.push((cause, Case { mail, record, rules: SHORT }));
    }
    let strict = "[authentication]\nmin_rsa_bits = 4096\n";
    let mail = Forge::new(&key, "").sign(MAIL);
    cases.push((Cause::KeyShort, Case { mail, record, rules: strict }));
    let mut seen: BTreeSet<Cause> = ELSEWHERE.iter().copied().collect();
    for (cause, case) in &cases {
        let (causes, explanation) = blamed(case).await;
        let text = String::from_utf8_lossy(&case.mail);
        assert!(causes.contains(cause), "{cause:?} is not in {causes:?}\n{text}");
        assert!(!explanation.is_empty() && explanation.is_ascii(), "{explanation}");
        seen.insert(*cause);
    }
    let all: BTreeSet<Cause> = Cause::ALL.iter().copied().collect();
    assert_eq!(seen, all, "{:?}", all.difference(&seen).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_told_names_domain_and_selector() {
    let key = rsa_key("good.example");
    let record = key.txt_record().unwrap();
    let told = async |mail: Vec<u8>, record: &str| {
        blamed(&Case { mail, record: record.to_owned(), rules: SHORT }).await.1
    };
    let mail = Forge::new(&key, "").sign(MAIL);
    let changed = String::from_utf8(mail.clone()).unwrap().replace("Hello.", "Hallo.");
    assert_eq!(
        told(changed.into_bytes(), &record).await,
        "Something changed the body after good.example had signed it (selector s1)."
    );
    assert_eq!(told(mail, "").await, "No key is published at s1._domainkey.good.example.");
    let tags = "v=1; a=rsa-sha256; c=relaxed/relaxed; d=lists.example; s=s2; h=from;";
    let stranger = Forge::tagged(&key, tags, &["from"]).sign(MAIL);
    // Two causes.
    assert_eq!(
        told(stranger, "").await,
        "No key is published at s2._domainkey.lists.example. It is signed by lists.example, which \
         does not speak for good.example."
    );
}
