//! Canonical body and fields (RFC 6376 §3.4), for facts that mail-auth does not tell or computes
//! differently: the length of the body; its hash if a signature has expired or line ends stand
//! alone; its hash up to `l=`, which §3.7 counts in canonical bytes and mail-auth in raw ones; and
//! the signed data of an expired ARC chain.

use std::cell::RefCell;

use aws_lc_rs::digest;
use mail_auth::crypto::Algorithm;
use mail_auth::dkim::Canonicalization;

/// A body with cached lengths and hashes. Each pass costs the length of the body, and signatures
/// with the same parameters share one pass.
pub(super) struct Body<'b> {
    raw: &'b [u8],
    lengths: RefCell<Vec<(Canonicalization, u64)>>,
    hashes: RefCell<Vec<(HashKey, digest::Digest)>>,
}

/// Form, `l=`, and true for SHA-1.
type HashKey = (Canonicalization, Option<u64>, bool);

impl<'b> Body<'b> {
    pub(super) fn new(raw: &'b [u8]) -> Self {
        Self { raw, lengths: RefCell::default(), hashes: RefCell::default() }
    }

    /// Length of the canonical body in bytes.
    pub(super) fn length(&self, form: Canonicalization) -> u64 {
        let mut lengths = self.lengths.borrow_mut();
        if let Some((_, known)) = lengths.iter().find(|(known, _)| *known == form) {
            return *known;
        }
        let mut length = 0_u64;
        write(self.raw, form, &mut |octets| length += octets.len() as u64);
        lengths.push((form, length));
        length
    }

    /// Tells whether `expected` (`bh=`) is the hash of the first `limit` bytes (`l=`) of the
    /// canonical body, or of all of it if it is shorter or there is no limit.
    pub(super) fn matches(
        &self,
        form: Canonicalization,
        limit: Option<u64>,
        algorithm: Algorithm,
        expected: &[u8],
    ) -> bool {
        let wanted = (form, limit, algorithm == Algorithm::RsaSha1);
        let mut hashes = self.hashes.borrow_mut();
        if let Some((_, known)) = hashes.iter().find(|(known, _)| *known == wanted) {
            return known.as_ref() == expected;
        }
        let hash = hash(self.raw, wanted);
        hashes.push((wanted, hash));
        hash.as_ref() == expected
    }
}

fn hash(body: &[u8], (form, limit, by_sha1): HashKey) -> digest::Digest {
    let algorithm = if by_sha1 { &digest::SHA1_FOR_LEGACY_USE_ONLY } else { &digest::SHA256 };
    let mut hash = digest::Context::new(algorithm);
    let mut left = limit.unwrap_or(u64::MAX);
    write(body, form, &mut |octets| {
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(octets.len());
        hash.update(octets.get(..take).unwrap_or_default());
        left = left.saturating_sub(take as u64);
    });
    hash.finish()
}

/// Tells whether there is a lone CR or LF. mail-auth drops one and reads the other as a line end,
/// so its hash does not depend on where they are.
pub(super) fn has_bare_line_ends(body: &[u8]) -> bool {
    memchr::memchr2_iter(b'\r', b'\n', body).any(|at| match body.get(at) {
        Some(b'\r') => body.get(at + 1) != Some(&b'\n'),
        _ => at.checked_sub(1).and_then(|before| body.get(before)) != Some(&b'\r'),
    })
}

/// Passes the canonical body to `sink` in pieces.
fn write(body: &[u8], form: Canonicalization, sink: &mut impl FnMut(&[u8])) {
    let mut wrote = false;
    // Empty lines at the end do not count, so they wait for more text.
    let mut waiting = 0_usize;
    let mut rest = body;
    while !rest.is_empty() {
        let line = match find_crlf(rest) {
            Some(end) => {
                let (line, after) = rest.split_at(end);
                rest = after.get(2..).unwrap_or_default();
                line
            }
            None => std::mem::take(&mut rest),
        };
        let line = match form {
            Canonicalization::Relaxed => line.trim_ascii_end_wsp(),
            Canonicalization::Simple => line,
        };
        if line.is_empty() {
            waiting += 1;
            continue;
        }
        for _ in 0..std::mem::take(&mut waiting) {
            sink(b"\r\n");
        }
        match form {
            Canonicalization::Relaxed => write_reduced(line, sink),
            Canonicalization::Simple => sink(line),
        }
        sink(b"\r\n");
        wrote = true;
    }
    // RFC 6376 §3.4.3: an empty body is one CRLF; §3.4.4: it stays empty.
    if !wrote && form == Canonicalization::Simple {
        sink(b"\r\n");
    }
}

/// Reduces runs of white space to one space (§3.4.4).
fn write_reduced(line: &[u8], sink: &mut impl FnMut(&[u8])) {
    let mut rest = line;
    while !rest.is_empty() {
        let word = rest.iter().position(|b| is_wsp(*b)).unwrap_or(rest.len());
        let (text, after) = rest.split_at(word);
        sink(text);
        let blank = after.iter().position(|b| !is_wsp(*b)).unwrap_or(after.len());
        if blank > 0 {
            sink(b" ");
        }
        rest = after.get(blank..).unwrap_or_default();
    }
}

fn find_crlf(octets: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let cr = from + memchr::memchr(b'\r', octets.get(from..)?)?;
        if octets.get(cr + 1) == Some(&b'\n') {
            return Some(cr);
        }
        from = cr + 1;
    }
}

const fn is_wsp(octet: u8) -> bool {
    octet == b' ' || octet == b'\t'
}

/// Returns the last fields with these names in canonical form (§5.4.2: each name takes the next one
/// upwards).
pub(super) fn fields(all: &[(&[u8], &[u8])], names: &[String], form: Canonicalization) -> Vec<u8> {
    let mut left: Vec<_> = all.iter().rev().collect();
    let mut into = Vec::new();
    for wanted in names {
        let is_it =
            |(name, _): &&(&[u8], &[u8])| name.trim_ascii().eq_ignore_ascii_case(wanted.as_bytes());
        if let Some(place) = left.iter().position(is_it) {
            let (name, value) = left.remove(place);
            field(name, value, form, &mut into);
        }
    }
    into
}

/// Appends one header field in canonical form (§3.4.1, §3.4.2) with its CRLF.
pub(super) fn field(name: &[u8], value: &[u8], form: Canonicalization, into: &mut Vec<u8>) {
    match form {
        Canonicalization::Simple => {
            into.extend_from_slice(name);
            into.push(b':');
            into.extend_from_slice(value.strip_suffix(b"\r\n").unwrap_or(value));
        }
        Canonicalization::Relaxed => {
            into.extend_from_slice(&name.trim_ascii().to_ascii_lowercase());
            into.push(b':');
            let words = value.split(|octet| b" \t\r\n".contains(octet));
            for (nth, word) in words.filter(|word| !word.is_empty()).enumerate() {
                into.extend_from_slice(if nth > 0 { b" " } else { b"" });
                into.extend_from_slice(word);
            }
        }
    }
    into.extend_from_slice(b"\r\n");
}

/// Appends a signature field as it signs itself (§3.7): `b=` empty, no final CRLF.
pub(super) fn unsigned(name: &[u8], value: &[u8], form: Canonicalization, into: &mut Vec<u8>) {
    let emptied = value.split(|octet| *octet == b';').map(|entry| {
        match entry.iter().position(|octet| *octet == b'=') {
            Some(at) if entry.get(..at).is_some_and(|tag| tag.trim_ascii() == b"b") => {
                entry.get(..=at).unwrap_or_default()
            }
            _ => entry,
        }
    });
    let value = emptied.collect::<Vec<_>>().join(&b';');
    field(name, &value, form, into);
    into.truncate(into.len().saturating_sub(2));
}

trait TrimEnd {
    fn trim_ascii_end_wsp(&self) -> &[u8];
}

impl TrimEnd for [u8] {
    fn trim_ascii_end_wsp(&self) -> &[u8] {
        let end = self.iter().rposition(|b| !is_wsp(*b)).map_or(0, |last| last + 1);
        self.get(..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(body: &[u8], form: Canonicalization) -> Vec<u8> {
        let mut all = Vec::new();
        write(body, form, &mut |octets| all.extend_from_slice(octets));
        all
    }

    #[test]
    fn as_in_the_rfc() {
        // RFC 6376 §3.4.5, and edge cases of §3.4.3 and §3.4.4.
        for (body, relaxed, simple) in [
            (&b" C \r\nD \t E\r\n\r\n\r\n"[..], &b" C\r\nD E\r\n"[..], &b" C \r\nD \t E\r\n"[..]),
            (b"", b"", b"\r\n"),
            (b"\r\n\r\n", b"", b"\r\n"),
            (b"a", b"a\r\n", b"a\r\n"),
            (b"a\r\n \t\r\n  \r\n", b"a\r\n", b"a\r\n \t\r\n  \r\n"),
            (b"a\r\n\r\nb\r\n", b"a\r\n\r\nb\r\n", b"a\r\n\r\nb\r\n"),
        ] {
            assert_eq!(canonical(body, Canonicalization::Relaxed), relaxed);
            assert_eq!(canonical(body, Canonicalization::Simple), simple);
            assert_eq!(Body::new(body).length(Canonicalization::Simple), simple.len() as u64);
        }
    }

    #[test]
    fn line_ends_that_stand_alone_are_found() {
        for body in [&b""[..], b"a", b"\r\n", b"a\r\nb\r\n\r\n"] {
            assert!(!has_bare_line_ends(body), "{body:?}");
        }
        for body in [&b"\r"[..], b"\n", b"\r\r\n", b"\r\n\n", b"a\rb\r\n", b"\n\r"] {
            assert!(has_bare_line_ends(body), "{body:?}");
        }
    }

    #[test]
    fn a_limit_counts_canonical_octets() {
        // Canonical form "a b\r\nc\r\n": eight bytes of ten.
        let body = b"a \t b\r\nc\r\n";
        for (limit, covered) in [
            (Some(0), &b""[..]),
            (Some(3), b"a b"),
            (Some(4), b"a b\r"),
            (Some(8), b"a b\r\nc\r\n"),
            (Some(9), b"a b\r\nc\r\n"),
            (None, b"a b\r\nc\r\n"),
        ] {
            let hash = digest::digest(&digest::SHA256, covered);
            let form = Canonicalization::Relaxed;
            let known = Body::new(body);
            let holds = |limit| known.matches(form, limit, Algorithm::RsaSha256, hash.as_ref());
            assert!(holds(limit) && holds(limit), "{limit:?}");
            assert!(!known.matches(form, limit, Algorithm::RsaSha1, hash.as_ref()));
            assert!(!holds(Some(5)), "{limit:?}");
        }
    }
}
