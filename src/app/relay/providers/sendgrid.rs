//! SendGrid: Inbound Parse with "POST the raw, full MIME message" checked. A form (multipart) with the
//! message in the field `email`, the envelope as JSON in `envelope` (`{"to": […], "from": "…"}`), and
//! in `sender_ip` who brought it.
//!
//! Where the webhook has a security policy, its signature is in two header fields: ECDSA (P-256,
//! SHA-256) over the timestamp and the body as it is. Without one nothing but the secret URL says who
//! posts; then it is said so in the record.
//!
//! It takes 2xx as done, tries again after 5xx for 72 hours, and drops the message after anything else
//! (docs.sendgrid.com: Inbound Parse, Securing your Inbound Parse Webhooks; support article
//! 46513815674395).

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::form::Form;
use super::{Ages, Broken, Forged, Letter, OtherMode, Post, Refusal, path, unix_seconds};
use crate::domain::clock::Timestamp;

const SIGNATURE: &str = "x-twilio-email-event-webhook-signature";
const TIMESTAMP: &str = "x-twilio-email-event-webhook-timestamp";

/// SubjectPublicKeyInfo of an uncompressed point on P-256, as far as the point (RFC 5480 §2).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Its octets: 4, x, y.
const POINT: usize = 65;

/// A key that SendGrid signs by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// From base64, with the lines of PEM round it or without, as SendGrid shows it; `None` where it
    /// is none.
    pub fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().filter(|line| !line.trim().starts_with("-----"));
        let base64: String = lines.flat_map(str::split_whitespace).collect();
        let der = STANDARD.decode(base64).ok()?;
        let point = der.strip_prefix(&P256)?;
        (point.len() == POINT && point.first() == Some(&4)).then(|| Self(point.to_vec()))
    }
}

/// The message that SendGrid posted, signed by this key if it is to sign.
pub fn read(
    post: &Post<'_>,
    key: Option<&PublicKey>,
    ages: &Ages,
    now: Timestamp,
) -> Result<Letter, Refusal> {
    let proof = match key {
        Some(key) => {
            verify(post, key, ages, now)?;
            "signed by the key of the SendGrid webhook"
        }
        None => "the secret URL alone: no public key of SendGrid is set here",
    };
    let form = Form::read(post)?;
    let raw = form.one("email")?.ok_or(OtherMode::Sendgrid)?.clone();
    let envelope: Value =
        serde_json::from_str(form.text("envelope")?).map_err(|_| Broken::Envelope)?;
    let to = envelope.get("to").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let client = form.text("sender_ip").ok().and_then(|text| text.trim().parse().ok());
    Ok(Letter {
        raw,
        reverse_path: path(envelope.get("from").and_then(Value::as_str).unwrap_or_default()),
        recipients: to.iter().filter_map(Value::as_str).map(path).collect(),
        client,
        helo: None,
        proof,
        token: None,
    })
}

fn verify(post: &Post<'_>, key: &PublicKey, ages: &Ages, now: Timestamp) -> Result<(), Refusal> {
    let (Some(signature), Some(timestamp)) = (post.header(SIGNATURE), post.header(TIMESTAMP))
    else {
        return Err(Forged::Sendgrid.into());
    };
    let signature = STANDARD.decode(signature.trim()).map_err(|_| Forged::Sendgrid)?;
    let said = [timestamp.as_bytes(), post.body].concat();
    let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &key.0);
    key.verify(&said, &signature).map_err(|_| Forged::Sendgrid)?;
    let at = unix_seconds(timestamp).ok_or(Forged::Sendgrid)?;
    ages.check(at, ages.covering, now)
}
