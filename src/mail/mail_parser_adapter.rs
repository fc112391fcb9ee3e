//! The only access to mail-parser: its settings, and a guard against panics.
//!
//! Our own scanner has judged the header section before anything here runs. The results are for
//! people, except the From mailbox that [`super::mime`] compares with the scanned one. mail-parser
//! gets single fields, the header section once, and transfer encodings; never the structure of a
//! body.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mail_parser::{Charset, Encoding, HeaderForm, HeaderName, HeaderValue, MessageParser};
use memchr::memmem;

use super::words;
use crate::domain::address::Address;

/// Runs `work`, which calls the library. Returns None if it panics (threats F8: an earlier version
/// did, on a message that a stranger could send).
pub(super) fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    // Unwind safe: `work` owns its output and only borrows bytes, so nothing broken outlives a
    // panic.
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// The library's reading of a header section: only compared, never trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OtherReading {
    /// The one mailbox of the one From field; None in any other case.
    pub(super) from: Option<Address>,
    /// Offset of the body.
    pub(super) body_at: usize,
}

/// Reads the header section of `raw` with the library. Returns None if the library fails or panics.
/// The parts are found by [`super::structure`], whose cost is bounded.
pub(super) fn other_reading(raw: &[u8]) -> Option<OtherReading> {
    // Parsing Received fields is costly, and their values are not used.
    let parser = MessageParser::new().header(HeaderName::Received, HeaderForm::Raw);
    guarded(|| {
        let message = parser.parse_headers(raw)?;
        let mut fields = message.headers().all_from();
        let from = match (fields.next(), fields.next()) {
            (Some(list), None) if !list.has_groups() => {
                let mut mailboxes = list.mailboxes();
                match (mailboxes.next(), mailboxes.next()) {
                    (Some(one), None) => one.address().and_then(|text| Address::parse(text).ok()),
                    _ => None,
                }
            }
            _ => None,
        };
        let body_at = usize::try_from(message.root_part().offset_body()).ok()?;
        Some(OtherReading { from, body_at })
    })?
}

/// The content of a Content-Type field (RFC 2045 §5.1, RFC 2231).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MediaType {
    /// Lower case: `text`.
    pub(super) kind: String,
    /// Lower case: `plain`.
    pub(super) subtype: Option<String>,
    /// Never empty; without trailing white space, which no delimiter has.
    pub(super) boundary: Option<Vec<u8>>,
    pub(super) charset: Option<String>,
    pub(super) name: Option<String>,
}

impl MediaType {
    /// Tells whether type and subtype are valid (RFC 2045 §5.1).
    pub(super) fn is_valid(&self) -> bool {
        is_token(&self.kind) && self.subtype.as_deref().is_some_and(is_token)
    }
}

/// Checks the characters and the length of RFC 6838 §4.2.
pub(super) fn is_token(text: &str) -> bool {
    (1..=127).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
}

/// Parses a Content-Type value, even without its first semicolon or, for text, without a subtype.
/// Returns None if there is no type.
pub(super) fn media_type(value: &[u8]) -> Option<MediaType> {
    let value = without_utf7(value);
    guarded(|| match HeaderForm::ContentType.parse(&value).value() {
        HeaderValue::ContentType(found) => {
            let attribute = |name| found.attribute(name).map(ToOwned::to_owned);
            let boundary = found.attribute("boundary").unwrap_or_default().trim_ascii_end();
            let kind = found.ctype().to_ascii_lowercase();
            let subtype = found.subtype().and_then(|words| words.split_ascii_whitespace().next());
            let plain = (kind == "text").then_some("plain");
            Some(MediaType {
                subtype: subtype.or(plain).map(str::to_ascii_lowercase),
                kind,
                boundary: (!boundary.is_empty()).then(|| boundary.as_bytes().to_vec()),
                charset: attribute("charset"),
                name: attribute("name"),
            })
        }
        _ => None,
    })?
}

/// Returns the kind, in lower case, and the file name of a Content-Disposition field (RFC 2183).
pub(super) fn disposition(value: &[u8]) -> (Option<String>, Option<String>) {
    let value = without_utf7(value);
    let read = || match HeaderForm::ContentType.parse(&value).value() {
        HeaderValue::ContentType(found) => (
            Some(found.ctype().to_ascii_lowercase()),
            found.attribute("filename").map(ToOwned::to_owned),
        ),
        _ => (None, None),
    };
    guarded(read).unwrap_or_default()
}

/// Renames every UTF-7 charset of RFC 2231 to UTF-8. Of the charsets that the library knows beyond
/// the WHATWG Encoding Standard, UTF-7 is the one that can smuggle in other characters.
fn without_utf7(value: &[u8]) -> Cow<'_, [u8]> {
    let is_label = |before: &[u8]| {
        let before = before.strip_suffix(b"-").or(before.strip_suffix(b"_")).unwrap_or(before);
        before.last_chunk::<3>().is_some_and(|name| name.eq_ignore_ascii_case(b"utf"))
    };
    let mut value = Cow::Borrowed(value);
    let mut from = 0;
    while let Some(found) = value.get(from..).and_then(|rest| memmem::find(rest, b"7'")) {
        let at = from + found;
        if is_label(value.get(..at).unwrap_or_default())
            && let Some(seven) = value.to_mut().get_mut(at)
        {
            *seven = b'8';
        }
        from = at + 1;
    }
    value
}

/// Parses a Content-Transfer-Encoding value. An unknown encoding leaves the bytes as they are (RFC
/// 2045 §6.4).
pub(super) fn transfer_encoding(value: &[u8]) -> Encoding {
    let token = value.split(|byte| *byte == b'(').next().unwrap_or_default().trim_ascii();
    if token.eq_ignore_ascii_case(b"base64") {
        Encoding::Base64
    } else if token.eq_ignore_ascii_case(b"quoted-printable") {
        Encoding::QuotedPrintable
    } else {
        Encoding::None
    }
}

/// Decodes UTF-7 (RFC 2152). Bytes that are invalid in it are read as ISO-8859-1.
pub(super) fn utf7(octets: &[u8]) -> String {
    // The library drops letters at an unterminated end, so terminate them with a line feed.
    let ended = [octets, b"\n"].concat();
    let mut text = guarded(|| Charset::Utf7.decode_owned(ended)).unwrap_or_default();
    text.pop();
    text
}

/// Unfolds a header value and decodes its encoded words (RFC 2047). Bytes that are not UTF-8 become
/// U+FFFD. Returns an empty text if the library fails or panics.
pub(super) fn decode_words(value: &[u8]) -> String {
    let value = words::in_utf8(value);
    guarded(|| match HeaderForm::Text.parse(&value).value() {
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
