//! Line ends of messages that come from files instead of the network.

use memchr::memchr3_iter;

use crate::rules::BareLineEnds;

/// Turns LF line ends into CRLF. A message with any CRLF stays unchanged.
pub fn with_crlf(raw: Vec<u8>) -> Vec<u8> {
    if raw.windows(2).any(|pair| pair == b"\r\n") {
        return raw;
    }
    let mut text = Vec::with_capacity(raw.len() + raw.len() / 32);
    for octet in raw {
        if octet == b'\n' {
            text.push(b'\r');
        }
        text.push(octet);
    }
    text
}

/// Returns the bytes that an SMTP session would pass on: [`with_crlf`], and CRLF for each lone CR
/// or LF if sessions are set to do that.
pub fn as_received(raw: Vec<u8>, bare: BareLineEnds) -> Vec<u8> {
    let raw = with_crlf(raw);
    if bare == BareLineEnds::Reject || bares(&raw).next().is_none() {
        return raw;
    }
    let mut text = Vec::with_capacity(raw.len() + raw.len() / 32);
    let mut done = 0;
    for at in bares(&raw).filter(|at| raw.get(*at) != Some(&0)) {
        text.extend_from_slice(raw.get(done..at).unwrap_or_default());
        text.extend_from_slice(b"\r\n");
        done = at + 1;
    }
    text.extend_from_slice(raw.get(done..).unwrap_or_default());
    text
}

/// Describes the first byte that an SMTP session would refuse unseen (550 5.5.2, contract §2,
/// `malformed`): a NUL, or a lone CR or LF. Returns None if there is none.
pub fn refused_on_the_wire(raw: &[u8]) -> Option<String> {
    let at = bares(raw).next()?;
    let what = match raw.get(at) {
        Some(b'\r') => "CR",
        Some(b'\n') => "LF",
        _ => "NUL",
    };
    Some(format!("a bare {what} at byte {at}: every SMTP session refuses the message (550 5.5.2)"))
}

/// Offsets of NULs, and of lone CRs and LFs.
fn bares(raw: &[u8]) -> impl Iterator<Item = usize> {
    memchr3_iter(b'\r', b'\n', 0, raw).filter(move |at| match raw.get(*at) {
        Some(b'\r') => raw.get(at + 1) != Some(&b'\n'),
        Some(b'\n') => at.checked_sub(1).and_then(|before| raw.get(before)) != Some(&b'\r'),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_session_refuses_is_named_and_what_it_mends_is_mended() {
        for (raw, found, mended) in [
            (&b"a: b\r\n\r\nx\r\n"[..], "", &b"a: b\r\n\r\nx\r\n"[..]),
            (b"", "", b""),
            (b"a\r\n\nb\r\n", "LF at octet 3", b"a\r\n\r\nb\r\n"),
            (b"\na\r\n", "LF at octet 0", b"\r\na\r\n"),
            (b"a\r\r\nb", "CR at octet 1", b"a\r\n\r\nb"),
            (b"a\r\nb\r", "CR at octet 4", b"a\r\nb\r\n"),
            (b"a\r\n\0\r", "NUL at octet 3", b"a\r\n\0\r\n"),
            (b"a\rb\nc\r\n", "CR at octet 1", b"a\r\nb\r\nc\r\n"),
            // An editor's line ends are not lone LFs.
            (b"a\nb\n", "", b"a\r\nb\r\n"),
            (b"a\n\0\n", "NUL at octet 3", b"a\r\n\0\r\n"),
        ] {
            let plain = as_received(raw.to_vec(), BareLineEnds::Reject);
            let words = refused_on_the_wire(&plain).unwrap_or_default();
            assert_eq!(words.is_empty(), found.is_empty(), "{raw:?}: {words}");
            assert!(words.contains(found), "{raw:?}: {words}");
            assert_eq!(plain, with_crlf(raw.to_vec()));
            let normal = as_received(raw.to_vec(), BareLineEnds::Normalize);
            assert_eq!(normal, mended, "{raw:?}");
            assert_eq!(refused_on_the_wire(&normal).is_some(), raw.contains(&0), "{raw:?}");
        }
    }
}
