//! Picks the leaves that are shown as text and as HTML: the body lists of RFC 8621 §4.1.4, computed
//! without recursion.

use super::structure::{Entry, Kind};

/// Indices of the shown parts, in display order. A part can be in both lists. Images between texts
/// are left out, because they have no text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bodies {
    pub(super) text: Vec<usize>,
    pub(super) html: Vec<usize>,
}

/// Sorts the leaves of a message into the lists. Forwarded messages are skipped.
pub(super) fn bodies(entries: &[Entry]) -> Bodies {
    let mut bodies = Bodies::default();
    let mut levels: Vec<Level> = Vec::new();
    for (number, entry) in entries.iter().enumerate().filter(|(_, entry)| !entry.is_forwarded) {
        while levels.last().is_some_and(|level| Some(level.entry) != entry.parent) {
            levels.pop().into_iter().for_each(|level| level.end(&mut bodies));
        }
        if entry.kind == Kind::Multipart {
            levels.push(Level::new(number, entry, levels.last(), &bodies));
        } else {
            sort(number, entry, levels.last_mut(), &mut bodies);
        }
    }
    while let Some(level) = levels.pop() {
        level.end(&mut bodies);
    }
    bodies
}

struct Level {
    entry: usize,
    is_alternative: bool,
    is_related: bool,
    in_alternative: bool,
    /// False once a sibling in the other form has closed this list on this level.
    takes_text: bool,
    takes_html: bool,
    text_before: usize,
    html_before: usize,
}

impl Level {
    fn new(number: usize, entry: &Entry, parent: Option<&Self>, bodies: &Bodies) -> Self {
        let is_alternative = entry.is("multipart", "alternative");
        Self {
            entry: number,
            is_alternative,
            is_related: entry.is("multipart", "related"),
            in_alternative: is_alternative || parent.is_some_and(|parent| parent.in_alternative),
            takes_text: parent.is_none_or(|parent| parent.takes_text),
            takes_html: parent.is_none_or(|parent| parent.takes_html),
            text_before: bodies.text.len(),
            html_before: bodies.html.len(),
        }
    }

    /// Closes a multipart. An alternative that has only one form represents the other form as well.
    fn end(self, bodies: &mut Bodies) {
        if !(self.is_alternative && self.takes_text && self.takes_html) {
            return;
        }
        let (texts, htmls) = (bodies.text.len(), bodies.html.len());
        if texts == self.text_before {
            bodies.text.extend(bodies.html.iter().skip(self.html_before).copied());
        } else if htmls == self.html_before {
            bodies.html.extend(bodies.text.iter().skip(self.text_before).copied());
        }
    }
}

fn sort(number: usize, entry: &Entry, level: Option<&mut Level>, bodies: &mut Bodies) {
    let (is_plain, is_html) = (entry.is("text", "plain"), entry.is("text", "html"));
    let (is_related, is_alternative) =
        level.as_ref().map_or((false, false), |level| (level.is_related, level.is_alternative));
    let is_first = entry.position == 0;
    let is_shown = !entry.is_disputed
        && entry.is_inline()
        && (is_plain || is_html)
        && (is_first || (!is_related && entry.name().is_none_or(str::is_empty)));
    if !is_shown {
        return;
    }
    let (mut in_text, mut in_html) = (true, true);
    if let Some(level) = level {
        if is_alternative {
            (in_text, in_html) = (is_plain, is_html);
        } else {
            if level.in_alternative {
                level.takes_html &= !is_plain;
                level.takes_text &= !is_html;
            }
            (in_text, in_html) = (level.takes_text, level.takes_html);
        }
    }
    bodies.text.extend(in_text.then_some(number));
    bodies.html.extend(in_html.then_some(number));
}
