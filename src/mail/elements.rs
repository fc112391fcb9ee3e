//! The open elements of an HTML document: their look, and the tags that close them.

use super::computed_style::{ComputedStyle, Style};
use super::stylesheet::Element;
use super::tags::TagName;

/// Most open elements that are tracked, because some tags search them. Real mail nests a few dozen.
/// Deeper elements keep their text but lose their style, and `is_cut` tells so.
const MOST_OPEN: usize = 128;
/// A start tag searches so many open elements for one that it closes implicitly: in mail, text is
/// nested only a few levels in its paragraph.
const IMPLIED_REACH: usize = 32;
/// Most recomputed looks for misnested elements of one document: about 0.05 s.
const MOST_RESTYLED: usize = 100_000;
/// Most equal formatting elements that are reopened after another end tag (HTML Standard
/// §13.2.4.3).
const MOST_EQUAL: usize = 3;

/// How an element reacts to the end tag of another element (HTML Standard §13.2.4.2 and §13.2.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Closed together with an enclosing element.
    Plain,
    /// Reopened after the end of an enclosing element.
    Formatting,
    /// Stops inline end tags.
    Block,
    /// Stops all end tags except those of tables.
    Barrier,
    /// A barrier that also ends formatting inside.
    Marker,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            "a" | "b" | "big" | "code" | "em" | "font" | "i" | "nobr" | "s" | "small"
            | "strike" | "strong" | "tt" | "u" => Self::Formatting,
            "html" | "table" => Self::Barrier,
            "td" | "th" | "caption" | "template" | "object" | "marquee" | "applet" => Self::Marker,
            "body" | "head" | "button" | "center" | "dd" | "details" | "dir" | "figcaption"
            | "hgroup" | "iframe" | "listing" | "menu" | "noscript" | "search" | "select"
            | "tbody" | "textarea" | "tfoot" | "thead" | "xmp" => Self::Block,
            _ if breaks(name) > 0 && name != "option" => Self::Block,
            _ => Self::Plain,
        }
    }

    const fn is_barrier(self) -> bool {
        matches!(self, Self::Barrier | Self::Marker)
    }

    const fn is_block(self) -> bool {
        matches!(self, Self::Block | Self::Barrier | Self::Marker)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Open<'a> {
    pub(super) element: Element<'a>,
    pub(super) look: ComputedStyle,
    /// Byte offset of its start tag.
    pub(super) start: usize,
    style: Style,
    kind: Kind,
}

impl<'a> Open<'a> {
    /// Opens an element with this style inside the look `around`.
    pub(super) fn new(
        element: Element<'a>,
        style: Style,
        around: ComputedStyle,
        start: usize,
    ) -> Self {
        let kind = Kind::of(element.name.as_str());
        Self { element, look: around.inside(&style), start, style, kind }
    }
}

/// The open elements, outermost first; at most [`MOST_OPEN`] are tracked.
#[derive(Default)]
pub(super) struct OpenElements<'a> {
    open: Vec<Open<'a>>,
    names: Census,
    /// Number of open elements beyond [`MOST_OPEN`].
    beyond: usize,
    /// The outermost hidden element beyond [`MOST_OPEN`], and its value of `beyond`.
    hidden_beyond: Option<(usize, Open<'a>)>,
    restyled: usize,
    /// Some elements were not fully examined.
    pub(super) is_cut: bool,
}

impl<'a> OpenElements<'a> {
    /// Returns the look of the next content.
    pub(super) fn look(&self) -> ComputedStyle {
        let inner = self.open.last().map(|open| open.look);
        self.hidden_beyond.map(|(_, open)| open.look).or(inner).unwrap_or_default()
    }

    /// Returns the byte offset of the outermost hidden element.
    pub(super) fn hidden_from(&self) -> Option<usize> {
        let beyond = self.hidden_beyond.iter().map(|(_, open)| open);
        let mut hidden = self.open.iter().chain(beyond).filter(|o| o.look.hidden_by().is_some());
        hidden.next().map(|open| open.start)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Open<'a>> {
        self.open.iter()
    }

    pub(super) fn push(&mut self, open: Open<'a>) {
        if self.open.len() < MOST_OPEN {
            self.names.add(open.element.name);
            self.open.push(open);
            return;
        }
        self.is_cut = true;
        self.beyond += 1;
        if self.hidden_beyond.is_none() && open.look.hidden_by().is_some() {
            self.hidden_beyond = Some((self.beyond, open));
        }
    }

    /// Tells whether only the root and the body are open.
    pub(super) const fn has_roots_only(&self) -> bool {
        self.open.len() == 2
    }

    /// Replaces the implicit root (0) or body (1) when its tag appears.
    pub(super) fn replace_root(&mut self, slot: usize, root: Open<'a>) {
        if let Some(open) = self.open.get_mut(slot) {
            *open = root;
        }
        self.restyle(slot);
    }

    /// Returns the element that must be opened before `tag` (§13.1.2.4): a table's body or row.
    pub(super) fn implied(&self, tag: TagName) -> Option<TagName> {
        let inner = self.open.last().filter(|_| self.open.len() < MOST_OPEN)?;
        match (tag.as_str(), inner.element.name.as_str()) {
            ("tr" | "td" | "th", "table") => Some(TagName::new("tbody")),
            ("td" | "th", "tbody" | "thead" | "tfoot") => Some(TagName::new("tr")),
            _ => None,
        }
    }

    /// Closes the innermost element of this name and all elements inside it, if its end tag reaches
    /// it. Returns its look if that is known.
    pub(super) fn close(&mut self, name: TagName) -> Option<ComputedStyle> {
        if self.beyond > 0 {
            self.beyond -= 1;
            let look = self.look();
            if self.hidden_beyond.is_some_and(|(depth, _)| self.beyond < depth) {
                self.hidden_beyond = None;
            }
            return Some(look);
        }
        let text = name.as_str();
        let kind = Kind::of(text);
        let is = |open: &Open<'_>| open.element.name == name;
        let at = match text {
            // Later content still belongs to the body.
            "html" | "body" => return self.open.get(1).map(|body| body.look),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.find(is_heading, |open| open.kind.is_barrier(), MOST_OPEN)
            }
            _ if !self.names.may_have(name) => None,
            "table" => self.find(is, |open| is_named(open, &["template"]), MOST_OPEN),
            "td" | "th" | "tr" | "tbody" | "thead" | "tfoot" | "caption" => {
                self.find(is, |open| is_named(open, &["table"]), MOST_OPEN)
            }
            "li" => self.find(is, ends_items, MOST_OPEN),
            _ if kind == Kind::Plain => self.find(is, |open| open.kind.is_block(), MOST_OPEN),
            _ => self.find(is, |open| open.kind.is_barrier(), MOST_OPEN),
        }?;
        let holds_block = self.open.iter().skip(at + 1).any(|open| open.kind.is_block());
        if kind == Kind::Formatting && holds_block { self.take_out(at) } else { self.end(at) }
    }

    /// Closes elements that this start tag ends implicitly (HTML Standard §13.1.2.4), so that a
    /// hidden paragraph does not hide the text after it.
    pub(super) fn close_implied(&mut self, tag: TagName) {
        if self.beyond > 0 {
            return;
        }
        let name = tag.as_str();
        let targets: &[&str] = match name {
            "li" => &["li"],
            "td" | "th" => &["td", "th"],
            "tr" => &["tr"],
            "tbody" | "thead" | "tfoot" => &["tbody", "thead", "tfoot"],
            "dt" | "dd" => &["dt", "dd"],
            "option" => &["option"],
            "body" => &["head"],
            _ => &[],
        };
        let stops = |open: &Open<'_>| match name {
            "td" | "th" | "tr" | "tbody" | "thead" | "tfoot" => is_named(open, &["table"]),
            "option" => is_named(open, &["select"]),
            _ => ends_items(open),
        };
        self.end_implied(targets, stops);
        if breaks(name) > 0 {
            self.end_implied(&["p"], |open| open.kind.is_barrier() || is_named(open, &["button"]));
        }
        if matches!(name, "h1" | "h2" | "h3" | "h4" | "h5" | "h6")
            && self.open.last().is_some_and(is_heading)
        {
            self.end(self.open.len() - 1);
        }
    }

    fn end_implied(&mut self, targets: &[&str], stops: impl Fn(&Open<'a>) -> bool) {
        if targets.iter().any(|name| self.names.may_have(TagName::new(name))) {
            // A search that stops at a barrier closes nothing, and every tag may repeat it: keep it
            // short.
            if let Some(at) = self.find(|open| is_named(open, targets), stops, IMPLIED_REACH) {
                self.end(at);
            }
        }
    }

    /// Finds the innermost target among the last `reach` elements, unless another element stops the
    /// search.
    fn find(
        &self,
        is_target: impl Fn(&Open<'a>) -> bool,
        stops: impl Fn(&Open<'a>) -> bool,
        reach: usize,
    ) -> Option<usize> {
        for (at, open) in self.open.iter().enumerate().rev().take(reach) {
            if is_target(open) {
                return Some(at);
            }
            if stops(open) {
                return None;
            }
        }
        None
    }

    /// Closes the element at `at` and all inside it. Formatting inside it is reopened, so that
    /// white letters stay white.
    fn end(&mut self, at: usize) -> Option<ComputedStyle> {
        if at + 1 == self.open.len() {
            let open = self.open.pop()?;
            self.names.remove(open.element.name);
            return Some(open.look);
        }
        let ended: Vec<_> = self.open.drain(at..).collect();
        for open in &ended {
            self.names.remove(open.element.name);
        }
        let (first, inside) = ended.split_first()?;
        if first.kind != Kind::Marker {
            let inside = inside.iter().take_while(|open| open.kind != Kind::Marker);
            for open in inside.filter(|open| open.kind == Kind::Formatting) {
                self.reopen(*open);
            }
        }
        Some(first.look)
    }

    fn reopen(&mut self, open: Open<'a>) {
        let is_equal = |other: &&Open<'_>| {
            other.element.name == open.element.name && other.style == open.style
        };
        if self.may_restyle() && self.open.iter().filter(is_equal).count() < MOST_EQUAL {
            let look = self.look().inside(&open.style);
            self.push(Open { look, ..open });
        }
    }

    /// Removes a formatting element that contains blocks; the blocks stay open without it.
    fn take_out(&mut self, at: usize) -> Option<ComputedStyle> {
        let taken = self.open.get(at).copied()?;
        self.open.remove(at);
        self.names.remove(taken.element.name);
        self.restyle(at);
        Some(taken.look)
    }

    /// Recomputes the look of the elements from `at` on.
    fn restyle(&mut self, at: usize) {
        let around = at.checked_sub(1).and_then(|at| self.open.get(at));
        let mut look = around.map(|open| open.look).unwrap_or_default();
        for slot in at..self.open.len() {
            if !self.may_restyle() {
                return;
            }
            if let Some(open) = self.open.get_mut(slot) {
                look = look.inside(&open.style);
                open.look = look;
            }
        }
    }

    const fn may_restyle(&mut self) -> bool {
        self.restyled += 1;
        self.is_cut |= self.restyled > MOST_RESTYLED;
        self.restyled <= MOST_RESTYLED
    }
}

fn is_named(open: &Open<'_>, names: &[&str]) -> bool {
    names.contains(&open.element.name.as_str())
}

fn is_heading(open: &Open<'_>) -> bool {
    is_named(open, &["h1", "h2", "h3", "h4", "h5", "h6"])
}

fn ends_items(open: &Open<'_>) -> bool {
    open.kind.is_barrier() || is_named(open, &["ul", "ol", "dl"])
}

/// Counts the open elements by a digest of their names, so that an unmatched end tag needs no
/// search.
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

/// Line breaks around an element; 2 leaves an empty line.
pub(super) fn breaks(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "pre" | "hr" => 2,
        "div" | "table" | "tr" | "li" | "dt" | "dd" | "blockquote" | "address" | "article"
        | "section" | "header" | "footer" | "main" | "nav" | "aside" | "center" | "form"
        | "fieldset" | "figure" | "caption" | "body" | "option" | "details" | "summary" => 1,
        _ => 0,
    }
}

/// Tells whether the name is an element that occurs in mail.
pub(super) fn is_markup(name: &str) -> bool {
    let is_plain = Kind::of(name) == Kind::Plain;
    !is_plain || is_void(name) || matches!(name, "script" | "span" | "style" | "title")
}

pub(super) fn is_void(name: &str) -> bool {
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
