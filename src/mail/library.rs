//! The one door to mail-parser: its settings, and the wall that a panic in it cannot pass.
//!
//! Our own scanner has judged the header section before anything here runs; what comes back is for
//! people to read, except the From that [`super::mime`] compares with the scanned one.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mail_parser::{HeaderForm, HeaderName, HeaderValue, MessageParser};

/// Parts that are counted when a stored part is served again; the most that `limits.max_parts` of
/// `policies/intake.toml` may say, so that lowering the limit later renumbers nothing.
pub(super) const MOST_PARTS: usize = 100_000;
/// The same for `limits.max_depth`.
pub(super) const MOST_DEPTH: usize = 100;

/// Runs `work`, which calls the library; `None` when the library panicked (threats F8: it did in
/// an earlier version, on a message that a stranger could send).
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    // Nothing that `work` touches outlives a panic: it owns its output and borrows only bytes.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// A parser that opens at most `parts` parts and `depth` levels of containers below the message
/// itself. It marks the place where a limit stopped it. Transfer-encoded `message/rfc822` parts
/// stay closed: they are attachments, and opening them multiplies memory.
pub(super) fn parser(parts: usize, depth: usize) -> MessageParser {
    MessageParser::new()
        .max_parts(parts)
        .max_depth(depth.saturating_add(1))
        .max_encoded_nesting(0)
        // Each Received field is parsed at some cost and never read.
        .header(HeaderName::Received, HeaderForm::Raw)
}

/// Unfolds a header value and decodes its encoded words (RFC 2047). Octets that are no UTF-8 come
/// back as U+FFFD; a value that the library cannot bear as the empty text.
pub(super) fn decode_words(value: &[u8]) -> String {
    guarded(|| match HeaderForm::Text.parse(value).value() {
        HeaderValue::Text(text) => text.to_owned(),
        _ => String::new(),
    })
    .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_in_the_library_stops_here() {
        assert_eq!(guarded(|| 1), Some(1));
        let outcome: Option<()> = guarded(|| panic!("as mail-parser 0.11 did"));
        assert_eq!(outcome, None);
    }

    #[test]
    fn words_are_decoded_and_unfolded() {
        for (value, expected) in [
            (&b" =?utf-8?q?=C3=A4?=\r\n =?iso-8859-1?b?9g==?= x"[..], "\u{e4}\u{f6} x"),
            (b" a\r\n\tb ", "a b"),
            (b"\xff", "\u{fffd}"),
            (b"", ""),
        ] {
            assert_eq!(decode_words(value), expected);
        }
    }
}
