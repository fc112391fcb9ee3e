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
/// (`signatures` are their `b=` values), and the digest of the raw bytes: of several signatures
/// another one may have verified the last time, when a look-up failed.
pub(super) fn keys(signatures: &[String], headers: &Headers<'_>, raw: Digest) -> Vec<[u8; 32]> {
    let signed = signatures.iter().map(|signature| key(signature, headers));
    signed.chain([raw.0]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::scan::scan;
    use crate::rules::Rules;

    fn keys_of(signatures: &[&str], text: &str, raw: u8) -> Vec<[u8; 32]> {
        let limits = Rules::defaults().unwrap().intake.limits;
        let headers = scan(text.as_bytes(), &limits).unwrap();
        let signatures: Vec<String> = signatures.iter().map(ToString::to_string).collect();
        keys(&signatures, &headers, Digest([raw; 32]))
    }

    fn same(one: &[[u8; 32]], other: &[[u8; 32]]) -> bool {
        one.iter().any(|key| other.contains(key))
    }

    #[test]
    fn a_signature_and_what_it_is_compared_with_make_a_message() {
        let text = "From: a@b.example\r\nSubject: x\r\nX-Way: 1\r\n";
        let first = keys_of(&["AAAA"], text, 1);
        assert!(same(&first, &keys_of(&["AAAA"], &text.replace("Way: 1", "Way: 2"), 2)));
        assert!(same(&first, &keys_of(&["BBBB", "AAAA"], text, 2)));
        assert!(!same(&first, &keys_of(&["BBBB"], text, 2)));
        assert!(!same(&first, &keys_of(&[], text, 2)));
        for name in COMPARED.into_iter().filter(|name| !["from", "subject"].contains(name)) {
            let more = format!("{text}{name}: a@b.example\r\n");
            assert!(!same(&first, &keys_of(&["AAAA"], &more, 2)), "{name}");
        }
        assert!(!same(&first, &keys_of(&["AAAA"], &text.replace(": x", ":  x"), 2)));
    }

    #[test]
    fn the_same_bytes_are_the_same_message_whichever_signature_verified() {
        let text = "From: a@b.example\r\n";
        assert!(same(&keys_of(&["AAAA"], text, 1), &keys_of(&["BBBB"], text, 1)));
        assert!(same(&keys_of(&["AAAA"], text, 1), &keys_of(&[], text, 1)));
    }
}
