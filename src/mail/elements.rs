//! The elements that are open at a place of an HTML document: how they look, and which start tags
//! end them.

use super::look::Look;
use super::sheet::Element;
use super::tags::TagName;

/// Open elements remembered at a time; some start tags look through them. Real mail nests a few
/// dozen; deeper elements keep their text and lose their style.
const MOST_OPEN: usize = 128;
/// Elements that a start tag looks through for one that it ends: text nests a few deep in its
/// paragraph.
const IMPLIED_REACH: usize = 32;

/// An open element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open<'a> {
    pub(super) element: Element<'a>,
    pub(super) look: Look,
    /// Where its start tag begins, in octets.
    pub(super) start: usize,
}

/// The open elements, outermost first; at most [`MOST_OPEN`] are remembered.
#[derive(Default)]
pub(super) struct OpenElements<'a> {
    open: Vec<Open<'a>>,
    names: Census,
    /// Open elements beyond [`MOST_OPEN`].
    beyond: usize,
}

impl<'a> OpenElements<'a> {
    /// The look of what comes next.
    pub(super) fn look(&self) -> Look {
        self.open.last().map(|open| open.look).unwrap_or_default()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Open<'a>> {
        self.open.iter()
    }

    pub(super) fn push(&mut self, open: Open<'a>) {
        if self.open.len() < MOST_OPEN {
            self.names.add(open.element.name);
            self.open.push(open);
        } else {
            self.beyond += 1;
        }
    }

    /// Ends the innermost element of this name, and all inside it; its look, if it is known.
    pub(super) fn close(&mut self, name: TagName) -> Option<Look> {
        if self.beyond > 0 {
            self.beyond -= 1;
            return Some(Look::default());
        }
        self.pop(&[name], &[])
    }

    /// Elements that a start tag ends without an end tag (HTML Standard §13.1.2.4), so that a
    /// hidden paragraph does not hide what follows it.
    pub(super) fn close_implied(&mut self, tag: TagName) {
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
            .map(|open| &open.element.name)
            .position(|open| names.contains(open) || barriers.contains(open))?;
        let at = self.open.len() - 1 - above;
        let found = self.open.get(at).filter(|open| names.contains(&open.element.name))?;
        let look = found.look;
        for open in self.open.drain(at..) {
            self.names.remove(open.element.name);
        }
        Some(look)
    }
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

/// Line breaks around an element: 2 leaves an empty line.
pub(super) fn breaks(name: &str) -> usize {
    match name {
        "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "ol" | "dl" | "pre" | "hr" => 2,
        "div" | "table" | "tr" | "li" | "dt" | "dd" | "blockquo" | "address" | "article"
        | "section" | "header" | "footer" | "main" | "nav" | "aside" | "center" | "form"
        | "fieldset" | "figure" | "caption" | "body" | "option" | "details" | "summary" => 1,
        _ => 0,
    }
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
