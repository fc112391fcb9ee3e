//! A small HTML tokenizer: text, start tags, end tags; after the HTML Standard §13.2.5.
//!
//! Linear: every step moves forward, and unclosed constructs extend to the end of the input, as in
//! a browser. It makes no judgements; [`super::html`] does.

use std::borrow::Cow;

use mail_parser::decoders::html::add_html_token;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    /// As written, entities not decoded.
    Text(&'a str),
    Open(Tag<'a>),
    Close(TagName),
    /// The content of a comment.
    Comment(&'a str),
    /// Content of an element without markup inside; its start tag came before.
    Raw(TagName, &'a str),
}

/// A start tag with the attributes that matter here, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub(super) name: TagName,
    pub(super) id: Option<&'a str>,
    pub(super) class: Option<&'a str>,
    pub(super) style: Option<&'a str>,
    pub(super) href: Option<&'a str>,
    /// `color` of a font, `text` of a body.
    pub(super) colour: Option<&'a str>,
    pub(super) bgcolor: Option<&'a str>,
    pub(super) has_image: bool,
    pub(super) is_hidden: bool,
    /// Has `open`, like a dialog that is shown.
    pub(super) is_open: bool,
    /// The `media` and the `type` of a style sheet.
    pub(super) media: Option<&'a str>,
    pub(super) kind: Option<&'a str>,
    /// The longest of `title`, `alt` and similar attributes.
    pub(super) described: &'a str,
}

/// The first fifteen bytes of a tag's name, in lower case, and its length: enough to distinguish
/// all names that matter here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TagName([u8; 16]);

impl TagName {
    pub(super) const fn new(name: &str) -> Self {
        let (mut rest, mut short, mut shift) = (name.as_bytes(), 0_u128, 0);
        while let [first, tail @ ..] = rest
            && shift < 120
        {
            short |= (first.to_ascii_lowercase() as u128) << shift;
            shift += 8;
            rest = tail;
        }
        // Longer names only need to differ from short ones.
        let length = if name.len() > 15 { 255 } else { name.len() as u128 };
        Self((short | length << 120).to_le_bytes())
    }

    /// Eight bits that distinguish most names.
    pub(super) fn digest(self) -> u8 {
        self.0.iter().fold(0, |digest: u8, byte| digest.wrapping_mul(31).wrapping_add(*byte))
    }

    /// The name; empty if it is longer than fifteen bytes.
    pub(super) fn as_str(&self) -> &str {
        let end = self.0.last().copied().map_or(0, usize::from);
        self.0.get(..end).and_then(|name| str::from_utf8(name).ok()).unwrap_or_default()
    }
}

/// Iterates over the pieces of a document.
pub(super) struct Pieces<'a> {
    html: &'a str,
    at: usize,
    /// Set if the content of this element comes next.
    raw: Option<TagName>,
}

impl<'a> Pieces<'a> {
    pub(super) const fn new(html: &'a str) -> Self {
        Self { html, at: 0, raw: None }
    }

    /// Byte offset of the next piece.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    fn rest(&self) -> &'a str {
        self.html.get(self.at..).unwrap_or_default()
    }

    /// Moves past the next `end`, or to the end of the document.
    fn skip_past(&mut self, end: char) {
        self.at = self.rest().find(end).map_or(self.html.len(), |found| self.at + found + 1);
    }

    /// Reads a comment up to `-->` or `--!>`. Starting two bytes in makes `<!-->` a complete
    /// comment, as in the standard.
    fn comment(&mut self) -> &'a str {
        let (start, mut from) = (self.at + 2, self.at + 2);
        while let Some(found) = self.html.get(from..).and_then(|rest| rest.find('>')) {
            let end = from + found;
            let body = self.html.get(start..end).unwrap_or_default();
            if body.ends_with("--") || (body.len() > 4 && body.ends_with("--!")) {
                self.at = end + 1;
                let inner = body.trim_end_matches('!');
                return inner.get(2..inner.len().saturating_sub(2)).unwrap_or_default();
            }
            from = end + 1;
        }
        self.at = self.html.len();
        self.html.get(start + 2..).unwrap_or_default()
    }

    /// Reads the content of an element without markup inside, such as `script`.
    fn raw(&mut self, name: &str) -> &'a str {
        let (begin, mut from) = (self.at, self.at);
        while let Some(found) = self.html.get(from..).and_then(|rest| rest.find("</")) {
            let start = from + found;
            let after = start + 2 + name.len();
            let is_end = self
                .html
                .as_bytes()
                .get(start + 2..after)
                .is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
                && !self.html.as_bytes().get(after).is_some_and(u8::is_ascii_alphanumeric);
            if is_end {
                self.at = start;
                return self.html.get(begin..start).unwrap_or_default();
            }
            from = start + 2;
        }
        self.at = self.html.len();
        self.html.get(begin..).unwrap_or_default()
    }

    /// Reads a tag whose name starts at `name_at`, and moves past its `>`.
    fn tag(&mut self, name_at: usize) -> Tag<'a> {
        let bytes = self.html.as_bytes();
        let ends_name = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'>');
        let mut at = until(bytes, name_at, ends_name);
        let mut tag = Tag {
            name: TagName::new(self.html.get(name_at..at).unwrap_or_default()),
            ..Tag::default()
        };
        loop {
            at = until(bytes, at, |b| !b.is_ascii_whitespace() && *b != b'/');
            match bytes.get(at) {
                None => break,
                Some(b'>') => {
                    at += 1;
                    break;
                }
                Some(_) => at = self.attribute(at, &mut tag),
            }
        }
        self.at = at;
        tag
    }

    /// Reads one attribute and returns the offset after it. The first of equal names counts.
    fn attribute(&self, at: usize, tag: &mut Tag<'a>) -> usize {
        let (name, value, end) = attribute(self.html, at);
        let slot = match name.to_ascii_lowercase().as_str() {
            "style" => &mut tag.style,
            "href" => &mut tag.href,
            "id" => &mut tag.id,
            "class" => &mut tag.class,
            "color" | "text" => &mut tag.colour,
            "bgcolor" => &mut tag.bgcolor,
            "media" => &mut tag.media,
            "type" => &mut tag.kind,
            other => {
                tag.is_hidden |= other == "hidden";
                tag.is_open |= other == "open";
                tag.has_image |= other == "background";
                let describes = matches!(other, "title" | "alt" | "aria-label" | "summary");
                if let Some(value) =
                    value.filter(|value| describes && value.len() > tag.described.len())
                {
                    tag.described = value;
                }
                return end;
            }
        };
        *slot = slot.or(value);
        end
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            if let Some(name) = self.raw.take() {
                let content = self.raw(name.as_str());
                if !content.is_empty() {
                    return Some(Piece::Raw(name, content));
                }
            }
            let rest = self.rest();
            let bytes = rest.as_bytes();
            match (bytes.first()?, bytes.get(1)) {
                (b'<', Some(b'!')) if rest.starts_with("<!--") => {
                    return Some(Piece::Comment(self.comment()));
                }
                (b'<', Some(b'!' | b'?')) => self.skip_past('>'),
                (b'<', Some(b'/')) => match bytes.get(2) {
                    Some(letter) if letter.is_ascii_alphabetic() => {
                        return Some(Piece::Close(self.tag(self.at + 2).name));
                    }
                    Some(_) => self.skip_past('>'),
                    None => self.at = self.html.len(),
                },
                (b'<', Some(letter)) if letter.is_ascii_alphabetic() => {
                    let tag = self.tag(self.at + 1);
                    let name = tag.name;
                    if matches!(
                        name.as_str(),
                        "script" | "style" | "title" | "iframe" | "noembed" | "noframes"
                    ) {
                        self.raw = Some(name);
                    }
                    return Some(Piece::Open(tag));
                }
                _ => {
                    // A `<` that begins no tag is text.
                    let begins = |next: Option<&u8>| {
                        next.is_none_or(|b| b.is_ascii_alphabetic() || b"/!?".contains(b))
                    };
                    let mut length = usize::from(bytes.first() == Some(&b'<'));
                    while let Some(found) = rest.get(length..).and_then(|tail| tail.find('<')) {
                        length += found;
                        if begins(bytes.get(length + 1)) {
                            self.at += length;
                            return Some(Piece::Text(rest.get(..length).unwrap_or_default()));
                        }
                        length += 1;
                    }
                    self.at += rest.len();
                    return Some(Piece::Text(rest));
                }
            }
        }
    }
}

/// Returns the attributes of the start tag `source`: names and values as written.
pub(super) fn attributes(source: &str) -> impl Iterator<Item = (&str, &str)> {
    let bytes = source.as_bytes();
    let mut at = until(bytes, 1, |b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>'));
    std::iter::from_fn(move || {
        at = until(bytes, at, |b| !b.is_ascii_whitespace() && *b != b'/');
        if bytes.get(at).is_none_or(|b| *b == b'>') {
            return None;
        }
        let (name, value, end) = attribute(source, at);
        at = end;
        Some((name, value.unwrap_or_default()))
    })
}

/// Returns the name and value of the attribute at `at`, and the offset after it.
fn attribute(html: &str, at: usize) -> (&str, Option<&str>, usize) {
    let bytes = html.as_bytes();
    let ends_name = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'/' | b'>' | b'=');
    // A leading equals sign belongs to the name, so that every attribute moves forward.
    let name_end = until(bytes, at + 1, ends_name);
    let name = html.get(at..name_end).unwrap_or_default();
    let equals = until(bytes, name_end, |b| !b.is_ascii_whitespace());
    let (value, end) = if bytes.get(equals) == Some(&b'=') {
        let start = until(bytes, equals + 1, |b| !b.is_ascii_whitespace());
        match bytes.get(start) {
            Some(quote @ (b'"' | b'\'')) => {
                let end = until(bytes, start + 1, |b| b == quote);
                (html.get(start + 1..end), end + 1)
            }
            _ => {
                let end = until(bytes, start, |b| b.is_ascii_whitespace() || *b == b'>');
                (html.get(start..end), end)
            }
        }
    } else {
        (Some(""), name_end)
    };
    (name, value, end.min(bytes.len()))
}

/// Decodes the entities of `text`; invalid ones stay as written.
pub(super) fn decode_entities(text: &str) -> Cow<'_, str> {
    // The longest name of the HTML Standard §13.5 has 31 characters.
    const LONGEST: usize = 34;
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.find('&').and_then(|at| rest.split_at_checked(at)) {
        out.push_str(before);
        let head = after.as_bytes().get(..LONGEST).unwrap_or(after.as_bytes());
        let end = head
            .iter()
            .skip(1)
            .position(|b| !(b.is_ascii_alphanumeric() || *b == b'#'))
            .map_or(head.len(), |found| found + 1);
        let length = if head.get(end) == Some(&b';') { end + 1 } else { 1 };
        let (entity, tail) = after.split_at_checked(length).unwrap_or((after, ""));
        add_html_token(&mut out, entity.as_bytes(), false);
        rest = tail;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn until(bytes: &[u8], from: usize, found: impl FnMut(&u8) -> bool) -> usize {
    bytes
        .get(from..)
        .and_then(|rest| rest.iter().position(found))
        .map_or(bytes.len(), |offset| from + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(html: &str) -> String {
        Pieces::new(html)
            .map(|piece| match piece {
                Piece::Text(text) => format!("[{text}]"),
                Piece::Open(tag) => format!("<{}>", tag.name.as_str()),
                Piece::Close(name) => format!("</{}>", name.as_str()),
                Piece::Comment(text) => format!("!{text}!"),
                Piece::Raw(_, text) => format!("{{{text}}}"),
            })
            .collect()
    }

    #[test]
    fn a_document_falls_into_its_pieces() {
        for (html, expected) in [
            ("a<B>b</b >c", "[a]<b>[b]</b>[c]"),
            ("1 < 2 <3 << <p>", "[1 < 2 <3 << ]<p>"),
            ("<!-- <b> -->x<!-->y<!--->z<!-- a --!>w", "! <b> ![x]!![y]!![z]! a ![w]"),
            ("<!doctype html><?xml?></ >x</>y", "[x][y]"),
            ("<script>a</b>'</SCRIPT >x", "<script>{a</b>'}</script>[x]"),
            ("<style>p{}</styles></style>x", "<style>{p{}</styles>}</style>[x]"),
            ("<title>a", "<title>{a}"),
            ("<a title='>' b=\">\" c=d>x", "<a>[x]"),
            ("<br/>x<br / >y", "<br>[x]<br>[y]"),
            ("x<a href='", "[x]<a>"),
            ("x<!-- y", "[x]! y!"),
            ("x</", "[x]"),
            ("<", "[<]"),
            ("ä<é>", "[ä<é>]"),
            ("<noframes1>a<b>c", "<noframes1>[a]<b>[c]"),
            ("<template-card>a", "<template-card>[a]"),
        ] {
            assert_eq!(pieces(html), expected, "{html}");
        }
    }

    #[test]
    fn attributes_are_read_as_a_browser_reads_them() {
        for (html, style, href, hidden) in [
            ("<a href=x style='y z' HIDDEN>", Some("y z"), Some("x"), true),
            ("<a HREF = \"x\"STYLE=y>", Some("y"), Some("x"), false),
            ("<a href=x href=y hidden=''>", None, Some("x"), true),
            ("<a =x href=y/z>", None, Some("y/z"), false),
            ("<a title=' style=x '>", None, None, false),
        ] {
            let Some(Piece::Open(tag)) = Pieces::new(html).next() else { panic!("{html}") };
            assert_eq!((tag.style, tag.href, tag.is_hidden), (style, href, hidden), "{html}");
        }
    }

    #[test]
    fn entities_are_decoded_and_nothing_else() {
        let out = decode_entities("a&amp;b&#233;&#xE9;&nope;&amp &;&&lt;ä&eacute;");
        assert_eq!(out, "a&béé&nope;&amp &;&<äé");
    }
}
