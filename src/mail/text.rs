//! The text that a person would read: the plain text of a message, else its HTML rendered.
//!
//! The library decodes transfer encodings and charsets; what comes out is valid UTF-8 with line
//! feeds only, without NULs and other controls, and bounded.

use mail_parser::{MessagePart, PartKind};

use super::{html, visible};

/// The readable side of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Readable {
    /// What stands in the message record.
    pub(super) text: String,
    /// The plain text parts alone, when there are any and an HTML part stands beside them.
    pub(super) plain: Option<String>,
    /// The HTML part, rendered and examined.
    pub(super) html: Option<html::Reading>,
}

/// Bounds of [`read`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Octets of text.
    pub(super) text: usize,
    /// Hidden passages and links remembered.
    pub(super) notes: usize,
}

/// Reads the body parts `body`, in order, and the HTML part that stands for the whole message.
/// Blank plain text counts as none: many senders put an empty part before their HTML.
pub(super) fn read<'m>(
    body: &[MessagePart<'m>],
    html_part: Option<MessagePart<'m>>,
    bounds: Bounds,
    is_notable_link: &dyn Fn(&str, &str) -> bool,
) -> Readable {
    let render = |part: &MessagePart<'m>| {
        let text = part.text().unwrap_or_default();
        html::read(&text, bounds.text, bounds.notes, is_notable_link)
    };
    let reading = html_part.as_ref().map(render);
    let (mut text, mut plain) = (String::new(), String::new());
    for part in body {
        // Each octet is decoded once for each message: parts beyond the bound are not opened.
        if text.len() >= bounds.text {
            break;
        }
        match part.kind() {
            PartKind::Text => {
                let decoded = part.text_prefix_bytes(bounds.text).unwrap_or_default();
                let decoded = plain_text(&decoded);
                append(&mut plain, &decoded, bounds.text);
                append(&mut text, &decoded, bounds.text);
            }
            PartKind::Html => match (html_part, &reading) {
                (Some(chosen), Some(reading)) if chosen.id() == part.id() => {
                    append(&mut text, &reading.text, bounds.text);
                }
                _ => append(&mut text, &render(part).text, bounds.text),
            },
            _ => {}
        }
    }
    if text.is_empty()
        && let Some(reading) = &reading
    {
        text.clone_from(&reading.text);
    }
    let plain = (!plain.is_empty() && reading.is_some()).then_some(plain);
    Readable { text, plain, html: reading }
}

fn append(text: &mut String, more: &str, max: usize) {
    let separator = if text.is_empty() { "" } else { "\n\n" };
    let room = max.saturating_sub(text.len() + separator.len());
    let more = visible::cut(more, room);
    if !more.is_empty() {
        text.push_str(separator);
        text.push_str(more);
    }
}

/// Line feeds only, no controls but them and tabs, no blank lines at the ends.
fn plain_text(decoded: &str) -> String {
    let mut out = String::with_capacity(decoded.len());
    let mut chars = decoded.strip_prefix('\u{feff}').unwrap_or(decoded).chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
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
