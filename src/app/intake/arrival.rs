//! Recognises a message that has arrived before (contract §2, Repeats).
//!
//! A sender that did not get its 250 sends again, perhaps through another server that adds a
//! Received field. The bytes then differ, but the signature and everything that is shown, read or
//! judged do not. Message-ID alone never decides, because anybody can repeat it. Nor does the
//! signature alone: it leaves fields open, and a copy that changes them must not make the genuine
//! message disappear.
//!
//! So the whole header section except [`TRACES`] is compared as received: servers put their fields
//! in front and leave the others alone, readers differ about folding, and of repeated fields some
//! readers take the first and some the last. The body is compared byte by byte, because canonical
//! forms allow another text. A copy that differs for an honest reason is stored twice, which loses
//! nothing.
//!
//! Only the null reverse-path counts of the envelope. The recipient's tag does not: a message sent
//! to two tags of one Agent is stored once, with the tag of its first arrival
//! (`metadata.emailTag`); the record of each repeat has its recipient as sent.

use aws_lc_rs::digest::{Context, SHA256};

use super::examine::Examination;
use crate::domain::message::Digest;
use crate::mail::fields::KnownField;
use crate::mail::scan::{Field, Headers};
use crate::verify::{is_of_another, spelling};

/// Fields that servers on the way add. Nothing is read from them, except that a null Return-Path
/// marks automated mail, which is compared separately. A `DKIM-Signature` of another domain is
/// treated like them.
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

/// Returns the keys under which an arrival is remembered. `signatures` are the `b=` values of the
/// signatures that can identify the message, `body` is the body's digest. There is one key per
/// signature. There is one more for the raw bytes, unless a single signature is the only possible
/// proof: with several signatures, or a signature and an ARC chain, the same bytes may have been
/// proven another way when a look-up failed.
pub(super) fn keys(
    signatures: &[String],
    headers: &Headers<'_>,
    body: Digest,
    examination: &Examination,
) -> Vec<[u8; 32]> {
    let (mut own, mut content) = (Vec::new(), Parts::new(b"content"));
    for field in headers.fields.iter().filter(|field| !is_trace(field, headers)) {
        content.add(&field.name.to_ascii_lowercase());
        if KnownField::DkimSignature.names(field.name) {
            // One signature has many spellings. In a spelling that breaks it, the fields it covered
            // are open, and a weaker signature beside it may still prove the message.
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
    let is_the_only_way = headers.first(KnownField::ArcSeal).is_none()
        && matches!((signatures, own.as_slice()), ([one], [other]) if one.as_bytes() == other);
    let mut raw = Parts::new(b"raw");
    raw.add(&examination.digest.0);
    signed
        .chain((!is_the_only_way).then_some(raw))
        .map(|mut key| {
            // A null reverse-path turns a person's message into a bounce.
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
        || KnownField::DkimSignature.names(field.name)
            && is_of_another(field.value, headers.from.address.domain())
}

struct Parts(Context);

impl Parts {
    fn new(of: &[u8]) -> Self {
        let mut parts = Self(Context::new(&SHA256));
        parts.add(of);
        parts
    }

    /// Adds the length before the bytes, so that different lists of values never have equal input.
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
