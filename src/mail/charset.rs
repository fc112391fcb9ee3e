//! Decodes bytes to text as a browser would: with the labels and decoders of the WHATWG Encoding
//! Standard, and with `legacy` for charsets that it lacks.
//!
//! ISO-2022-CN and similar charsets become one U+FFFD. Invalid bytes become U+FFFD. A byte order
//! mark decides and is removed. Without a known label, text is UTF-8 if it is ASCII or has more
//! valid than invalid characters beyond it, else windows-1252, the standard's fallback. Plain text
//! may also be ISO-2022-JP.

use encoding_rs::{
    BIG5, CoderResult, EUC_KR, Encoding, GBK, ISO_2022_JP, REPLACEMENT, SHIFT_JIS, UTF_8, UTF_16BE,
    UTF_16LE, WINDOWS_874, WINDOWS_1252, X_USER_DEFINED,
};
use memchr::memmem;

use super::legacy::Legacy;
use super::visible;

/// Bytes of an HTML document that are searched for a charset (HTML Standard §13.2.3.2).
const META_REACH: usize = 1024;

/// Decoded text, and how it was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) text: String,
    /// Name of the charset in the standard, or from `legacy`.
    pub(super) charset: &'static str,
    /// There is more text than was kept.
    pub(super) is_cut: bool,
    /// Why the label was not followed.
    pub(super) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The charset is unknown.
    Unknown,
    /// The bytes cannot be in this charset.
    Impossible,
}

/// A label that was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misread {
    pub(super) fault: Fault,
    pub(super) read_as: &'static str,
}

impl Misread {
    /// Tells whether nothing could be decoded.
    pub(super) fn is_lost(self) -> bool {
        self.read_as == REPLACEMENT.name()
    }

    /// Tells whether the text may be wrong, so that the original bytes are worth keeping.
    pub(super) fn is_guess(self) -> bool {
        self.fault == Fault::Unknown && self.read_as != UTF_8.name()
    }
}

impl Decoded {
    pub(super) fn misread(&self) -> Option<Misread> {
        Some(Misread { fault: self.fault?, read_as: self.charset })
    }
}

#[derive(Clone, Copy, Debug)]
enum Charset {
    Standard(&'static Encoding),
    Legacy(Legacy),
}

/// Decodes bytes in the charset `label` to at most `max` bytes of text.
pub(super) fn decode(octets: &[u8], label: Option<&str>, max: usize) -> Decoded {
    decode_or(octets, label, max, &|| guess_text(octets))
}

/// Like [`decode`], for HTML, which may name its charset itself.
pub(super) fn decode_html(octets: &[u8], label: Option<&str>, max: usize) -> Decoded {
    decode_or(octets, label, max, &|| named_by_meta(octets).unwrap_or_else(|| guess(octets)))
}

fn decode_or(
    octets: &[u8],
    label: Option<&str>,
    max: usize,
    guess: &dyn Fn() -> &'static Encoding,
) -> Decoded {
    // A byte order mark overrides any label, even an invalid one.
    if let Some((marked, _)) = Encoding::for_bom(octets) {
        return decode_as(octets, Charset::Standard(marked), max);
    }
    let label = label.map(|label| label.trim_ascii().to_ascii_lowercase());
    let named = label.filter(|label| !label.is_empty()).map(|label| labelled(&label, octets));
    let (charset, fault) = match named {
        Some(Ok(Charset::Standard(encoding))) if encoding == REPLACEMENT => {
            (Charset::Standard(encoding), Some(Fault::Unknown))
        }
        Some(Ok(charset)) => (charset, None),
        Some(Err(fault)) => (Charset::Standard(guess()), fault),
        None => (Charset::Standard(guess()), None),
    };
    Decoded { fault, ..decode_as(octets, charset, max) }
}

/// Returns the charset of a label in lower case, or the fault of the label. Err(None) means that
/// the label says nothing: many programs write US-ASCII without knowing what follows.
fn labelled(label: &str, octets: &[u8]) -> Result<Charset, Option<Fault>> {
    // Windows code pages by the names of Python and others.
    let encoding = match label {
        "cp874" | "ms874" => Some(WINDOWS_874),
        "cp932" | "ms932" => Some(SHIFT_JIS),
        "cp936" | "ms936" => Some(GBK),
        "cp949" | "ms949" | "uhc" => Some(EUC_KR),
        "cp950" | "ms950" => Some(BIG5),
        // The standard would read it as windows-1252.
        "us-ascii" | "ascii" | "ansi_x3.4-1968" if !is_plain_ascii(octets) => return Err(None),
        _ => Encoding::for_label(label.as_bytes()),
    };
    let standard = encoding.filter(|encoding| *encoding != REPLACEMENT).map(|encoding| {
        Charset::Standard(if encoding == X_USER_DEFINED { WINDOWS_1252 } else { encoding })
    });
    let legacy = || Legacy::named(label).map(Charset::Legacy);
    let replaced = encoding.map(Charset::Standard);
    let charset = standard.or_else(legacy).or(replaced).ok_or(Some(Fault::Unknown))?;
    let is_wide = encoding.is_some_and(|encoding| [UTF_16LE, UTF_16BE].contains(&encoding));
    if is_wide && is_narrow(octets) { Err(Some(Fault::Impossible)) } else { Ok(charset) }
}

/// Tells whether this is ASCII text and not UTF-16, in which each blank would have a NUL.
fn is_narrow(octets: &[u8]) -> bool {
    let is_text = |octet: &u8| matches!(octet, b'\t' | b'\n' | b'\r' | 0x20..=0x7e);
    octets.iter().all(is_text) && octets.iter().any(u8::is_ascii_whitespace)
}

fn is_plain_ascii(octets: &[u8]) -> bool {
    octets.is_ascii() && memchr::memchr(0x1b, octets).is_none()
}

fn decode_as(octets: &[u8], charset: Charset, max: usize) -> Decoded {
    let encoding = match charset {
        Charset::Standard(encoding) => encoding,
        Charset::Legacy(legacy) => {
            let mut text = legacy.decode(octets, max);
            let is_cut = text.len() > max;
            text.truncate(visible::cut(&text, max).len());
            return Decoded { text, charset: legacy.name(), is_cut, fault: None };
        }
    };
    let mut decoder = encoding.new_decoder();
    let most = decoder.max_utf8_buffer_length(octets.len()).unwrap_or(usize::MAX);
    // Room for one more character: a decoder stops when the next one might not fit.
    let mut text = String::with_capacity(most.min(max.saturating_add(8)));
    let (result, _, _) = decoder.decode_to_string(octets, &mut text, true);
    let is_cut = result == CoderResult::OutputFull || text.len() > max;
    text.truncate(visible::cut(&text, max).len());
    Decoded { text, charset: encoding.name(), is_cut, fault: None }
}

/// Guesses by majority: bytes of other charsets form valid UTF-8 characters now and then.
fn guess(octets: &[u8]) -> &'static Encoding {
    let (mut fitting, mut unfitting) = (0_usize, 0_usize);
    for chunk in octets.utf8_chunks() {
        fitting += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        unfitting += usize::from(!chunk.invalid().is_empty());
    }
    if octets.is_ascii() || fitting > unfitting { UTF_8 } else { WINDOWS_1252 }
}

/// Like [`guess`], for plain text. Japanese mail often does not declare ISO-2022-JP (RFC 1468). In
/// HTML that guess could hide markup that other readers see.
fn guess_text(octets: &[u8]) -> &'static Encoding {
    let escapes = [&b"\x1b$B"[..], b"\x1b$@"];
    let has_escape =
        octets.is_ascii() && escapes.iter().any(|escape| memmem::find(octets, escape).is_some());
    let fits = || ISO_2022_JP.decode_without_bom_handling_and_without_replacement(octets).is_some();
    if has_escape && fits() { ISO_2022_JP } else { guess(octets) }
}

/// `<meta charset=…>`, or `<meta … content="…; charset=…">`.
fn named_by_meta(octets: &[u8]) -> Option<&'static Encoding> {
    let head = octets.get(..META_REACH).unwrap_or(octets).to_ascii_lowercase();
    let head = str::from_utf8(&head).map_or_else(
        |error| str::from_utf8(head.get(..error.valid_up_to()).unwrap_or_default()),
        Ok,
    );
    let named = head.ok()?.split("<meta").skip(1).find_map(|meta| {
        let (_, rest) = meta.split('>').next()?.split_once("charset")?;
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let label = rest.trim_start_matches(['"', '\'']);
        let end = |c: char| c.is_ascii_whitespace() || matches!(c, '"' | '\'' | ';' | '/');
        Encoding::for_label(label.split(end).next()?.as_bytes())
    })?;
    // The bytes read so far show that it is not UTF-16.
    if named == UTF_16BE || named == UTF_16LE {
        return Some(UTF_8);
    }
    Some(if named == X_USER_DEFINED { WINDOWS_1252 } else { named })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_of_the_standard() {
        for (label, name) in [
            ("utf8", "UTF-8"),
            ("UTF-8", "UTF-8"),
            (" utf-8\t", "UTF-8"),
            ("unicode-1-1-utf-8", "UTF-8"),
            ("us-ascii", "windows-1252"),
            ("latin1", "windows-1252"),
            ("ISO-8859-1", "windows-1252"),
            ("iso8859-1", "windows-1252"),
            ("iso-8859-9", "windows-1254"),
            ("iso-8859-11", "windows-874"),
            ("iso-8859-8-i", "ISO-8859-8-I"),
            ("shift_jis", "Shift_JIS"),
            ("sjis", "Shift_JIS"),
            ("windows-31j", "Shift_JIS"),
            ("ms_kanji", "Shift_JIS"),
            ("iso-2022-jp", "ISO-2022-JP"),
            ("euc-jp", "EUC-JP"),
            ("gb2312", "GBK"),
            ("gb_2312-80", "GBK"),
            ("x-gbk", "GBK"),
            ("gb18030", "gb18030"),
            ("big5-hkscs", "Big5"),
            ("ks_c_5601-1987", "EUC-KR"),
            ("windows-949", "EUC-KR"),
            ("cp932", "Shift_JIS"),
            ("CP936", "GBK"),
            ("cp949", "EUC-KR"),
            (" cp950 ", "Big5"),
            ("x-user-defined", "windows-1252"),
            ("koi8-r", "KOI8-R"),
            ("koi", "KOI8-R"),
            ("koi8-ru", "KOI8-U"),
            ("macintosh", "macintosh"),
            ("utf-16", "UTF-16LE"),
            ("unicode", "UTF-16LE"),
            ("utf-16be", "UTF-16BE"),
            ("iso-2022-cn", "replacement"),
            ("iso-2022-cn-ext", "replacement"),
            ("cp866", "IBM866"),
            ("cp874", "windows-874"),
            // Charsets that the standard replaces or lacks, and that mail was written in.
            ("iso-2022-kr", "ISO-2022-KR"),
            ("HZ-GB-2312", "HZ-GB-2312"),
            ("utf-7", "UTF-7"),
            ("unicode-1-1-utf-7", "UTF-7"),
            (" IBM850 ", "CP850"),
            ("cp437", "CP437"),
            // Not labels: the fallback by content.
            ("utf-32", "windows-1252"),
            ("x-unknown", "windows-1252"),
            ("cesu-8", "windows-1252"),
            ("", "windows-1252"),
        ] {
            assert_eq!(decode(b"\xff", Some(label), 99).charset, name, "{label}");
        }
        assert_eq!(decode(b"\xff", None, 99).charset, "windows-1252");
    }

    #[test]
    fn octets_are_read_in_their_charset() {
        for (label, octets, expected) in [
            ("shift_jis", &b"\x82\xb1\x82\xf1"[..], "\u{3053}\u{3093}"),
            ("iso-2022-jp", b"\x1b$B$3$s\x1b(B", "\u{3053}\u{3093}"),
            ("gb2312", b"\xc4\xe3\xba\xc3", "\u{4f60}\u{597d}"),
            ("euc-kr", b"\xb0\xa1", "\u{ac00}"),
            ("big5", b"\xa4\xa4", "\u{4e2d}"),
            ("koi8-r", b"\xf0\xd2\xc9", "\u{41f}\u{440}\u{438}"),
            ("latin1", b"\x80\x93x", "\u{20ac}\u{201c}x"),
            ("iso-8859-15", b"\xa4", "\u{20ac}"),
            ("utf-16le", b"a\0\x3d\xd8\x00\xde", "a\u{1f600}"),
            // Invalid bytes, an overlong form, lone surrogates, a truncated sequence.
            ("utf-8", b"a\xffb\xc0\xafc", "a\u{fffd}b\u{fffd}\u{fffd}c"),
            ("utf-8", b"\xed\xa0\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            ("utf-16le", b"\x00\xd8a\0", "\u{fffd}a"),
            ("utf-16be", b"\xdc\x00\0a", "\u{fffd}a"),
            ("gbk", b"a\xc4", "a\u{fffd}"),
            ("shift_jis", b"\x82<b>", "\u{fffd}<b>"),
            // Never decoded, so that nothing in it becomes markup.
            ("iso-2022-cn", b"\x1b$)A<script>", "\u{fffd}"),
            // Decoded as meant; checks for markup look at the text.
            ("iso-2022-kr", b"\x1b$)C<b>\x0e0!\x0f", "<b>\u{ac00}"),
            ("hz-gb-2312", b"~{<:~}<b>", "\u{5df1}<b>"),
            ("utf-7", b"+ADw-script+AD4-", "<script>"),
            ("utf-7", b"\xef\xbb\xbf+ADw-", "+ADw-"),
            // Labelled UTF-16, but not.
            ("utf-16", b"Hello Al", "Hello Al"),
            ("utf-16be", b"\0H\0i\0 ", "Hi "),
            ("utf-16be", b"O`Y}", "\u{4f60}\u{597d}"),
            // A byte order mark overrides the label and is not part of the text.
            ("latin1", b"\xef\xbb\xbf\xc3\xa4", "\u{e4}"),
            ("utf-8", b"\xff\xfea\0", "a"),
            ("utf-8", b"\xfe\xff\0a", "a"),
            ("x-unknown", b"\xc3\xa4\xc3\xb6\xff", "\u{e4}\u{f6}\u{fffd}"),
            ("x-unknown", b"\xc3\xa4\xff", "\u{c3}\u{a4}\u{ff}"),
            ("x-unknown", b"Gr\xfc\xdfe", "Gr\u{fc}\u{df}e"),
            ("us-ascii", b"Gr\xc3\xbc\xc3\x9fe", "Gr\u{fc}\u{df}e"),
            ("us-ascii", b"\x1b$B$3$s\x1b(B", "\u{3053}\u{3093}"),
            ("", b"\x1b$B$3$s\x1b(B", "\u{3053}\u{3093}"),
            ("", b"\x1b$B<b>\x1b(B", "\u{1b}$B<b>\u{1b}(B"),
            ("x-user-defined", b"\xfc", "\u{fc}"),
        ] {
            assert_eq!(decode(octets, Some(label), 99).text, expected, "{label} {octets:?}");
        }
    }

    #[test]
    fn a_chance_hit_makes_no_utf8() {
        let latin = "windows-1252";
        for (octets, name) in [
            // C9 BB and DC 93 are valid UTF-8 characters too.
            (&b"Le \xabCAF\xc9\xbb \x85 \xe9l\xe8ves"[..], latin),
            (b"\x84\xc4\xd6\xdc\x93", latin),
            ("Füße – „ÄÖÜ“ und CAFɻ".as_bytes(), "UTF-8"),
            (&[b"\xe9 ", "äöü".as_bytes()].concat(), "UTF-8"),
        ] {
            assert_eq!(decode(octets, None, 99).charset, name, "{octets:?}");
        }
        for (encoding, text) in [
            (GBK, "请于五月五日之前预订从柏林到慕尼黑的火车票，谢谢。"),
            (SHIFT_JIS, "五月五日までにベルリンからミュンヘンへの切符を予約してください。"),
            (EUC_KR, "오월 오일까지 베를린에서 뮌헨으로 가는 표를 예약해 주세요."),
            (encoding_rs::WINDOWS_1251, "Закажите, пожалуйста, билет из Берлина в Мюнхен."),
        ] {
            let octets = encoding.encode(text).0;
            for label in [None, Some("x-unknown"), Some("us-ascii")] {
                let decoded = decode(&octets, label, 999);
                assert_eq!(decoded.charset, latin, "{text}");
                assert!(!decoded.text.contains('\u{fffd}'), "{text}");
            }
            assert_eq!(decode(&octets, Some(encoding.name()), 999).text, text);
        }
    }

    #[test]
    fn a_mark_leaves_no_doubt_about_a_label() {
        for (label, octets, name) in [
            ("x-unknown", &b"\xff\xfeH\0i\0"[..], "UTF-16LE"),
            ("x-unknown", b"\xfe\xff\0H\0i", "UTF-16BE"),
            ("x-unknown", b"\xef\xbb\xbfHi", "UTF-8"),
            ("iso-2022-cn", b"\xef\xbb\xbfHi", "UTF-8"),
            ("utf-7", b"\xef\xbb\xbfHi", "UTF-8"),
        ] {
            for read in [decode, decode_html] {
                let decoded = read(octets, Some(label), 99);
                let found = (decoded.text.as_str(), decoded.charset, decoded.misread());
                assert_eq!(found, ("Hi", name, None), "{label}");
            }
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        for (label, octets) in [("latin1", &b"\xe4\xe4\xe4"[..]), ("utf-8", "äää".as_bytes())] {
            let whole = decode(octets, Some(label), 6);
            assert_eq!((whole.text.as_str(), whole.is_cut), ("äää", false));
            for (max, kept) in [(5, "ää"), (4, "ää"), (1, ""), (0, "")] {
                let decoded = decode(octets, Some(label), max);
                assert_eq!((decoded.text.as_str(), decoded.is_cut), (kept, true), "{max}");
            }
        }
    }

    #[test]
    fn a_document_may_name_its_charset() {
        for (html, name) in [
            ("<meta charset=koi8-r>\u{fc}", "KOI8-R"),
            ("<html><META http-equiv=x content='text/html; Charset = \"gb2312\"'>", "GBK"),
            ("<meta name=x><meta charset='utf-16'>", "UTF-8"),
            ("<meta charset=utf-7>", "UTF-8"),
            ("<p>charset=koi8-r", "UTF-8"),
        ] {
            assert_eq!(decode_html(html.as_bytes(), None, 99).charset, name, "{html}");
            assert_eq!(decode_html(html.as_bytes(), Some("gbk"), 99).charset, "GBK", "{html}");
        }
    }
}
