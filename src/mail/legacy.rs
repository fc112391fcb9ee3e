//! Charsets of old mail that the WHATWG Encoding Standard lacks or replaces, so that browsers do
//! not decode them: UTF-7, HZ, ISO-2022-KR, DOS code pages.
//!
//! Browsers avoid them because harmless-looking letters could decode to markup. Here the decoded
//! text is examined, and pages are made from it in UTF-8. The original bytes are only served for
//! download.

use encoding_rs::{EUC_KR, GBK};
use oem_cp::code_table::DECODING_TABLE_CP_MAP;
use oem_cp::code_table_type::TableType;

use super::mail_parser_adapter;

/// Code pages by number, with their names in Python and iconv.
const PAGES: &[(u16, &str)] = &[
    (437, "CP437"),
    (720, "CP720"),
    (737, "CP737"),
    (775, "CP775"),
    (850, "CP850"),
    (852, "CP852"),
    (855, "CP855"),
    (857, "CP857"),
    (858, "CP858"),
    (860, "CP860"),
    (861, "CP861"),
    (862, "CP862"),
    (863, "CP863"),
    (864, "CP864"),
    (865, "CP865"),
    (869, "CP869"),
];

/// A byte that is invalid in GBK and EUC-KR: decoded as U+FFFD.
const INVALID: u8 = 0xff;

/// Most bytes that the shortest character can take in UTF-7, with leftover bits (`+AGEAA-`).
const LONGEST_OF_UTF7: usize = 8;

#[derive(Clone, Copy, Debug)]
pub(super) enum Legacy {
    /// RFC 2152.
    Utf7,
    /// RFC 1843.
    Hz,
    /// RFC 1557.
    Iso2022Kr,
    CodePage(&'static str, &'static TableType),
}

impl Legacy {
    /// Returns the charset with this label, in lower case.
    pub(super) fn named(label: &str) -> Option<Self> {
        match label {
            "utf-7"
            | "utf7"
            | "utf_7"
            | "csutf7"
            | "unicode-1-1-utf-7"
            | "csunicode11utf7"
            | "unicode-2-0-utf-7"
            | "x-unicode-2-0-utf-7" => Some(Self::Utf7),
            "hz-gb-2312" | "hz" => Some(Self::Hz),
            "iso-2022-kr" | "iso2022-kr" | "iso2022kr" | "csiso2022kr" => Some(Self::Iso2022Kr),
            _ => Self::code_page(label),
        }
    }

    /// Accepts `cp437`, `IBM-437`, `IBM00858` and similar, or the number alone.
    fn code_page(label: &str) -> Option<Self> {
        const PREFIXES: &[&str] = &["csibm", "cspcp", "ccsid", "ibm", "cp", "dos", ""];
        let rest = match label {
            "cspc8codepage437" => "437",
            "cspc850multilingual" => "850",
            _ => PREFIXES.iter().find_map(|prefix| label.strip_prefix(prefix))?,
        };
        let digits = rest.trim_start_matches(['-', '_']);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: u16 = digits.parse().ok().filter(|_| is_number)?;
        let (_, name) = PAGES.iter().find(|(page, _)| *page == number)?;
        Some(Self::CodePage(name, DECODING_TABLE_CP_MAP.get(&number)?))
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Utf7 => "UTF-7",
            Self::Hz => "HZ-GB-2312",
            Self::Iso2022Kr => "ISO-2022-KR",
            Self::CodePage(name, _) => name,
        }
    }

    /// Decodes `octets`. The text may exceed `max` bytes, but decoding stops soon after.
    pub(super) fn decode(self, octets: &[u8], max: usize) -> String {
        let reach = |each: usize| {
            let most = max.saturating_mul(each).saturating_add(each);
            octets.get(..most).unwrap_or(octets)
        };
        let text = match self {
            Self::Utf7 => mail_parser_adapter::utf7(reach(LONGEST_OF_UTF7)),
            Self::Hz => GBK.decode_without_bom_handling(&hz_as_gbk(octets)).0.into_owned(),
            Self::Iso2022Kr => {
                EUC_KR.decode_without_bom_handling(&kr_as_euc(octets)).0.into_owned()
            }
            Self::CodePage(_, table) => table.decode_string_lossy(reach(1)),
        };
        text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text)
    }
}

const fn is_graphic(octet: u8) -> bool {
    matches!(octet, 0x21..=0x7e)
}

/// HZ: characters of GB 2312 between `~{` and `~}`, or up to the end of the line.
fn hz_as_gbk(octets: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut is_shifted) = (Vec::with_capacity(octets.len()), octets, false);
    while let Some((&first, tail)) = rest.split_first() {
        let taken = match (is_shifted, first, tail) {
            (false, b'~', [b'{', ..]) => {
                is_shifted = true;
                2
            }
            (true, b'~', [b'}', ..]) => {
                is_shifted = false;
                2
            }
            (false, b'~', [b'~', ..]) => {
                out.push(b'~');
                2
            }
            // A continued line.
            (false, b'~', [b'\n', ..]) => 2,
            (false, b'~', [b'\r', b'\n', ..]) => 3,
            _ => take(&mut out, &mut is_shifted, first, tail),
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// ISO-2022-KR: characters of KS X 1001 between SO and SI, or up to the end of the line.
fn kr_as_euc(octets: &[u8]) -> Vec<u8> {
    let (mut out, mut rest, mut is_shifted) = (Vec::with_capacity(octets.len()), octets, false);
    while let Some((&first, tail)) = rest.split_first() {
        let taken = match (first, tail) {
            // Announces the set that SO selects; there is only one.
            (0x1b, [b'$', b')', b'C', ..]) => 4,
            (0x0e | 0x0f, _) => {
                is_shifted = first == 0x0e;
                1
            }
            _ => take(&mut out, &mut is_shifted, first, tail),
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Copies one character. Returns its length in bytes: two if shifted.
fn take(out: &mut Vec<u8>, is_shifted: &mut bool, first: u8, tail: &[u8]) -> usize {
    let second = tail.first().copied().filter(|second| is_graphic(*second));
    *is_shifted &= first != b'\n';
    match second {
        _ if !first.is_ascii() => out.push(INVALID),
        Some(second) if *is_shifted && is_graphic(first) => {
            out.extend_from_slice(&[first | 0x80, second | 0x80]);
            return 2;
        }
        None if *is_shifted && is_graphic(first) => out.push(INVALID),
        _ => out.push(first),
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_those_that_senders_write() {
        for (label, name) in [
            ("utf-7", "UTF-7"),
            ("unicode-1-1-utf-7", "UTF-7"),
            ("hz-gb-2312", "HZ-GB-2312"),
            ("csiso2022kr", "ISO-2022-KR"),
            ("ibm850", "CP850"),
            ("cp850", "CP850"),
            ("850", "CP850"),
            ("cspc850multilingual", "CP850"),
            ("ibm437", "CP437"),
            ("cp-437", "CP437"),
            ("cspc8codepage437", "CP437"),
            ("ibm00858", "CP858"),
            ("cp720", "CP720"),
        ] {
            assert_eq!(Legacy::named(label).map(Legacy::name), Some(name), "{label}");
        }
        for label in ["", "cp", "cp1", "+437", "cp+437", "ibm037", "utf-8", "cp99999999", "-"] {
            assert_eq!(Legacy::named(label).map(Legacy::name), None, "{label}");
        }
        for (number, _) in PAGES {
            assert!(Legacy::named(&format!("cp{number}")).is_some(), "{number}");
        }
    }

    #[test]
    fn octets_are_read_in_them() {
        for (label, octets, expected) in [
            ("cp437", &b"Gr\x81\xe1e \xfb\xac=\xab"[..], "Gr\u{fc}\u{df}e \u{221a}\u{bc}=\u{bd}"),
            ("ibm850", b"Gr\x81\xe1e \xb5", "Gr\u{fc}\u{df}e \u{c1}"),
            ("cp858", b"\xd5", "\u{20ac}"),
            ("cp857", b"a\xe7", "a\u{fffd}"),
            // RFC 1843 §1; a continued line, a tilde, a line end instead of `~}`.
            ("hz", b"x ~{<:Ky2;~} y", "x \u{5df1}\u{6240}\u{4e0d} y"),
            ("hz", b"a~~b~\r\nc~\nd ~{<:\r\n<:", "a~bcd \u{5df1}\r\n<:"),
            ("hz", b"~{< ~} ~{<", "\u{fffd}  \u{fffd}"),
            ("hz", b"\xc4\xe3 ~x", "\u{fffd}\u{fffd} ~x"),
            ("iso-2022-kr", b"\x1b$)C\x0e0!\x0f a<b>", "\u{ac00} a<b>"),
            ("iso-2022-kr", b"\x0e0!0\n0!\x0e0\x0f", "\u{ac00}\u{fffd}\n0!\u{fffd}"),
            ("utf-7", b"Hi Mom +Jjo-!", "Hi Mom \u{263a}!"),
            ("utf-7", b"+2D3eAA- +- +ADw-b+AD4-", "\u{1f600} + <b>"),
            // An open shift at the end loses nothing.
            ("utf-7", b"a+AGEAYg", "aab"),
            ("utf-7", b"+/v8-a", "a"),
        ] {
            let found = Legacy::named(label).unwrap().decode(octets, 99);
            assert_eq!(found, expected, "{label} {octets:?}");
        }
    }

    #[test]
    fn no_more_is_read_than_is_wanted() {
        let octets = b"+AGEAA-".repeat(1000);
        let found = Legacy::Utf7.decode(&octets, 10);
        assert!((10..100).contains(&found.len()), "{}", found.len());
        let found = Legacy::named("cp437").unwrap().decode(&octets, 10);
        assert_eq!(found.len(), 11);
    }
}
