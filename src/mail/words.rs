//! Rewrites encoded words (RFC 2047) to UTF-8, before mail-parser gets a header value for people.
//!
//! Each word is decoded by the WHATWG Encoding Standard, like the body, and encoded again as UTF-8,
//! so that mail-parser's own tables are not used. A character that the sender split between two
//! words of one charset is joined.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_parser::Encoding;
use memchr::memmem;

use super::charset;

/// Bytes of one word that are searched for its end: RFC 2047 §2 allows 75, real senders used some
/// hundred.
const LONGEST: usize = 2048;

/// Bytes of text in one word that is written.
const MOST_OF_WORD: usize = 45;

/// Returns `value` with its encoded words in UTF-8 and base64; unchanged if there are none.
pub(super) fn in_utf8(value: &[u8]) -> Cow<'_, [u8]> {
    let mut out: Vec<u8> = Vec::new();
    let (mut kept, mut at) = (0, 0);
    while let Some(found) = value.get(at..).and_then(|rest| memmem::find(rest, b"=?")) {
        let start = at + found;
        let Some(mut word) = Word::parse(value, start) else {
            at = start + 2;
            continue;
        };
        while let Some(next) = word.next(value) {
            word.octets.extend_from_slice(&next.octets);
            word.end = next.end;
        }
        out.extend_from_slice(value.get(kept..start).unwrap_or_default());
        let text =
            charset::decode(&word.octets, str::from_utf8(word.charset).ok(), usize::MAX).text;
        write(&text, &mut out);
        (kept, at) = (word.end, word.end);
    }
    if kept == 0 {
        return Cow::Borrowed(value);
    }
    out.extend_from_slice(value.get(kept..).unwrap_or_default());
    Cow::Owned(out)
}

/// Writes `text` as words of at most the length of RFC 2047 §2, which mail-parser requires.
fn write(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some((word, tail)) = rest.split_at_checked(rest.floor_char_boundary(MOST_OF_WORD)) {
        out.extend_from_slice(format!("=?utf-8?b?{}?=", STANDARD.encode(word)).as_bytes());
        if tail.is_empty() {
            break;
        }
        out.push(b' ');
        rest = tail;
    }
}

struct Word<'a> {
    charset: &'a [u8],
    octets: Vec<u8>,
    /// Offset after the closing `?=`.
    end: usize,
}

impl<'a> Word<'a> {
    /// Parses the word that begins with the `=?` at `start`; None if it is no encoded word.
    fn parse(value: &'a [u8], start: usize) -> Option<Self> {
        let window = value.get(start + 2..)?;
        let window = window.get(..LONGEST).unwrap_or(window);
        let mut parts = window.splitn(3, |byte| *byte == b'?');
        let (charset, form, rest) = (parts.next()?, parts.next()?, parts.next()?);
        // The language of RFC 2231 §5 is ignored.
        let charset = charset.split(|byte| *byte == b'*').next()?;
        let is_label = |byte: &u8| byte.is_ascii_graphic();
        if charset.is_empty() || !charset.iter().all(is_label) {
            return None;
        }
        let length = memmem::find(rest, b"?=")?;
        let text = rest.get(..length)?;
        if text.contains(&b'\n') {
            return None;
        }
        let octets = match form {
            b"b" | b"B" => Encoding::Base64.decode(text).into_owned(),
            b"q" | b"Q" => unquoted(text),
            _ => return None,
        };
        let end =
            value.len() - value.get(start + 2..)?.len() + (window.len() - rest.len()) + length;
        Some(Self { charset, octets, end: end + 2 })
    }

    /// Returns the next word, if only white space separates the two and the charset is equal.
    fn next(&self, value: &'a [u8]) -> Option<Self> {
        let rest = value.get(self.end..)?;
        let blank = rest.len() - rest.trim_ascii_start().len();
        if !rest.get(blank..)?.starts_with(b"=?") {
            return None;
        }
        let next = Self::parse(value, self.end + blank)?;
        next.charset.eq_ignore_ascii_case(self.charset).then_some(next)
    }
}

/// Parses two hexadecimal digits. Rejects a sign, which Rust would accept.
pub(super) fn hex_octet(digits: &[u8]) -> Option<u8> {
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u8::from_str_radix(str::from_utf8(digits).ok().filter(|_| is_hex)?, 16).ok()
}

/// Decodes the Q encoding (RFC 2047 §4.2). Invalid escapes stay as written.
fn unquoted(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let escape = tail.get(..2).filter(|_| *first == b'=').and_then(hex_octet);
        rest = match escape {
            Some(octet) => {
                out.push(octet);
                tail.get(2..).unwrap_or_default()
            }
            None => {
                out.push(if *first == b'_' { b' ' } else { *first });
                tail
            }
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::mail_parser_adapter::decode_words;

    #[test]
    fn words_are_read_in_their_charset() {
        for (value, expected) in [
            ("=?utf-8?q?=C3=84_=3F?=", "\u{c4} ?"),
            ("=?UTF-8?B?w4Q=?= x =?latin1?Q?=80?=", "\u{c4} x \u{20ac}"),
            ("=?iso-8859-1*de?q?Gr=FC=DFe?=", "Gr\u{fc}\u{df}e"),
            ("=?shift_jis?b?grGC8Q==?=", "\u{3053}\u{3093}"),
            ("=?iso-2022-jp?b?GyRCJDMkcxsoQg==?=", "\u{3053}\u{3093}"),
            ("=?gb2312?b?xOO6ww==?=", "\u{4f60}\u{597d}"),
            ("=?koi8-r?q?=F0=D2=C9?=", "\u{41f}\u{440}\u{438}"),
            // Split in the middle of a character, and folded.
            ("=?utf-8?q?a=C3?=\r\n =?UTF-8?q?=84b?=", "a\u{c4}b"),
            ("=?utf-8?q?a?= =?koi8-r?q?b?= c", "ab c"),
            ("=?utf-7?q?+ADw-b+AD4-_=2B?=", "<b> +"),
            ("=?utf-7?q?a+AG?=\r\n =?UTF-7?q?IAYw-_d?=", "abc d"),
            ("=?iso-2022-kr?b?GyQpQw4wIQ8=?=", "\u{ac00}"),
            ("=?hz-gb-2312?q?~{<:Ky2;~}?=", "\u{5df1}\u{6240}\u{4e0d}"),
            ("=?ibm850?q?Gr=81=E1e?=", "Gr\u{fc}\u{df}e"),
            // Never decoded.
            ("=?iso-2022-cn?q?=1B$)A<b>?=", "\u{fffd}"),
            ("=?x-unknown?q?=FC?=", "\u{fc}"),
            ("=?utf-8?q?=ED=A0=80?=", "\u{fffd}\u{fffd}\u{fffd}"),
            // Not encoded words.
            ("=?utf-8?x?a?=", "=?utf-8?x?a?="),
            ("=?utf-8?q?a", "=?utf-8?q?a"),
            ("=?=?=", "=?=?="),
            ("=??q?a?=", "=??q?a?="),
        ] {
            assert_eq!(decode_words(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn many_beginnings_are_read_to_the_end() {
        let value = "=?a?b?c ".repeat(30_000);
        assert!(decode_words(value.as_bytes()) == value.trim_end());
        let value = "=?utf-8?q?a?= ".repeat(15_000);
        assert!(decode_words(value.as_bytes()) == "a".repeat(15_000));
    }
}
