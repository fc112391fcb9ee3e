//! HTML as a person would read it, and what such a person would not see: hidden text, and links
//! whose text names another host.
//!
//! Styles in attributes are followed; rules in `<style>` are not, so text that only a style sheet
//! hides counts as seen. Linear, without recursion; at most [`MOST_OPEN`] elements are remembered.

use super::tags::{Piece, Pieces, Tag, TagName, decode_entities};
use super::text_sink::TextSink;

/// Open elements remembered at a time; some start tags look through them. Real mail nests a few
/// dozen; deeper elements keep their text and lose their style.
const MOST_OPEN: usize = 128;
/// Elements that a start tag looks through for one that it ends: text nests a few deep in its
/// paragraph.
const IMPLIED_REACH: usize = 32;
/// Octets kept of a hidden passage or a link's text.
const SAMPLE: usize = 200;

/// An HTML document, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) text: String,
    /// The beginnings of hidden passages, bounded in count and length.
    pub(super) hidden: Vec<String>,
    /// What a link shows, and its `href`; bounded in count and length.
    pub(super) links: Vec<(String, String)>,
}

/// Reads `html`: at most `max_text` octets of text and `max_notes` hidden passages and links each.
/// `is_notable` chooses the links that are worth keeping.
pub(super) fn read(
    html: &str,
    max_text: usize,
    max_notes: usize,
    is_notable: &dyn Fn(&str, &str) -> bool,
) -> Reading {
    let mut reader = Reader {
        sink: TextSink::new(max_text),
        open: Vec::new(),
        names: Census::default(),
        beyond: 0,
        link: None,
        passage: None,
        max_notes,
        is_notable,
        reading: Reading::default(),
    };
    for piece in Pieces::new(html) {
        match piece {
            Piece::Text(text) => reader.text(text),
            Piece::Open(tag) => reader.open(&tag),
            Piece::Close(name) => reader.close(name),
        }
    }
    reader.end_link();
    reader.end_passage();
    reader.reading.text = reader.sink.into_text();
    reader.reading
}

#[derive(Clone, Copy, Default)]
struct Look {
    /// `display: none` and its kin: nothing inside can undo it.
    is_gone: bool,
    /// `font-size: 0`: a size inside undoes it.
    is_tiny: bool,
    /// `visibility: hidden`: `visible` inside undoes it.
    is_invisible: bool,
    is_preformatted: bool,
}

impl Look {
    const fn is_hidden(self) -> bool {
        self.is_gone || self.is_tiny || self.is_invisible
    }

    /// The look of an element with this inline style inside an element with this look.
    fn styled(mut self, style: &str) -> Self {
        let mut decoded = String::new();
        decode_entities(style, &mut decoded);
        for declaration in without_comments(&decoded).split(';') {
            let Some((property, value)) = declaration.split_once(':') else { continue };
            let value = value.trim().to_ascii_lowercase();
            let value = value.strip_suffix("!important").unwrap_or(&value).trim_end();
            match property.trim().to_ascii_lowercase().as_str() {
                "display" => self.is_gone |= value == "none",
                "opacity" => self.is_gone |= number(value).is_some_and(|(n, _)| n <= 0.05),
                "visibility" => self.is_invisible = matches!(value, "hidden" | "collapse"),
                "font-size" => {
                    self.is_tiny = match number(value) {
                        Some((n, "" | "px" | "pt")) => n <= 1.0,
                        Some((n, "em" | "%" | "ex")) => self.is_tiny || n <= 0.0,
                        Some((n, _)) => n <= 0.0,
                        None => self.is_tiny && matches!(value, "inherit" | "smaller" | "larger"),
                    };
                }
                "white-space" => self.is_preformatted = value.starts_with("pre"),
                _ => {}
            }
        }
        self
    }
}

/// The number at the start of a CSS value and the unit behind it.
fn number(value: &str) -> Option<(f32, &str)> {
    let end = value
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+')))
        .unwrap_or(value.len());
    let (digits, unit) = value.split_at_checked(end)?;
    Some((digits.parse().ok()?, unit.trim()))
}

fn without_comments(style: &str) -> String {
    let mut out = String::new();
    let mut rest = style;
    while let Some((before, after)) = rest.split_once("/*") {
        out.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, tail)| tail);
    }
    out.push_str(rest);
    out
}

/// How many open elements there are by a digest of their name, so that an end tag without a start
/// costs no search.
struct Census([u16; 256]);

impl Default for Census {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Census {
    fn slot(&mut self, name: TagName) -> Option<&mut u16> {
        self.0.get_mut(usize::from(name.digest()))
    }

    fn add(&mut self, name: TagName) {
        if let Some(count) = self.slot(name) {
            *count += 1;
        }
    }

    fn remove(&mut self, name: TagName) {
        if let Some(count) = self.slot(name) {
            *count = count.saturating_sub(1);
        }
    }

    fn may_have(&self, name: TagName) -> bool {
        self.0.get(usize::from(name.digest())).is_some_and(|count| *count > 0)
    }
}

struct Link {
    href: String,
    text: String,
}

struct Reader<'r> {
    sink: TextSink,
    open: Vec<(TagName, Look)>,
    names: Census,
    /// Open elements beyond [`MOST_OPEN`].
    beyond: usize,
    link: Option<Link>,
    passage: Option<String>,
    max_notes: usize,
    is_notable: &'r dyn Fn(&str, &str) -> bool,
    reading: Reading,
}

impl Reader<'_> {
    fn look(&self) -> Look {
        self.open.last().map(|(_, look)| *look).unwrap_or_default()
    }

    fn text(&mut self, text: &str) {
        let look = self.look();
        if self.sink.is_full() && self.link.is_none() && !look.is_hidden() {
            self.end_passage();
            return;
        }
        let mut decoded = String::new();
        decode_entities(text, &mut decoded);
        if look.is_hidden() {
            let passage = self.passage.get_or_insert_default();
            append_sample(passage, &decoded);
            return;
        }
        if !decoded.trim().is_empty() {
            self.end_passage();
        }
        if let Some(link) = &mut self.link {
            append_sample(&mut link.text, &decoded);
        }
        self.sink.push(&decoded, look.is_preformatted);
    }

    fn open(&mut self, tag: &Tag<'_>) {
        let name = tag.name.as_str();
        self.close_implied(tag.name);
        let parent = self.look();
        let mut look = tag.style.map_or(parent, |style| parent.styled(style));
        look.is_gone |= tag.is_hidden || matches!(name, "template" | "script" | "style" | "title");
        look.is_preformatted |= matches!(name, "pre" | "textarea" | "listing");
        if !look.is_hidden() {
            self.layout(name, true);
        }
        if name == "a" {
            self.end_link();
            if let Some(href) = tag.href.filter(|_| !look.is_hidden()) {
                let mut target = String::new();
                decode_entities(super::visible::cut(href, 2048), &mut target);
                self.link = Some(Link { href: target, text: String::new() });
            }
        }
        if is_void(name) {
            return;
        }
        if self.open.len() < MOST_OPEN {
            self.open.push((tag.name, look));
            self.names.add(tag.name);
        } else {
            self.beyond += 1;
        }
    }

    fn close(&mut self, tag: TagName) {
        let name = tag.as_str();
        if name == "a" {
            self.end_link();
        }
        if self.beyond > 0 {
            self.beyond -= 1;
            self.sink.at_least(breaks(name));
            return;
        }
        let Some(look) = self.pop(&[tag], &[]) else { return };
        if !look.is_hidden() {
            self.layout(name, false);
        }
    }

    /// Elements that a start tag ends without an end tag (HTML Standard §13.1.2.4), so that a
    /// hidden paragraph does not hide what follows it.
    fn close_implied(&mut self, tag: TagName) {
        const fn n(name: &str) -> TagName {
            TagName::new(name)
        }
        const CELLS: &[TagName] = &[n("td"), n("th")];
        const TERMS: &[TagName] = &[n("dt"), n("dd")];
        if self.beyond > 0 {
            return;
        }
        match tag.as_str() {
            "li" => self.pop(&[n("li")], &[n("ul"), n("ol")]),
            "td" | "th" => self.pop(CELLS, &[n("table")]),
            "tr" => self.pop(&[n("tr")], &[n("table")]),
            "dt" | "dd" => self.pop(TERMS, &[n("dl")]),
            "option" => self.pop(&[n("option")], &[n("select")]),
            _ => None,
        };
        if breaks(tag.as_str()) > 0 {
            self.pop(&[n("p")], &[n("table"), n("td"), n("th"), n("button")]);
        }
    }

    /// Ends the innermost open element that is called one of `names`, and all inside it, unless
    /// one of `barriers` is open further in. Returns its look.
    fn pop(&mut self, names: &[TagName], barriers: &[TagName]) -> Option<Look> {
        if !names.iter().any(|name| self.names.may_have(*name)) {
            return None;
        }
        // A search that a barrier ends pays for nothing that it finds, so it is kept short.
        let reach = if barriers.is_empty() { MOST_OPEN } else { IMPLIED_REACH };
        let above = self
            .open
            .iter()
            .rev()
            .take(reach)
            .position(|(open, _)| names.contains(open) || barriers.contains(open))?;
        let at = self.open.len() - 1 - above;
        let (_, look) = self.open.get(at).copied().filter(|(open, _)| names.contains(open))?;
        for (name, _) in self.open.drain(at..) {
            self.names.remove(name);
        }
        Some(look)
    }

    fn layout(&mut self, name: &str, is_open: bool) {
        match name {
            "br" => self.sink.line_break(),
            // Names are cut to eight letters.
            "blockquo" => {
                self.sink.at_least(1);
                self.sink.quote(is_open);
            }
            "li" if is_open => {
                self.sink.at_least(1);
                self.sink.push("- ", true);
            }
            "td" | "th" => self.sink.push(" ", false),
            _ => self.sink.at_least(breaks(name)),
        }
    }

    fn end_link(&mut self) {
        let Some(link) = self.link.take() else { return };
        let shown = link.text.trim();
        if self.reading.links.len() < self.max_notes && (self.is_notable)(shown, &link.href) {
            self.reading.links.push((shown.to_owned(), link.href));
        }
    }

    fn end_passage(&mut self) {
        let Some(passage) = self.passage.take() else { return };
        if let Some(line) = super::visible::line(&passage, SAMPLE)
            && line.chars().any(char::is_alphanumeric)
            && self.reading.hidden.len() < self.max_notes
        {
            self.reading.hidden.push(line);
        }
    }
}

fn append_sample(sample: &mut String, text: &str) {
    let room = SAMPLE.saturating_sub(sample.len());
    // Blank runs say nothing and would use the room up.
    let text = if sample.is_empty() { text.trim_start() } else { text };
    sample.push_str(super::visible::cut(text, room));
}

/// Line breaks around an element: 2 leaves an empty line.
fn breaks(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "pre" | "hr" => 2,
        "div" | "table" | "tr" | "li" | "dt" | "dd" | "blockquo" | "address" | "article"
        | "section" | "header" | "footer" | "main" | "nav" | "aside" | "center" | "form"
        | "fieldset" | "figure" | "caption" | "body" | "option" | "details" | "summary" => 1,
        _ => 0,
    }
}

fn is_void(name: &str) -> bool {
    matches!(
        name,
        "area"
            | "base"
            | "br"
            | "col"
            | "embed"
            | "hr"
            | "img"
            | "input"
            | "link"
            | "meta"
            | "param"
            | "source"
            | "track"
            | "wbr"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(html: &str) -> Reading {
        read(html, 10_000, 10, &|_, _| true)
    }

    #[test]
    fn html_reads_as_a_person_reads_it() {
        for (html, expected) in [
            ("<p>a</p><p>b</p>", "a\n\nb"),
            ("<div>a</div><div>b<br>c</div>", "a\nb\nc"),
            ("a<br><br><br><br><br>b", "a\n\n\nb"),
            ("<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>", "a b\nc"),
            ("<ul><li>a<li>b</ul>c", "- a\n- b\n\nc"),
            ("a <b>b</b>c\r\n  d", "a bc d"),
            ("a&nbsp;&amp; b &lt;x&gt;", "a & b <x>"),
            ("<pre>a\n  b</pre>", "a\n  b"),
            ("x<blockquote>a<br>b</blockquote>c", "x\n> a\n> b\nc"),
            ("<head><title>t</title><style>p{}</style></head><body>x", "x"),
            ("<script>alert('<p>no</p>')</script>x<!-- no -->", "x"),
            ("<noscript>x</noscript>", "x"),
            ("a</p></div></b>b", "ab"),
            ("\0a\u{7}b", "ab"),
            ("", ""),
        ] {
            assert_eq!(all(html).text, expected, "{html}");
        }
    }

    #[test]
    fn hidden_text_is_set_aside() {
        for html in [
            "<div style='display:none'>evil</div>",
            "<div style='color:red; DISPLAY : NONE !important'>evil</div>",
            "<div style='display:/**/none'>evil</div>",
            "<div style='display&#58;none'>evil</div>",
            "<div style='visibility:hidden'><b>evil</b></div>",
            "<span style='font-size:0'>evil</span>",
            "<span style='font-size:0px'><b style='font-size:2em'>evil</b></span>",
            "<span style='font-size:1px'>evil</span>",
            "<span style='opacity:0'>evil</span>",
            "<p hidden>evil</p>",
            "<template>evil</template>",
            "<div style='display:none'><div style='display:block'>evil</div></div>",
            "<p style='display:none'>evil<div></div>",
        ] {
            let reading = all(&format!("seen {html} also"));
            assert_eq!(reading.hidden, ["evil"], "{html}");
            assert!(!reading.text.contains("evil"), "{html}");
            assert!(reading.text.starts_with("seen") && reading.text.ends_with("also"), "{html}");
        }
    }

    #[test]
    fn what_is_shown_again_is_seen() {
        for html in [
            "<td style='font-size:0px'><div style='font-size:14px'>seen</div></td>",
            "<p style='visibility:hidden'><b style='visibility:visible'>seen</b></p>",
            "<p style='display:none'>x<p>seen",
            "<li style='display:none'>x<li>seen",
            "<div style='display:none'>x</div>seen",
            "<img style='display:none'>seen",
            "<div style='display:none'><p>x</div>seen",
            "<p style='display:block;font-size:12px;opacity:1;visibility:visible'>seen",
        ] {
            assert_eq!(all(html).text.trim_start_matches("- "), "seen", "{html}");
        }
    }

    #[test]
    fn links_keep_text_and_target() {
        let links = all("<a href='https://a.example/?x=1&amp;y'>Go <b>on</b></a><a name=x>y</a>\
             <a href=b>c<a href=d>e")
        .links;
        let expected = [("Go on", "https://a.example/?x=1&y"), ("c", "b"), ("e", "d")];
        assert_eq!(links, expected.map(|(text, href)| (text.to_owned(), href.to_owned())));
    }

    #[test]
    fn bombs_are_bounded() {
        for bomb in [
            "<div>".repeat(200_000),
            "</div>".repeat(200_000),
            "<p hidden>x".repeat(100_000),
            "<a href=x>y".repeat(100_000),
            "<!--".repeat(100_000),
            "<script>".repeat(100_000),
            "<b x='".repeat(100_000),
            "&amp".repeat(200_000),
            "<blockquote>x".repeat(50_000),
            format!("<p style='{}'>", "/*".repeat(300_000)),
            format!("{}{}", "<b>".repeat(128), "</i>".repeat(200_000)),
        ] {
            let reading = all(&bomb);
            assert!(reading.text.len() <= 10_000);
            assert!(reading.hidden.len() <= 10 && reading.links.len() <= 10);
        }
    }
}
