//! When is a message the same as an earlier one? (contract §2.6)
//!
//! A sender whose 250 was lost sends again, perhaps through another server that adds a Received
//! field: the bytes differ, the signature and what it vouches for do not. Message-ID alone never
//! decides: anybody can repeat it.

use aws_lc_rs::digest::{Context, SHA256};

use crate::domain::message::Digest;
use crate::mail::scan::Headers;

/// The fields that must be equal, as received, besides the signature.
const COMPARED: [&str; 8] =
    ["from", "to", "cc", "subject", "date", "message-id", "reply-to", "content-type"];

/// The keys under which an arrival is remembered: one per signature that can identify a message
/// (`signatures` are their `b=` values), else the digest of the raw bytes.
pub(super) fn keys(signatures: &[String], headers: &Headers<'_>, raw: Digest) -> Vec<[u8; 32]> {
    if signatures.is_empty() {
        return vec![raw.0];
    }
    signatures.iter().map(|signature| key(signature, headers)).collect()
}

fn key(signature: &str, headers: &Headers<'_>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    let mut add = |part: Option<&[u8]>| {
        // The length goes in before the octets, so that no two lists of values run together.
        let length = part.map_or(u64::MAX, |part| u64::try_from(part.len()).unwrap_or(u64::MAX));
        context.update(&length.to_be_bytes());
        context.update(part.unwrap_or_default());
    };
    add(Some(signature.as_bytes()));
    for name in COMPARED {
        add(headers.first(name));
    }
    let mut octets = [0; 32];
    octets.copy_from_slice(context.finish().as_ref());
    octets
}
