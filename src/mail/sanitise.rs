//! Makes a stranger's HTML harmless (threats D6, D7), with two allowlists in sequence.
//!
//! The first is our own. Every tag is written anew, from the few elements below with few
//! attributes, and closed in the order of opening. The result has only one reading, so parsers with
//! another idea of the standard cannot disagree about it (mutation XSS). And the tree that a
//! standard parser builds from it is no larger than the text: otherwise unclosed formatting is
//! reopened in every paragraph, and the tree grows with the square of the page. The second is
//! ammonia, which has a standard parser, with the same lists.
//!
//! Nothing is loaded: the only pictures are those that `image` returns. Nothing is hidden: text that
//! the message hides from people is shown as such.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use ammonia::{Builder, UrlRelative};
use url::Url;

use super::inline_style;
use super::mail_parser_adapter::guarded;
use super::tags::{Piece, Pieces, attributes, decode_entities};

/// Elements without content.
const VOID: [&str; 5] = ["br", "col", "hr", "img", "wbr"];
/// Formatting that a standard parser reopens in the next paragraph (HTML Standard §13.2.4.3).
const FORMATTING: [&str; 13] =
    ["a", "b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"];
/// Other inline elements.
const PHRASES: [&str; 18] = [
    "abbr", "bdi", "bdo", "cite", "del", "dfn", "ins", "kbd", "mark", "q", "samp", "span", "sub",
    "sup", "time", "var", "rp", "rt",
];
/// Elements that end a paragraph.
const BLOCKS: [&str; 28] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "center",
    "dd",
    "div",
    "dl",
    "dt",
    "figcaption",
    "figure",
    "footer",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "ul",
];
/// Elements that occur only in tables.
const OF_TABLES: [&str; 8] = ["caption", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"];

/// Attributes of any element: its look and title.
const GENERIC: [&str; 13] = [
    "align", "bgcolor", "border", "color", "dir", "face", "height", "lang", "size", "style",
    "title", "valign", "width",
];
const OF_ELEMENT: [(&str, &[&str]); 7] = [
    ("a", &["href"]),
    ("img", &["alt", "src"]),
    ("ol", &["start", "type"]),
    ("table", &["cellpadding", "cellspacing"]),
    ("td", &["colspan", "rowspan"]),
    ("th", &["colspan", "rowspan"]),
    ("col", &["span"]),
];

/// Allowed schemes of links. Links without a scheme are refused, so none is relative.
const SCHEMES: [&str; 4] = ["http", "https", "mailto", "tel"];
/// Allowed pictures.
const PICTURES: [&str; 4] = [
    "data:image/gif;base64,",
    "data:image/jpeg;base64,",
    "data:image/png;base64,",
    "data:image/webp;base64,",
];

/// Deepest nesting, and most formatting elements in it. Newsletters nest some twenty tables of four
/// elements each. Deeper elements lose their tags and keep their text.
const DEEPEST: usize = 200;
const MOST_FORMATTING: usize = 16;

/// Returns the page without scripts, external loads and deceptive markup, and without its doctype.
/// `image` returns `cid:` pictures as `data:` URIs. Pieces of text that begin at an
/// offset in `hidden` (in order) are marked. Returns None if the page has more than `most` tags or cannot be read.
pub(super) fn sanitise(
    html: &str,
    most: usize,
    hidden: &[usize],
    image: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<String> {
    let written = written(html, most, hidden, image)?;
    guarded(|| builder().clean(&written).to_string())
}

/// Returns the page after our own allowlist.
pub(super) fn written(
    html: &str,
    most: usize,
    hidden: &[usize],
    image: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<String> {
    Writer { out: String::new(), open: Vec::new(), hidden, image }.write(html, most)
}

/// The second allowlist.
fn builder() -> Builder<'static> {
    let elements: [&[&'static str]; 5] = [&VOID, &FORMATTING, &PHRASES, &BLOCKS, &OF_TABLES];
    let mut schemes = HashSet::from(SCHEMES);
    schemes.insert("data");
    let of_element =
        OF_ELEMENT.iter().map(|(name, known)| (*name, known.iter().copied().collect()));
    let mut builder = Builder::empty();
    builder
        .tags(elements.concat().into_iter().collect())
        .clean_content_tags(HashSet::from(["script", "style", "svg", "math", "template", "title"]))
        .generic_attributes(HashSet::from(GENERIC))
        .tag_attributes(of_element.collect::<HashMap<_, _>>())
        .filter_style_properties(inline_style::PROPERTIES.iter().copied().collect())
        .url_schemes(schemes)
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow"))
        .set_tag_attribute_value("a", "target", "_blank")
        .strip_comments(true)
        .attribute_filter(|element, name, value| match (element, name) {
            ("img", "src") => {
                let fits = PICTURES.iter().any(|kind| value.starts_with(kind));
                fits.then_some(Cow::Borrowed(value))
            }
            (_, "href") => target(value).map(Cow::Owned),
            _ => Some(Cow::Borrowed(value)),
        });
    builder
}

/// Returns the target of a link as browsers understand it (URL Standard §4.4), spelled so that it
/// leads there from any page: on our pages, browsers would read `https:/x` as a path of ours.
fn target(href: &str) -> Option<String> {
    let url = Url::parse(href).ok()?;
    SCHEMES.contains(&url.scheme()).then(|| url.into())
}

/// Before text that the message hides.
const HIDDEN: &str = "<mark title=\"hidden by the message: people do not see it\">";

/// Writes a page anew.
struct Writer<'i> {
    out: String,
    /// Open elements, innermost last.
    open: Vec<&'static str>,
    /// Where pieces of text begin that the message hides, those still to come.
    hidden: &'i [usize],
    image: &'i mut dyn FnMut(&str) -> Option<String>,
}

impl Writer<'_> {
    fn write(mut self, html: &str, most: usize) -> Option<String> {
        let (mut pieces, mut start, mut left) = (Pieces::new(html), 0, most);
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Text(text) if self.is_hidden(start) && !text.trim_ascii().is_empty() => {
                    self.shelter();
                    self.out.push_str(HIDDEN);
                    self.text(text);
                    self.out.push_str("</mark>");
                }
                Piece::Text(text) => self.text(text),
                Piece::Open(tag) => {
                    left = left.checked_sub(1)?;
                    // Something that is no piece may precede the tag (`<!doctype html>`).
                    let source = html.get(start..pieces.at()).unwrap_or_default();
                    let source = tag_in(source);
                    if let Some(name) = known(tag.name.as_str()) {
                        self.start(name, source);
                    }
                }
                Piece::Close(name) => {
                    left = left.checked_sub(1)?;
                    if let Some(name) = known(name.as_str()) {
                        self.end(name);
                    }
                }
                Piece::Comment(_) | Piece::Raw(..) => {}
            }
            start = pieces.at();
        }
        self.close_from(0);
        Some(self.out)
    }

    /// Tells whether the piece that begins there is hidden. Pieces come in order.
    fn is_hidden(&mut self, start: usize) -> bool {
        while let Some((first, rest)) = self.hidden.split_first()
            && *first < start
        {
            self.hidden = rest;
        }
        self.hidden.first() == Some(&start)
    }

    /// Writes text. Entities stay, because a standard parser makes no tag of them.
    fn text(&mut self, text: &str) {
        if !text.trim_ascii().is_empty() {
            self.shelter();
        }
        escape(text, &mut self.out);
    }

    /// Opens a cell for content in a table outside its cells. A standard parser would move it
    /// before the table, at a cost that grows with all content moved before.
    fn shelter(&mut self) {
        let missing: &[&'static str] = match self.open.last() {
            Some(&("table" | "tbody" | "thead" | "tfoot")) => &["tr", "td"],
            Some(&"tr") => &["td"],
            Some(&"colgroup") => {
                self.end("colgroup");
                &["tr", "td"]
            }
            _ => &[],
        };
        for name in missing {
            self.tag(name, "");
            self.open.push(name);
        }
    }

    fn start(&mut self, name: &'static str, source: &str) {
        if !OF_TABLES.contains(&name) && name != "col" {
            self.shelter();
        }
        if name == "img" {
            return self.picture(source);
        }
        let stops: &[&str] = match name {
            "td" | "th" => &["td", "th"],
            "tr" => &["tr"],
            "tbody" | "thead" | "tfoot" | "caption" | "colgroup" => {
                &["tbody", "thead", "tfoot", "caption", "colgroup"]
            }
            "li" => &["li"],
            "dd" | "dt" => &["dd", "dt"],
            "a" => &["a"],
            _ => &[],
        };
        if OF_TABLES.contains(&name) || name == "col" {
            let Some(table) = self.open.iter().rposition(|open| *open == "table") else { return };
            if let Some(at) = self.nearest(stops, table) {
                self.close_from(at);
            }
        } else {
            let cell = self.boundary();
            let lists = self.open.iter().rposition(|open| matches!(*open, "ul" | "ol" | "dl"));
            let from = if name == "a" { cell } else { cell.max(lists.map_or(0, |at| at + 1)) };
            if let Some(at) = self.nearest(stops, from) {
                self.close_from(at);
            }
            if BLOCKS.contains(&name)
                && let Some(at) = self.nearest(&["p"], self.boundary())
            {
                self.close_from(at);
            }
        }
        let formatting = self.open.iter().filter(|open| FORMATTING.contains(open)).count();
        let is_one_more = FORMATTING.contains(&name) && formatting >= MOST_FORMATTING;
        if self.open.len() >= DEEPEST || is_one_more {
            return;
        }
        self.tag(name, source);
        if !VOID.contains(&name) {
            self.open.push(name);
        }
    }

    /// Closes an element and all inside it. An element outside the current table cell is not closed
    /// from within.
    fn end(&mut self, name: &'static str) {
        let from = match name {
            "table" => 0,
            _ if OF_TABLES.contains(&name) => {
                self.open.iter().rposition(|open| *open == "table").unwrap_or(0)
            }
            _ => self.boundary(),
        };
        if let Some(at) = self.nearest(&[name], from) {
            self.close_from(at);
        }
    }

    /// Index after the innermost open cell.
    fn boundary(&self) -> usize {
        let is_cell = |open: &&str| matches!(*open, "td" | "th" | "caption" | "table");
        self.open.iter().rposition(is_cell).map_or(0, |at| at + 1)
    }

    fn nearest(&self, names: &[&str], from: usize) -> Option<usize> {
        let found = self.open.iter().rposition(|open| names.contains(open));
        found.filter(|at| *at >= from)
    }

    fn close_from(&mut self, at: usize) {
        for name in self.open.split_off(at.min(self.open.len())).into_iter().rev() {
            self.out.push_str("</");
            self.out.push_str(name);
            self.out.push('>');
        }
    }

    /// Writes a picture of the message itself; for any other its alternative text.
    fn picture(&mut self, source: &str) {
        let value = |name: &str| {
            let found = attributes(source).find(|(other, _)| other.eq_ignore_ascii_case(name));
            found.map(|(_, value)| decode_entities(value).into_owned())
        };
        let cid = value("src").and_then(|src| {
            let (scheme, id) = src.trim().split_once(':')?;
            scheme.eq_ignore_ascii_case("cid").then(|| id.to_owned())
        });
        let Some(data) = cid.and_then(|id| (self.image)(&id)) else {
            if let Some(alt) = value("alt") {
                escape(&alt.replace('&', "&amp;"), &mut self.out);
            }
            return;
        };
        self.tag("img", source);
        // Reopens the tag: the source goes before its `>`.
        self.out.pop();
        for piece in [" src=\"", &data, "\">"] {
            self.out.push_str(piece);
        }
    }

    fn tag(&mut self, name: &str, source: &str) {
        self.out.push('<');
        self.out.push_str(name);
        let own = OF_ELEMENT.iter().find(|(element, _)| *element == name);
        let own = own.map_or(&[][..], |(_, known)| known);
        let mut seen: Vec<&str> = Vec::new();
        for (written, value) in attributes(source) {
            let lower = written.to_ascii_lowercase();
            // A message must not write our marks.
            if (name, lower.as_str()) == ("mark", "title") {
                continue;
            }
            let known = GENERIC.iter().chain(own).find(|known| **known == lower);
            // The first of equal names counts (HTML Standard §13.2.5.33).
            let Some(known) = known.filter(|known| !seen.contains(known) && **known != "src")
            else {
                continue;
            };
            seen.push(known);
            let value = match *known {
                "style" => Cow::Owned(inline_style::kept(&decode_entities(value))),
                _ => Cow::Borrowed(value),
            };
            self.out.push(' ');
            self.out.push_str(known);
            self.out.push_str("=\"");
            escape(&value, &mut self.out);
            self.out.push('"');
        }
        self.out.push('>');
    }
}

/// Returns the start tag at the end of the text between two pieces.
fn tag_in(source: &str) -> &str {
    // Skips declarations, which end with `>` like the tag itself.
    let mut rest = source;
    while rest.starts_with("<!") || rest.starts_with("<?") || rest.starts_with("</") {
        rest = rest.find('>').and_then(|end| rest.get(end + 1..)).unwrap_or_default();
    }
    rest
}

/// Returns the name if the element is allowed.
fn known(name: &str) -> Option<&'static str> {
    let lists: [&[&'static str]; 5] = [&VOID, &FORMATTING, &PHRASES, &BLOCKS, &OF_TABLES];
    lists.into_iter().flatten().find(|known| **known == name).copied()
}

/// Tells whether the text after a `&` makes it an entity: a number or a name with its semicolon, or
/// a name that mail writes without one (HTML Standard §13.5).
fn is_entity(text: &str) -> bool {
    const LONGEST: usize = 32;
    const BARE: [&str; 6] = ["amp", "copy", "gt", "lt", "nbsp", "quot"];
    let end = text.bytes().take(LONGEST).position(|c| !(c.is_ascii_alphanumeric() || c == b'#'));
    let named = end.is_some_and(|end| end > 0 && text.as_bytes().get(end) == Some(&b';'));
    named || BARE.iter().any(|name| text.starts_with(name))
}

/// Escapes characters that begin or end markup; entities stay.
fn escape(text: &str, out: &mut String) {
    for (at, c) in text.char_indices() {
        match c {
            // A parser would examine each of them at length, and a megabyte of them begins nothing.
            '&' if !is_entity(text.get(at + 1..).unwrap_or_default()) => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // No parser keeps it (HTML Standard §13.2.3.5).
            '\0' => {}
            c => out.push(c),
        }
    }
}
