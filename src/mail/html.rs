//! Renders HTML as a person would see it, and finds hidden text and deceptive links.
//!
//! Follows styles in attributes, and those in `<style>` that [`super::stylesheet`] understands.
//! Linear, without recursion.

use super::computed_style::{ComputedStyle, Style};
use super::elements::{Open, OpenElements, breaks, is_void};
use super::passages::{Hidden, Passage, Span, in_points, plainly};
use super::stylesheet::{Element, Sheet};
use super::tags::{Piece, Pieces, Tag, TagName, decode_entities};
use super::text_sink::TextSink;
use super::visible;

/// Bytes of a link's text that are compared.
const COMPARED: usize = 2000;
/// Fewest words of a hidden comment that count as prose; fewer are notes of template authors.
const PROSE: usize = 8;
/// Fewest words of a `title` or `alt` that are more than any picture needs.
const LONG_PROSE: usize = 30;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) text: String,
    /// Hidden passages that the text does not contain; bounded in number and length.
    pub(super) hidden: Vec<Passage>,
    /// Links that deserve a remark; bounded in number and length.
    pub(super) links: Vec<Link>,
    /// Some content was not kept or not compared.
    pub(super) is_cut: bool,
}

/// A link as shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) text: String,
    pub(super) href: String,
    pub(super) span: Span,
}

/// Returns where the pieces of text begin that people do not see, as offsets of bytes, in order. As
/// far as styles and elements are read.
pub(super) fn hidden_pieces(html: &str) -> Vec<usize> {
    let mut reader = Reader::begin(html, 0, 0, &|_, _| false);
    let (mut pieces, mut start, mut hidden) = (Pieces::new(html), 0, Vec::new());
    while let Some(piece) = pieces.next() {
        let span = Span { start, end: pieces.at() };
        let is_hidden = || reader.open.look().hidden_by().is_some_and(|how| how != "head");
        if matches!(piece, Piece::Text(_)) && is_hidden() {
            hidden.push(start);
        }
        reader.piece(piece, span);
        start = pieces.at();
    }
    hidden
}

/// Reads `html`. Keeps at most `max_text` bytes of text, and at most `max_notes` hidden passages of
/// each kind and `max_notes` links. `is_notable` selects the links.
pub(super) fn read(
    html: &str,
    max_text: usize,
    max_notes: usize,
    is_notable: &dyn Fn(&str, &str) -> bool,
) -> Reading {
    let mut reader = Reader::begin(html, max_text, max_notes, is_notable);
    let mut pieces = Pieces::new(html);
    let mut start = 0;
    while let Some(piece) = pieces.next() {
        reader.piece(piece, Span { start, end: pieces.at() });
        start = pieces.at();
    }
    reader.end_link(html.len());
    reader.end_passage();
    reader.finish(html)
}

struct Reader<'a, 'r> {
    sink: TextSink,
    sheet: Sheet,
    open: OpenElements<'a>,
    link: Option<Link>,
    passage: Option<Hidden>,
    hidden: Vec<Hidden>,
    links: Vec<Link>,
    max_notes: usize,
    is_notable: &'r dyn Fn(&str, &str) -> bool,
    /// Number of passages of each kind.
    kept: [usize; 3],
    is_cut: bool,
}

impl<'a, 'n> Reader<'a, 'n> {
    /// Reads the style sheets.
    fn begin(
        html: &'a str,
        max_text: usize,
        max_notes: usize,
        is_notable: &'n dyn Fn(&str, &str) -> bool,
    ) -> Self {
        let mut reader = Self {
            sink: TextSink::new(max_text),
            sheet: Sheet::default(),
            open: OpenElements::default(),
            link: None,
            passage: None,
            hidden: Vec::new(),
            max_notes,
            is_notable,
            links: Vec::new(),
            kept: [0; 3],
            is_cut: false,
        };
        reader.read_sheets(html);
        // Every document has both, with or without tags (HTML Standard §13.1.2.4).
        for name in ["html", "body"] {
            reader.enter(&Tag { name: TagName::new(name), ..Tag::default() }, 0);
        }
        reader
    }

    fn piece(&mut self, piece: Piece<'a>, span: Span) {
        match piece {
            Piece::Text(text) => self.text(text, span),
            Piece::Open(tag) => self.open(&tag, span),
            Piece::Close(name) => self.close(name, span),
            Piece::Comment(text) => self.comment(text, span),
            Piece::Raw(name, text)
                if matches!(name.as_str(), "iframe" | "noembed" | "noframes") =>
            {
                self.aside(text, "fallback", PROSE, span);
            }
            Piece::Raw(..) => {}
        }
    }

    /// Reads the style sheets first: they also apply to elements before them.
    fn read_sheets(&mut self, html: &str) {
        let mut media = None;
        for piece in Pieces::new(html) {
            match piece {
                Piece::Open(tag) => {
                    let kind = tag.kind.unwrap_or_default().trim();
                    let is_css = kind.is_empty() || kind.eq_ignore_ascii_case("text/css");
                    media = is_css.then_some(tag.media.unwrap_or_default());
                }
                Piece::Raw(name, css) if name == TagName::new("style") => {
                    if let Some(media) = media {
                        self.sheet.read(css, &decode_entities(visible::cut(media, 2048)));
                    }
                }
                _ => {}
            }
        }
    }

    fn text(&mut self, text: &str, span: Span) {
        let look = self.open.look();
        let hidden_by = look.hidden_by();
        if self.sink.is_full() && self.link.is_none() && hidden_by.is_none() {
            self.sink.push(text, false);
            self.end_passage();
            return;
        }
        let decoded = decode_entities(text);
        if let Some(how) = hidden_by {
            if how != "head" {
                let start = self.open.hidden_from().unwrap_or(span.start);
                if self.passage.as_ref().is_some_and(|passage| passage.span.start < start) {
                    self.end_passage();
                }
                let passage =
                    self.passage.get_or_insert_with(|| Hidden::new(how, Span { start, ..span }));
                passage.add(&decoded);
                passage.span.end = span.end;
            }
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

    fn open(&mut self, tag: &Tag<'a>, span: Span) {
        let name = tag.name.as_str();
        self.open.close_implied(tag.name);
        while let Some(name) = self.open.implied(tag.name) {
            self.enter(&Tag { name, ..Tag::default() }, span.start);
        }
        let is_hidden = self.enter(tag, span.start).hidden_by().is_some();
        if !is_hidden {
            self.layout(name, true);
        }
        if !tag.described.is_empty() {
            self.aside(tag.described, "attribute", LONG_PROSE, span);
        }
        if name == "a" {
            self.end_link(span.start);
            if let Some(href) = tag.href.filter(|_| !is_hidden) {
                let href = decode_entities(visible::cut(href, 2048)).into_owned();
                self.link = Some(Link { href, text: String::new(), span });
            }
        }
    }

    /// Opens the element of `tag` unless it is void. Returns its look.
    fn enter(&mut self, tag: &Tag<'a>, start: usize) -> ComputedStyle {
        let name = tag.name.as_str();
        // The root and the body are already open.
        let root = ["html", "body"].iter().position(|root| *root == name);
        let root = root.filter(|_| self.open.has_roots_only());
        let element = Element::new(tag.name, tag.id, tag.class);
        let around = self.open.iter().take(root.unwrap_or(usize::MAX)).map(|open| &open.element);
        let sheet = self.sheet.declared(&element, around);
        let style = Style::of(tag, sheet.as_ref());
        let open = Open::new(element, style, self.open.look(), start);
        match root {
            Some(slot) => {
                self.open.replace_root(slot, open);
                return self.open.look();
            }
            None if !is_void(name) => self.open.push(open),
            None => {}
        }
        open.look
    }

    fn close(&mut self, tag: TagName, span: Span) {
        let name = tag.as_str();
        if name == "a" {
            self.end_link(span.end);
        }
        if self.open.close(tag).is_some_and(|look| look.hidden_by().is_none()) {
            self.layout(name, false);
        }
    }

    /// Text in a comment; only the program that a condition names would show it.
    fn comment(&mut self, text: &str, span: Span) {
        match text.trim_start().strip_prefix("[if").and_then(|rest| rest.split_once('>')) {
            Some((_, inside)) => self.aside(inside, "conditional comment", 3, span),
            None => self.aside(text, "comment", PROSE, span),
        }
    }

    /// Keeps `markup` as a hidden passage if it has at least `fewest` words.
    fn aside(&mut self, markup: &str, how: &'static str, fewest: usize, span: Span) {
        let mut hidden = Hidden::new(how, span);
        for piece in Pieces::new(markup) {
            if let Piece::Text(text) = piece {
                hidden.add(&decode_entities(text));
                hidden.add(" ");
            }
        }
        if hidden.words() >= fewest {
            self.keep(hidden);
        }
    }

    fn layout(&mut self, name: &str, is_open: bool) {
        match name {
            "br" => self.sink.line_break(),
            "blockquote" => {
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

    fn end_link(&mut self, end: usize) {
        let Some(mut link) = self.link.take() else { return };
        link.text = link.text.trim().to_owned();
        if self.links.len() < self.max_notes && (self.is_notable)(&link.text, &link.href) {
            link.span.end = end;
            self.links.push(link);
        }
    }

    fn end_passage(&mut self) {
        if let Some(passage) = self.passage.take() {
            self.keep(passage);
        }
    }

    fn keep(&mut self, hidden: Hidden) {
        if !hidden.has_letters() {
            return;
        }
        let Some(count) = self.kept.get_mut(hidden.kind() as usize) else { return };
        // Keep more than needed: some will turn out to repeat the text.
        if *count < self.max_notes.saturating_mul(4) {
            *count += 1;
            self.hidden.push(hidden);
        } else {
            self.is_cut = true;
        }
    }

    fn finish(self, html: &str) -> Reading {
        let is_cut = self.is_cut || self.sink.is_cut || self.open.is_cut || self.sheet.is_cut;
        let text = self.sink.into_text();
        let shown = plainly(&text);
        let (mut hidden, mut counts, mut links) = (Vec::new(), [0_usize; 3], self.links);
        let mut kept = self.hidden;
        // Passages hidden by styles come first, so that no other kind displaces them.
        kept.sort_by_key(Hidden::kind);
        for passage in kept {
            let Some(count) = counts.get_mut(passage.kind() as usize) else { continue };
            if *count < self.max_notes
                && let Some(passage) = passage.against(&shown)
            {
                *count += 1;
                hidden.push(passage);
            }
        }
        let spans = links.iter_mut().map(|link| &mut link.span);
        in_points(html, spans.chain(hidden.iter_mut().map(|passage| &mut passage.span)));
        Reading { text, hidden, links, is_cut }
    }
}

fn append_sample(sample: &mut String, text: &str) {
    let room = COMPARED.saturating_sub(sample.len());
    // Blanks would use up the room.
    let text = if sample.is_empty() { text.trim_start() } else { text };
    sample.push_str(visible::cut(text, room));
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
            let hidden: Vec<_> = reading.hidden.iter().map(|passage| &passage.text).collect();
            assert_eq!(hidden, ["evil"], "{html}");
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
        let found: Vec<_> =
            links.iter().map(|link| (link.text.as_str(), link.href.as_str())).collect();
        assert_eq!(found, [("Go on", "https://a.example/?x=1&y"), ("c", "b"), ("e", "d")]);
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
