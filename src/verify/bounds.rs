//! The header section as far as mail-auth may see it.
//!
//! mail-auth hashes the body once for every length that any signature names, and compares every
//! signed name with every field: both are the sender's to choose. So what exceeds the bounds is
//! left out of the header section that mail-auth sees. The raw message is never altered.

use crate::mail::scan::Headers;

/// The header section without the `DKIM-Signature` fields after the first `signatures` ones and,
/// unless `arc`, without the ARC fields; `None` if that leaves nothing out.
pub(super) fn bounded(headers: &Headers<'_>, signatures: usize, arc: bool) -> Option<Vec<u8>> {
    let mut seen = 0;
    let mut left_out = false;
    let mut kept = Vec::new();
    for field in &headers.fields {
        let is_signature = field.name.eq_ignore_ascii_case(b"dkim-signature");
        seen += usize::from(is_signature);
        let is_arc = field.name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case(b"arc-"));
        if (is_signature && seen > signatures) || (is_arc && !arc) {
            left_out = true;
        } else {
            kept.extend_from_slice(field.name);
            kept.push(b':');
            kept.extend_from_slice(field.value);
            kept.extend_from_slice(b"\r\n");
        }
    }
    left_out.then_some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::scan::scan;
    use crate::rules::Rules;

    #[test]
    fn what_exceeds_the_bounds_is_left_out_and_the_rest_unaltered() {
        let raw = b"From: a@b.example\r\nDKIM-Signature:x\r\n\ty\r\ndkim-signature: z \r\n\
            ARC-Seal: 1\r\nB:\r\n\r\nbody: z\r\n";
        let headers = scan(raw, &Rules::defaults().unwrap().intake.limits).unwrap();
        assert_eq!(bounded(&headers, 2, true), None);
        assert_eq!(
            bounded(&headers, 1, true).unwrap(),
            b"From: a@b.example\r\nDKIM-Signature:x\r\n\ty\r\nARC-Seal: 1\r\nB:\r\n"
        );
        assert_eq!(
            bounded(&headers, 2, false).unwrap(),
            b"From: a@b.example\r\nDKIM-Signature:x\r\n\ty\r\ndkim-signature: z \r\nB:\r\n"
        );
    }
}
