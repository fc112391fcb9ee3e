//! The part of the header section that mail-auth may see.
//!
//! mail-auth hashes the body once for each canonicalization, algorithm and length that a signature
//! names, and compares every signed name with every field. The sender chooses all of these. So
//! fields beyond the bounds are left out of mail-auth's copy of the header section. The raw message
//! is never altered.

use mail_auth::crypto::Algorithm;

use super::dkim::Claim;
use crate::mail::fields::KnownField;
use crate::mail::scan::{Field, Headers};

/// Tells for each claim whether it is verified: its body hash is among the first `hashes` different
/// ones. A claim without a readable signature needs no hash.
pub(super) fn affordable(claims: &[Claim], hashes: usize) -> Vec<bool> {
    let mut known = Vec::new();
    let is_affordable = |claim: &Claim| {
        let Ok(signature) = &claim.signature else { return true };
        let hash = (signature.cb, signature.a == Algorithm::RsaSha1, signature.l);
        if !known.contains(&hash) && known.len() < hashes {
            known.push(hash);
        }
        known.contains(&hash)
    };
    claims.iter().map(is_affordable).collect()
}

/// Returns the header section without the `DKIM-Signature` fields that are not `kept`, without any
/// beyond those, and without the ARC fields unless `arc`. Returns None if nothing is left out.
pub(super) fn bounded(headers: &Headers<'_>, kept: &[bool], arc: bool) -> Option<Vec<u8>> {
    let mut signatures = kept.iter();
    let mut is_kept = |field: &Field<'_>| {
        let is_signature = KnownField::DkimSignature.names(field.name);
        let is_arc = field.name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"arc-"));
        !(is_signature && signatures.next() != Some(&true)) && (arc || !is_arc)
    };
    let fields: Vec<_> = headers.fields.iter().filter(|field| is_kept(field)).collect();
    let line = |field: &&Field<'_>| [field.name, b":", field.value, b"\r\n"].concat();
    (fields.len() < headers.fields.len())
        .then(|| fields.iter().map(line).collect::<Vec<_>>().concat())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::clock::Timestamp;
    use crate::domain::domain_name::DomainName;
    use crate::mail::scan::scan;
    use crate::rules::Rules;

    #[test]
    fn what_exceeds_the_bounds_is_left_out_and_the_rest_unaltered() {
        let raw = b"From: a@b.example\r\nDKIM-Signature:x\r\n\ty\r\ndkim-signature: z \r\n\
            ARC-Seal: 1\r\nB:\r\n\r\nbody: z\r\n";
        let headers = scan(raw, &Rules::defaults().unwrap().intake.limits).unwrap();
        assert_eq!(bounded(&headers, &[true, true], true), None);
        assert_eq!(
            bounded(&headers, &[true], true).unwrap(),
            b"From: a@b.example\r\nDKIM-Signature:x\r\n\ty\r\nARC-Seal: 1\r\nB:\r\n"
        );
        assert_eq!(
            bounded(&headers, &[false, true], true).unwrap(),
            b"From: a@b.example\r\ndkim-signature: z \r\nARC-Seal: 1\r\nB:\r\n"
        );
        assert_eq!(
            bounded(&headers, &[true, true], false).unwrap(),
            b"From: a@b.example\r\nDKIM-Signature:x\r\n\ty\r\ndkim-signature: z \r\nB:\r\n"
        );
    }

    #[test]
    fn the_first_different_hashes_of_the_body_are_affordable() {
        let rules = Rules::defaults().unwrap().intake;
        let from = DomainName::parse("good.example").unwrap();
        let claim = |tags: &str| {
            let value = format!("{tags}; d=good.example; s=s; h=from; bh=AAAA; b=AAAA");
            Claim::read(Bytes::from(value), &from, &rules, Timestamp::from_millis(0))
        };
        let claims = [
            "v=1; a=rsa-sha256",
            "v=2",
            "v=1; a=ed25519-sha256",
            "v=1; a=rsa-sha256; l=5",
            "v=1; a=rsa-sha256; c=relaxed/relaxed",
            "v=1; a=rsa-sha256; l=5",
            "v=1; a=rsa-sha1",
        ]
        .map(claim);
        assert_eq!(claims.iter().filter(|claim| claim.signature.is_ok()).count(), 6);
        let of = |hashes| affordable(&claims, hashes);
        assert_eq!(of(1), [true, true, true, false, false, false, false]);
        assert_eq!(of(2), [true, true, true, true, false, true, false]);
        assert_eq!(of(4), [true; 7]);
    }
}
