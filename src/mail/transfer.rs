//! The transfer encoding of a body, and whether the body really is encoded.
//!
//! Some programs label plain text as base64 or quoted-printable, and mailing lists append clear
//! text to encoded bodies. Decoding such text would destroy it. The bytes alone decide. A remark
//! names the fault, because other programs may show something else (threats D12).

use std::borrow::Cow;

use mail_parser::Encoding;

use super::charset;
use super::words::hex_octet;

/// Fewest base64 letters, if there is no padding, that are taken for base64: fewer may decode to
/// text by chance.
const TELLING: usize = 8;

/// Decoded bytes that are examined; large bodies are not held in memory twice.
const LOOKED_AT: usize = 65_536;

/// Decoded bytes above which a few invalid characters are blamed on the transport.
const LONG: usize = 16;

/// How to decode a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transfer {
    declared: Encoding,
    pub(super) fault: Option<Fault>,
}

/// A body that contradicts its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Parts are invalid: decoded without them (RFC 2045 §6.8, §6.7).
    Damaged,
    /// Clear text from this byte on; often the whole body.
    ClearFrom(usize),
}

impl From<Encoding> for Transfer {
    fn from(declared: Encoding) -> Self {
        Self { declared, fault: None }
    }
}

impl Transfer {
    /// Checks the encoding against the text `body` in the charset `label`.
    pub(super) fn of_text(self, body: &[u8], label: Option<&str>) -> Self {
        let fault = match self.declared {
            Encoding::Base64 => judge_base64(body, label),
            Encoding::QuotedPrintable => judge_quoted(body),
            Encoding::None => None,
        };
        Self { fault, ..self }
    }

    /// The name in a Content-Transfer-Encoding field.
    pub(super) const fn name(self) -> &'static str {
        match self.declared {
            Encoding::Base64 => "base64",
            Encoding::QuotedPrintable => "quoted-printable",
            Encoding::None => "8bit",
        }
    }

    /// The name of the encoding; None if the body is read as it is.
    pub(super) fn decodes(self) -> Option<&'static str> {
        let is_read_as_is =
            self.declared == Encoding::None || self.fault == Some(Fault::ClearFrom(0));
        (!is_read_as_is).then(|| self.name())
    }

    pub(super) fn decode(self, body: &[u8]) -> Cow<'_, [u8]> {
        match self.fault {
            None | Some(Fault::Damaged) => self.declared.decode(body),
            Some(Fault::ClearFrom(0)) => Cow::Borrowed(body),
            Some(Fault::ClearFrom(at)) => {
                let (head, tail) = body.split_at_checked(at).unwrap_or((body, &[]));
                let mut all = self.declared.decode(head).into_owned();
                if !all.ends_with(b"\n") {
                    all.extend_from_slice(b"\r\n");
                }
                all.extend_from_slice(tail);
                Cow::Owned(all)
            }
        }
    }

    pub(super) fn decoded_len(self, body: &[u8]) -> usize {
        match self.fault {
            None | Some(Fault::Damaged) => self.declared.decoded_len(body),
            Some(Fault::ClearFrom(_)) => self.decode(body).len(),
        }
    }
}

/// Statistics of a body labelled base64.
#[derive(Default)]
struct Shape {
    /// Base64 letters, and padding at line ends.
    letters: usize,
    padding: usize,
    /// There are other characters, apart from white space at line ends.
    has_foreign: bool,
    /// Start of the first line that is clearly not base64: words, or a drawn line.
    clear_at: Option<usize>,
    /// Start of the first line after one that ends in padding.
    behind_padding: Option<usize>,
}

impl Shape {
    fn of(body: &[u8]) -> Self {
        let (mut shape, mut at, mut is_padded) = (Self::default(), 0, false);
        for line in body.split_inclusive(|byte| *byte == b'\n') {
            let text = line.trim_ascii();
            if !text.is_empty() {
                if is_padded {
                    shape.behind_padding.get_or_insert(at);
                }
                let unpadded = text.strip_suffix(b"=").unwrap_or(text);
                let unpadded = unpadded.strip_suffix(b"=").unwrap_or(unpadded);
                let is_letter = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
                let letters = unpadded.iter().filter(is_letter).count();
                let foreign = unpadded.len() - letters;
                let has_words = unpadded.iter().any(u8::is_ascii_whitespace);
                if has_words || foreign * 4 > unpadded.len() {
                    shape.clear_at.get_or_insert(at);
                }
                shape.letters += letters;
                shape.padding += text.len() - unpadded.len();
                shape.has_foreign |= foreign > 0;
                is_padded |= text.len() > unpadded.len();
            }
            at += line.len();
        }
        shape
    }

    /// Tells whether the letters form whole groups of four.
    const fn is_complete(&self) -> bool {
        (self.letters + self.padding).is_multiple_of(4)
    }
}

fn judge_base64(body: &[u8], label: Option<&str>) -> Option<Fault> {
    let shape = Shape::of(body);
    let is_even = !shape.has_foreign && shape.clear_at.is_none() && shape.behind_padding.is_none();
    if is_even && shape.is_complete() {
        return None;
    }
    let decoded = Encoding::Base64.decode(body);
    if shape.clear_at.is_none() && is_text(&decoded, label) {
        let lacks_padding = is_even && shape.letters % 4 > 1;
        return (!lacks_padding).then_some(Fault::Damaged);
    }
    let is_encoded = |head: &[u8]| {
        let shape = Shape::of(head);
        let is_telling = shape.padding > 0 || shape.letters >= TELLING;
        is_telling && shape.is_complete() && is_text(&Encoding::Base64.decode(head), label)
    };
    let ends = [shape.clear_at, shape.behind_padding].into_iter().flatten();
    let clear_from = ends.into_iter().find(|at| body.get(..*at).is_some_and(is_encoded));
    if let Some(at) = clear_from {
        return Some(Fault::ClearFrom(at));
    }
    let is_evident = decoded.len() >= LONG
        && str::from_utf8(&decoded).is_ok_and(|text| !text.chars().any(is_odd));
    Some(if is_evident { Fault::Damaged } else { Fault::ClearFrom(0) })
}

fn is_odd(c: char) -> bool {
    let is_control = c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}');
    is_control || c == char::REPLACEMENT_CHARACTER
}

/// Tells whether the bytes can be text. Decoding anything else yields controls and invalid
/// characters.
fn is_text(octets: &[u8], label: Option<&str>) -> bool {
    if octets.len() < LONG {
        return str::from_utf8(octets)
            .is_ok_and(|text| !text.is_empty() && !text.chars().any(is_odd));
    }
    let octets = octets.get(..LOOKED_AT).unwrap_or(octets);
    let text = charset::decode(octets, label, usize::MAX).text;
    let (odd, all) = text
        .chars()
        .fold((0_usize, 0_usize), |(odd, all), c| (odd + usize::from(is_odd(c)), all + 1));
    odd * 20 <= all
}

/// Judges quoted-printable (RFC 2045 §6.7): each `=` must be followed by two hexadecimal digits or
/// end its line. If at least as many violate this as follow it, and no escape stands for a byte
/// that needs one, the text is not encoded.
fn judge_quoted(body: &[u8]) -> Option<Fault> {
    let (mut escapes, mut others) = (0_usize, 0_usize);
    let (mut is_drawn, mut is_telling) = (false, false);
    for at in memchr::memchr_iter(b'=', body) {
        let rest = body.get(at + 1..).unwrap_or_default();
        let escape = rest.get(..2).and_then(hex_octet);
        is_telling |= escape.is_some_and(|octet| !octet.is_ascii() || octet == b'=');
        let blank = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let ends_line = matches!(rest.get(blank..), Some([] | [b'\n', ..] | [b'\r', b'\n', ..]));
        match rest.first() {
            _ if escape.is_some() || ends_line => escapes += 1,
            // A line of `=` under a heading proves nothing.
            Some(b'=') => is_drawn = true,
            _ => others += 1,
        }
    }
    match (others, escapes) {
        (0, _) if !is_drawn => None,
        (1.., escapes) if others >= escapes && !is_telling => Some(Fault::ClearFrom(0)),
        _ => Some(Fault::Damaged),
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    fn base64(text: &str) -> String {
        let lines = STANDARD.encode(text).into_bytes();
        let lines: Vec<_> = lines.chunks(76).map(|line| str::from_utf8(line).unwrap()).collect();
        lines.join("\r\n") + "\r\n"
    }

    fn read(declared: Encoding, body: &str, label: Option<&str>) -> (Option<Fault>, String) {
        let transfer = Transfer::from(declared).of_text(body.as_bytes(), label);
        let decoded = transfer.decode(body.as_bytes());
        assert_eq!(transfer.decoded_len(body.as_bytes()), decoded.len(), "{body}");
        assert!(decoded.len() <= body.len(), "{body}");
        (transfer.fault, String::from_utf8_lossy(&decoded).into_owned())
    }

    const LETTER: &str = "Dear Support,\r\n\r\nplease send the invoice of order 4711, which has \
        not come yet.\r\n\r\nAlice\r\n";

    #[test]
    fn what_is_base64_is_decoded() {
        for text in ["abc", "Gr\u{fc}\u{df}e", LETTER, &LETTER.repeat(50)] {
            let body = base64(text);
            assert_eq!(read(Encoding::Base64, &body, None), (None, text.to_owned()));
            // Without padding, on one line, after blank lines.
            let body = format!("\r\n{}", body.replace(['=', '\r', '\n'], ""));
            assert_eq!(read(Encoding::Base64, &body, None), (None, text.to_owned()));
        }
        let (fault, text) = read(Encoding::Base64, " \r\n\r\n", None);
        assert_eq!((fault, text.as_str()), (None, ""));
    }

    #[test]
    fn text_that_is_called_base64_is_read_as_it_is() {
        for text in [
            LETTER,
            "Hello",
            "Hello Al.",
            "Thanks!",
            "Yes.\r\nAlice",
            "<p>Hello <b>Al</b></p>",
            "Dear\r\nMr. X,\r\nhow are you?",
            "Gr\u{fc}\u{df}e aus dem Caf\u{e9}",
            "a==b",
            "========",
        ] {
            for label in [None, Some("utf-8"), Some("windows-1252"), Some("x-unknown")] {
                let found = read(Encoding::Base64, text, label);
                assert_eq!(found, (Some(Fault::ClearFrom(0)), text.to_owned()), "{label:?}");
            }
        }
    }

    #[test]
    fn a_footer_in_clear_is_read_beside_what_is_encoded() {
        for footer in [
            "_______________________________________________\r\nlist@x.example\r\n",
            "-- \r\nTo leave this list, write to us.\r\n",
            "Unsubscribe\r\n",
            "\r\nUnsubscribe here\r\n",
        ] {
            for text in ["Hello!", LETTER, &LETTER.repeat(9)] {
                // Without padding, the encoded text extends as far as base64 letters go.
                let body = base64(text);
                let is_open = !body.contains('=') && footer.starts_with('U');
                if is_open {
                    continue;
                }
                let (fault, found) = read(Encoding::Base64, &(body.clone() + footer), None);
                let Some(Fault::ClearFrom(at)) = fault else { panic!("{fault:?}: {found}") };
                assert!(at >= body.len() && at < body.len() + 3, "{found}");
                assert!(found.starts_with(text) && found.ends_with(footer.trim_start()), "{found}");
            }
        }
        let latin = format!("{}Best regards of the list\r\n", "R3L832UhIQ==\r\n".repeat(4));
        let found = Transfer::from(Encoding::Base64).of_text(latin.as_bytes(), Some("latin1"));
        assert!(found.decode(latin.as_bytes()).starts_with(b"Gr\xfc\xdfe!!"), "{found:?}");
    }

    #[test]
    fn what_is_strewn_into_base64_is_left_out() {
        let body = base64(LETTER);
        for noise in ["!", "\u{fc}", " \u{1}", "-_", "."] {
            let mut noisy = body.clone();
            noisy.insert_str(10, noise);
            let found = read(Encoding::Base64, &noisy, None);
            assert_eq!(found, (Some(Fault::Damaged), LETTER.to_owned()), "{noise:?}");
        }
        // Cut off by a relay.
        let (fault, found) = read(Encoding::Base64, &body[..61], None);
        assert_eq!(fault, Some(Fault::Damaged));
        assert!(LETTER.starts_with(&found) && found.len() == 45, "{found}");
    }

    #[test]
    fn quoted_printable_is_what_its_escapes_say() {
        for (body, fault, expected) in [
            ("Gr=C3=BC=C3=9Fe, a=\r\nb=3d", None, "Gr\u{fc}\u{df}e, ab="),
            ("no escapes\r\nat all", None, "no escapes\r\nat all"),
            ("x=1 and y = 2", Some(Fault::ClearFrom(0)), "x=1 and y = 2"),
            (
                "<a href=\"x?id=41\" b=\"c\">",
                Some(Fault::ClearFrom(0)),
                "<a href=\"x?id=41\" b=\"c\">",
            ),
            ("<b a=\"x\" b=\"y\">=C3</b>", Some(Fault::Damaged), "<b a=\"x\" b=\"y\">\u{fffd}</b>"),
            ("=C3=BC =41 =zz", Some(Fault::Damaged), "\u{fc} A =zz"),
            ("=C3=BC\r\n======\r\nlist", Some(Fault::Damaged), "\u{fc}\r\n======\r\nlist"),
            ("=", None, ""),
        ] {
            let found = read(Encoding::QuotedPrintable, body, None);
            assert_eq!(found, (fault, expected.to_owned()), "{body}");
        }
        assert_eq!(read(Encoding::None, "=C3 \u{1}", None).0, None);
    }
}
