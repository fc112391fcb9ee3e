//! SendGrid: Inbound Parse with "POST the raw, full MIME message" checked. SendGrid posts a form
//! (multipart) with the message in the field `email`, the envelope as JSON in `envelope` (`{"to":
//! […], "from": "…"}`), and the client's address in `sender_ip`.
//!
//! If the webhook has a security policy, two header fields carry a signature: ECDSA (P-256,
//! SHA-256) over the timestamp and the body as it is. Without one, only the secret URL is a proof,
//! and the record says so.
//!
//! SendGrid takes 2xx as accepted, retries after 5xx for 72 hours, and drops the message after
//! anything else (docs.sendgrid.com: Inbound Parse, Securing your Inbound Parse Webhooks; support
//! article 46513815674395).

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::form::Form;
use super::{Ages, Broken, Forged, OtherMode, Post, ProviderMail, Refusal, path, unix_seconds};
use crate::domain::clock::Timestamp;

const SIGNATURE: &str = "x-twilio-email-event-webhook-signature";
const TIMESTAMP: &str = "x-twilio-email-event-webhook-timestamp";

/// SubjectPublicKeyInfo of an uncompressed point on P-256, up to the point (RFC 5480 §2).
const P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of a point: 4, x, y.
const POINT: usize = 65;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Parses base64 as SendGrid shows it, with or without the lines of PEM; None for another kind
    /// of key.
    pub fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().filter(|line| !line.trim().starts_with("-----"));
        let base64: String = lines.flat_map(str::split_whitespace).collect();
        let der = STANDARD.decode(base64).ok()?;
        let point = der.strip_prefix(&P256)?;
        (point.len() == POINT && point.first() == Some(&4)).then(|| Self(point.to_vec()))
    }
}

/// Reads the message that SendGrid posted; checks the signature if a key is set.
pub fn read(
    post: &Post<'_>,
    key: Option<&PublicKey>,
    ages: &Ages,
    now: Timestamp,
) -> Result<ProviderMail, Refusal> {
    let proof = match key {
        Some(key) => {
            verify(post, key, ages, now)?;
            "signed by the key of the SendGrid webhook"
        }
        None => "only the secret URL: no public key of SendGrid is set",
    };
    let form = Form::read(post)?;
    let raw = form.one("email")?.ok_or(OtherMode::Sendgrid)?.clone();
    let envelope: Value =
        serde_json::from_str(form.text("envelope")?).map_err(|_| Broken::Envelope)?;
    let to = envelope.get("to").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let client = form.text("sender_ip").ok().and_then(|text| text.trim().parse().ok());
    Ok(ProviderMail {
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
