//! When is a message the same as an earlier one? (contract §2, Repeats)
//!
//! A sender whose 250 was lost sends again, perhaps through another server that adds a Received
//! field: the bytes differ, the signature and everything that is shown, read or judged do not.
//! Message-ID alone never decides: anybody can repeat it. Nor does the signature alone: it leaves
//! fields open, and a copy with others in them must not make the genuine message disappear.
//!
//! So all of the header section is compared but for [`TRACES`], as it was received: servers put
//! their fields in front and leave the others alone, readers differ about folding, and of repeated
//! fields one takes the first and one the last. The body is compared octet by octet: canonical forms
//! leave room for another text. A copy that differs for an honest reason is stored twice, which
//! loses nothing.
//!
//! The null reverse-path is the only part of the envelope that counts. The recipient's tag does not: a
//! message that is sent to two tags of one Agent arrives for the same Agent, is read once, and keeps the
//! tag of its first arrival (`metadata.emailTag`); the record of each repeat has its recipient as sent.

use aws_lc_rs::digest::{Context, SHA256};

use super::examine::Examination;
use crate::domain::message::Digest;
use crate::mail::fields::Known;
use crate::mail::scan::{Field, Headers};
use crate::verify::{is_of_another, spelling};

/// The fields that servers on the way add and that nothing here is read from, but for what a
/// Return-Path says of machines, which is compared for itself. `DKIM-Signature` joins them where it
/// is of another domain.
const TRACES: &[&str] = &[
    "Received",
    "X-Received",
    "Return-Path",
    "Delivered-To",
    "Authentication-Results",
    "Received-SPF",
    "ARC-Seal",
    "ARC-Message-Signature",
    "ARC-Authentication-Results",
];

/// The keys under which an arrival is remembered: one per signature that can identify a message
/// (`signatures` are their `b=` values), and, unless the same bytes can come in by that one signature
/// only, one for the raw bytes: of several signatures, or a signature and a chain of ARC, another one
/// may have proven the message the last time, when a look-up failed. `body` is the body's digest.
pub(super) fn keys(
    signatures: &[String],
    headers: &Headers<'_>,
    body: Digest,
    examination: &Examination,
) -> Vec<[u8; 32]> {
    let (mut own, mut content) = (Vec::new(), Parts::new(b"content"));
    for field in headers.fields.iter().filter(|field| !is_trace(field, headers)) {
        content.add(&field.name.to_ascii_lowercase());
        if Known::DkimSignature.names(field.name) {
            // One signature has many spellings. In another one it is broken, and with it what it
            // covered is open: a weaker one beside it may still prove the message.
            let spelled = spelling(field.value);
            spelled.iter().for_each(|part| content.add(part));
            own.extend(spelled.into_iter().next_back());
        } else {
            content.add(field.value);
        }
    }
    content.add(&body.0);
    let content = content.end();
    let signed = signatures.iter().map(|signature| {
        let mut key = Parts::new(b"signature");
        key.add(signature.as_bytes());
        key.add(&content);
        key
    });
    let is_the_only_way = headers.first(Known::ArcSeal).is_none()
        && matches!((signatures, own.as_slice()), ([one], [other]) if one.as_bytes() == other);
    let mut raw = Parts::new(b"raw");
    raw.add(&examination.digest.0);
    signed
        .chain((!is_the_only_way).then_some(raw))
        .map(|mut key| {
            // An envelope with the null reverse-path makes a bounce of what a person wrote.
            if let Some(automation) = &examination.automation {
                key.add(automation.origin.as_str().as_bytes());
                automation.signs.iter().for_each(|sign| key.add(sign.as_bytes()));
            }
            key.end()
        })
        .collect()
}

fn is_trace(field: &Field<'_>, headers: &Headers<'_>) -> bool {
    TRACES.iter().any(|name| field.name.eq_ignore_ascii_case(name.as_bytes()))
        || Known::DkimSignature.names(field.name)
            && is_of_another(field.value, headers.from.address.domain())
}

/// A digest of several values.
struct Parts(Context);

impl Parts {
    fn new(of: &[u8]) -> Self {
        let mut parts = Self(Context::new(&SHA256));
        parts.add(of);
        parts
    }

    /// The length goes in before the octets, so that no two lists of values run together.
    fn add(&mut self, part: &[u8]) {
        self.0.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(part);
    }

    fn end(self) -> [u8; 32] {
        let mut octets = [0; 32];
        octets.copy_from_slice(self.0.finish().as_ref());
        octets
    }
}

#[cfg(test)]
mod tests;
