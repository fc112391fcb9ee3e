//! Requests as providers send them (`fixtures/inbound`), read back to the message and its envelope.
//! `GATEPOST_BLESS=1` writes the fixtures anew where one is missing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use super::*;
use crate::domain::secret::Secret;
use crate::testkit::golden;
use crate::testkit::provider::{
    MailEnvelope, MailgunProof, Posting, SendgridKey, Sns, mailgun as form, mailgun_signature,
    postmark as json, sendgrid as parse, ses as notification,
};

/// Hosts at Amazon that any customer may have as a bucket named `sns`.
const BUCKETS: [&str; 4] = [
    "sns.s3.amazonaws.com",
    "sns.s3-us-west-2.amazonaws.com",
    "sns.s3-accelerate.amazonaws.com",
    "sns.s3-website-us-west-2.amazonaws.com",
];
const KEY: &str = "key-of-mailgun-for-tests";
const FROM: &str = "alice@good.example";
const TO: &str = "support@agents.example";
const AGES: Ages = Ages {
    covering: Duration::from_secs(345_600),
    bare: Duration::from_secs(43_200),
    signed: Duration::from_secs(300),
    ahead: Duration::from_secs(300),
};

/// The clock of the fixtures: 2026-01-05 10:00 UTC.
const NOW: Timestamp = Timestamp::from_millis(1_767_607_200_000);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn plain() -> Vec<u8> {
    std::fs::read(folder().join("mail/accepted/plain.eml")).unwrap()
}

fn made() -> Vec<(&'static str, Posting)> {
    let raw = plain();
    let text = String::from_utf8(raw.clone()).unwrap();
    let between = MailEnvelope { from: FROM, to: &[TO] };
    let seconds = NOW.seconds().to_string();
    let token = "0f2dbbd3a2f1c4a9a1c9b8a7f6e5d4c3b2a190817263544536";
    let signature = mailgun_signature(KEY.as_bytes(), &seconds, token);
    let proof = MailgunProof { timestamp: &seconds, token, signature: &signature };
    let fields = form(proof, &raw, FROM, TO);
    let mut parsed = fields.clone();
    parsed.last_mut().unwrap().0 = "body-plain";
    let key = SendgridKey::generate().unwrap();
    let pem = std::fs::read_to_string(folder().join("keys/s1._domainkey.good.example.pem"));
    let sns = Sns::new(&pem.unwrap(), "sns.amazonaws.com").unwrap();
    let text_of = |text: &str| Posting { headers: Vec::new(), body: text.as_bytes().to_vec() };
    vec![
        ("mailgun/multipart.http", Posting::multipart(&fields)),
        ("mailgun/urlencoded.http", Posting::urlencoded(&fields)),
        ("mailgun/parsed.http", Posting::multipart(&parsed)),
        ("sendgrid/raw.http", parse(&raw, between)),
        ("sendgrid/signed.http", key.sign(parse(&raw, between), NOW).unwrap()),
        ("sendgrid/signed.key", text_of(&key.shown())),
        ("postmark/raw.http", json(&text, FROM, TO).with("Authorization", "Basic dTpw")),
        ("ses/notification.http", sns.notification(&notification(&raw, between), NOW).unwrap()),
        ("ses/confirmation.http", sns.confirmation(NOW).unwrap()),
        ("ses/certificate.pem", text_of(sns.certificate())),
    ]
}

fn bless() {
    for (name, posting) in made() {
        let path = folder().join("inbound").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut octets = Vec::new();
        for (name, value) in &posting.headers {
            octets.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        if !octets.is_empty() {
            octets.extend_from_slice(b"\r\n");
        }
        octets.extend_from_slice(&posting.body);
        std::fs::write(path, octets).unwrap();
    }
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(folder().join("inbound").join(name)).unwrap()
}

fn request(name: &str) -> (Vec<(String, Vec<u8>)>, Bytes) {
    let octets = fixture(name);
    let end = memchr::memmem::find(&octets, b"\r\n\r\n").unwrap();
    let head = std::str::from_utf8(&octets[..end]).unwrap();
    let fields = head.split("\r\n").map(|line| line.split_once(": ").unwrap());
    let fields = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
    (fields.collect(), Bytes::copy_from_slice(&octets[end + 4..]))
}

fn letter(name: &str) -> Result<ProviderMail, Refusal> {
    let (headers, body) = request(name);
    let post = Post { headers: &headers, body: &body };
    let key = String::from_utf8(fixture("sendgrid/signed.key")).unwrap();
    match name.split_once('/').unwrap().0 {
        "mailgun" => mailgun::read(&post, &Secret::new(KEY), &AGES, NOW),
        "sendgrid" if name.contains("signed") => {
            sendgrid::read(&post, sendgrid::PublicKey::parse(&key).as_ref(), &AGES, NOW)
        }
        "sendgrid" => sendgrid::read(&post, None, &AGES, NOW),
        "postmark" => {
            let login = postmark::Login { username: "u".into(), password: Secret::new("p") };
            postmark::read(&post, Some(&login))
        }
        _ => match wanted(&post)? {
            sns::SnsRequest::Message(message) => ses::read(&message, true),
            other => panic!("{other:?} is no message"),
        },
    }
}

fn wanted(post: &Post<'_>) -> Result<sns::SnsRequest, Refusal> {
    let said = sns::SnsBody::read(post, Some(Sns::TOPIC))?;
    let url = said.certificate()?;
    let certificate =
        Certificate::from_pem(&fixture("ses/certificate.pem"), url.host_str().unwrap()).unwrap();
    said.believe(&certificate, &AGES, NOW)
}

#[test]
fn each_provider_hands_on_the_message_octet_by_octet() {
    // Blessing makes new keys, so only if a fixture is missing: they belong together.
    let is_whole = made().iter().all(|(name, _)| folder().join("inbound").join(name).is_file());
    if golden::is_blessing() && !is_whole {
        bless();
    }
    for (name, client) in [
        ("mailgun/multipart.http", None),
        ("mailgun/urlencoded.http", None),
        ("sendgrid/raw.http", Some("192.0.2.7")),
        ("sendgrid/signed.http", Some("192.0.2.7")),
        ("postmark/raw.http", Some("192.0.2.7")),
        ("ses/notification.http", Some("192.0.2.7")),
    ] {
        let letter = letter(name).unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
        assert_eq!(letter.raw, plain(), "{name}");
        assert_eq!((letter.reverse_path.as_str(), letter.recipients), (FROM, vec![TO.to_owned()]));
        assert_eq!(letter.client, client.map(|text| text.parse().unwrap()), "{name}");
        assert_eq!(letter.token.is_some(), name.starts_with("mailgun"), "{name}");
    }
    let refusal = letter("mailgun/parsed.http").unwrap_err();
    assert_eq!(refusal, OtherMode::Mailgun.into());
    assert!(refusal.to_string().contains("/mime"), "{refusal}");
    let (headers, body) = request("ses/confirmation.http");
    let asked = wanted(&Post { headers: &headers, body: &body }).unwrap();
    assert_eq!(asked, sns::SnsRequest::Confirmation(Sns::CONFIRM.parse().unwrap()));
}

#[test]
fn a_topic_that_is_not_pinned_is_said_so() {
    let message = notification(&plain(), MailEnvelope { from: FROM, to: &[TO] });
    let proof = |pinned| ses::read(&message, pinned).unwrap().proof;
    assert!(proof(false).contains("for any topic") && !proof(true).contains("any topic"));
}

/// A label that anybody can have as a bucket's name is no region.
#[test]
fn certificates_are_at_hosts_of_sns_in_a_region_and_nowhere_else() {
    let (headers, body) = request("ses/notification.http");
    let text = String::from_utf8(body.to_vec()).unwrap();
    let at = |host: &str| {
        let body = Bytes::from(text.replace("sns.eu-west-1.amazonaws.com", host));
        let said = sns::SnsBody::read(&Post { headers: &headers, body: &body }, None).unwrap();
        said.certificate().is_ok()
    };
    for host in [
        "sns.eu-west-1.amazonaws.com",
        "sns.us-gov-west-1.amazonaws.com",
        "sns.ap-southeast-10.amazonaws.com",
        "sns.cn-north-1.amazonaws.com.cn",
    ] {
        assert!(at(host), "{host}");
    }
    for host in BUCKETS.into_iter().chain([
        "sns.amazonaws.com",
        "sns.eu-1.amazonaws.com",
        "sns.eu--1.amazonaws.com",
        "sns.eu-west-.amazonaws.com",
        "sns.eu-west-1x.amazonaws.com",
        "sns.e1-west-1.amazonaws.com",
        "sns.eur-west-1.amazonaws.com",
        "sns..amazonaws.com",
        "eu-west-1.amazonaws.com",
    ]) {
        assert!(!at(host), "{host}");
    }
}

/// A clock that is behind defers a message of SNS and does not refuse it. A body larger than any of
/// SNS is not read.
#[test]
fn what_is_signed_before_its_time_is_put_off_and_what_is_no_size_of_sns_is_not_read() {
    let (headers, body) = request("ses/notification.http");
    let post = Post { headers: &headers, body: &body };
    let url = sns::SnsBody::read(&post, None).unwrap().certificate().unwrap();
    let host = url.host_str().unwrap();
    let certificate = Certificate::from_pem(&fixture("ses/certificate.pem"), host).unwrap();
    let believed = |now| sns::SnsBody::read(&post, None).unwrap().believe(&certificate, &AGES, now);
    assert!(believed(NOW).is_ok());
    let behind = NOW.minus(Duration::from_secs(3600));
    assert!(matches!(believed(behind), Err(Refusal::Unavailable(_))));
    // Before the certificate's own time (rcgen's begins in 1975).
    let long_ago = Timestamp::from_millis(0);
    assert!(matches!(believed(long_ago), Err(Refusal::Unavailable(_))));
    let mut padded = body.to_vec();
    padded.resize(sns::MAX_REQUEST, b' ');
    let body = Bytes::from(padded.clone());
    assert!(sns::SnsBody::read(&Post { headers: &headers, body: &body }, None).is_ok());
    padded.push(b' ');
    let body = Bytes::from(padded);
    let read = sns::SnsBody::read(&Post { headers: &headers, body: &body }, None);
    assert!(matches!(read, Err(Refusal::Broken(_))));
}

/// A changed byte never causes a panic, and where a signature covers the whole body it is refused.
#[test]
fn a_changed_octet_is_never_believed_where_the_body_is_signed() {
    let key = String::from_utf8(fixture("sendgrid/signed.key")).unwrap();
    let key = sendgrid::PublicKey::parse(&key).unwrap();
    let (headers, body) = request("sendgrid/signed.http");
    for at in (0..body.len()).step_by(97) {
        let mut changed = body.to_vec();
        changed[at] ^= 1;
        let post = Post { headers: &headers, body: &Bytes::from(changed) };
        let read = sendgrid::read(&post, Some(&key), &AGES, NOW);
        assert!(matches!(read, Err(Refusal::Forged(_))), "octet {at}");
    }
    let (headers, body) = request("ses/notification.http");
    let text = String::from_utf8(body.to_vec()).unwrap();
    for (old, new) in [
        ("alice@good", "evil@good"),
        ("support@", "another@"),
        ("2026-01-05T10", "2026-01-05T09"),
        ("\"Type\":\"Notification\"", "\"Type\":\"Other\""),
        ("165545c9", "065545c9"),
    ] {
        assert!(text.contains(old), "{old}");
        let post = Post { headers: &headers, body: &Bytes::from(text.replace(old, new)) };
        assert!(matches!(wanted(&post), Err(Refusal::Forged(_))), "{old}");
    }
}

#[test]
fn a_public_key_of_another_kind_is_none() {
    let key = SendgridKey::generate().unwrap().shown();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{key}\n-----END PUBLIC KEY-----\n");
    assert_eq!(sendgrid::PublicKey::parse(&key), sendgrid::PublicKey::parse(&pem));
    assert!(sendgrid::PublicKey::parse(&key).is_some());
    for wrong in ["", "x", &key[4..], &key[..key.len() - 4], &format!("{key}AAAA")] {
        assert_eq!(sendgrid::PublicKey::parse(wrong), None, "{wrong}");
    }
}
