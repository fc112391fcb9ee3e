//! The readable text of a message: its plain text, else its HTML rendered.
//!
//! The text is valid UTF-8 with line feeds only, without NULs and other controls, and bounded.
//! `charset` and `transfer` decode it.

use std::collections::BTreeMap;

use super::charset::{self, Misread};
use super::transfer::Transfer;
use super::{html, visible};

/// A shown part before decoding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<'a> {
    pub(super) number: usize,
    pub(super) is_html: bool,
    pub(super) transfer: Transfer,
    pub(super) charset: Option<&'a str>,
    pub(super) octets: &'a [u8],
}

/// The readable content of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    /// The text in the message record.
    pub(super) text: String,
    /// Some text or HTML was not read.
    pub(super) is_cut: bool,
    /// The plain text parts alone, if there are any and also an HTML part.
    pub(super) plain: Option<String>,
    /// The HTML part of the message, rendered and examined.
    pub(super) html: Option<html::Reading>,
    /// The other HTML parts, without their text.
    pub(super) other_htmls: Vec<html::Reading>,
    /// Charset that the HTML was decoded with; empty without HTML.
    pub(super) charset: &'static str,
    /// Parts that were not decoded by their label.
    pub(super) misread: Vec<(usize, Misread)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of text.
    pub(super) text: usize,
    /// Bytes of decoded HTML, all parts together.
    pub(super) html: usize,
    /// Most hidden passages and links that are kept.
    pub(super) notes: usize,
}

/// Reads the text parts `bodies` in order and the HTML parts `htmls`, the first of which is the
/// HTML of the message. Blank plain text counts as none: many senders put an empty part before
/// their HTML.
pub(super) fn read(
    bodies: &[Body<'_>],
    htmls: &[Body<'_>],
    bounds: Bounds,
    is_notable_link: &dyn Fn(&str, &str) -> bool,
) -> Readable {
    let mut readable = Readable::default();
    let mut room = bounds.html;
    let mut rendered: BTreeMap<usize, html::Reading> = BTreeMap::new();
    for (at, part) in htmls.iter().enumerate() {
        let octets = part.transfer.decode(part.octets);
        let html = charset::decode_html(&octets, part.charset, room);
        readable.is_cut |= html.is_cut;
        readable.misread.extend(html.misread().map(|misread| (part.number, misread)));
        room -= html.text.len();
        let reading = html::read(&html.text, bounds.text, bounds.notes, is_notable_link);
        readable.is_cut |= reading.is_cut;
        if at == 0 {
            readable.charset = html.charset;
        }
        rendered.insert(part.number, reading);
    }
    let mut plain = String::new();
    for part in bodies {
        // Each byte of a message is decoded once at most: parts beyond the bound are not opened.
        if readable.text.len() >= bounds.text {
            readable.is_cut = true;
            break;
        }
        let more = if part.is_html {
            // Every HTML part among the texts is also in `htmls`.
            rendered.get(&part.number).map(|reading| reading.text.clone()).unwrap_or_default()
        } else {
            let octets = part.transfer.decode(part.octets);
            let decoded = charset::decode(&octets, part.charset, bounds.text);
            readable.is_cut |= decoded.is_cut;
            readable.misread.extend(decoded.misread().map(|misread| (part.number, misread)));
            let more = plain_text(&decoded.text);
            // Only needed for the comparison with HTML.
            if !htmls.is_empty() {
                append(&mut plain, &more, bounds.text);
            }
            more
        };
        readable.is_cut |= !append(&mut readable.text, &more, bounds.text);
    }
    let reading = htmls.first().and_then(|part| rendered.remove(&part.number));
    if readable.text.is_empty()
        && let Some(reading) = &reading
    {
        readable.text.clone_from(&reading.text);
    }
    readable.plain = (!plain.is_empty() && reading.is_some()).then_some(plain);
    readable.html = reading;
    let others = rendered.into_values();
    readable.other_htmls =
        others.map(|reading| html::Reading { text: String::new(), ..reading }).collect();
    readable
}

/// Returns false if `more` was cut.
fn append(text: &mut String, more: &str, max: usize) -> bool {
    let separator = if text.is_empty() { "" } else { "\n\n" };
    let room = max.saturating_sub(text.len() + separator.len());
    let kept = visible::cut(more, room);
    if !kept.is_empty() {
        text.push_str(separator);
        text.push_str(kept);
    }
    kept.len() == more.len()
}

/// Keeps line feeds and tabs, removes other controls and blank lines at both ends.
fn plain_text(decoded: &str) -> String {
    let mut out = String::with_capacity(decoded.len());
    let mut rest = decoded.strip_prefix('\u{feff}').unwrap_or(decoded);
    let stays = |octet: u8| matches!(octet, b'\n' | b'\t' | b' '..=b'~');
    loop {
        let plain = rest.bytes().position(|octet| !stays(octet)).unwrap_or(rest.len());
        let (before, behind) = rest.split_at_checked(plain).unwrap_or((rest, ""));
        out.push_str(before);
        let mut chars = behind.chars();
        let Some(c) = chars.next() else { break };
        rest = chars.as_str();
        match c {
            '\r' if rest.starts_with('\n') => {}
            '\r' => out.push('\n'),
            _ if c.is_control() => {}
            _ => out.push(c),
        }
    }
    // The first line keeps its indentation.
    let start = out.find(|c: char| !c.is_whitespace()).map_or(out.len(), |first| {
        out.get(..first).and_then(|blank| blank.rfind('\n')).map_or(0, |newline| newline + 1)
    });
    out.get(start..).unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_has_line_feeds_and_no_controls() {
        for (raw, expected) in [
            ("a\r\nb\rc\n", "a\nb\nc"),
            ("\u{feff}a\0\u{1b}[31mb\u{85}c\u{7f}", "a[31mbc"),
            ("\r\n \r\n  a\r\n\tb \r\n\r\n", "  a\n\tb"),
            ("\r\n \t", ""),
            ("", ""),
        ] {
            assert_eq!(plain_text(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn appended_text_is_bounded_between_characters() {
        let mut text = String::from("ab");
        append(&mut text, "äöü", 7);
        assert_eq!(text, "ab\n\nä");
        append(&mut text, "x", 7);
        assert_eq!(text, "ab\n\nä");
    }
}
