//! Hidden passages of an HTML document, and their ranges.

use super::visible::{self, Unseen};

/// Bytes of a passage that are kept.
const SAMPLE: usize = 200;
/// Bytes of a passage that are compared with the text.
const COMPARED: usize = 2000;

/// A range in a text; the end is exclusive. In code points after [`in_points`], before that in
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// Its beginning, on one line.
    pub(super) text: String,
    /// The style, or the kind of markup, that hides it.
    pub(super) how: &'static str,
    pub(super) span: Span,
}

/// How a passage is hidden. Each kind has its own quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Style,
    /// An attribute, or fallback content for old programs.
    Aside,
    Comment,
}

/// A hidden passage while it is being read.
pub(super) struct Hidden {
    text: String,
    /// The passage is longer than what was kept.
    is_cut: bool,
    has_letters: bool,
    how: &'static str,
    pub(super) span: Span,
}

impl Hidden {
    pub(super) const fn new(how: &'static str, span: Span) -> Self {
        Self { text: String::new(), is_cut: false, has_letters: false, how, span }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.how {
            "comment" | "conditional comment" => Kind::Comment,
            "attribute" | "fallback" => Kind::Aside,
            _ => Kind::Style,
        }
    }

    /// Skips invisible characters and collapses blanks, which would use up the room.
    pub(super) fn add(&mut self, text: &str) {
        for c in text.chars() {
            let unseen = Unseen::of(c);
            self.has_letters |= c.is_alphanumeric() || unseen == Some(Unseen::Tag);
            if unseen.is_some() {
                continue;
            }
            let is_blank = c.is_whitespace() || c.is_control();
            if self.text.len() >= COMPARED {
                self.is_cut |= !is_blank;
            } else if !is_blank {
                self.text.push(c);
            } else if !self.text.is_empty() && !self.text.ends_with(' ') {
                self.text.push(' ');
            }
        }
    }

    /// Tells whether the passage has anything to read.
    pub(super) const fn has_letters(&self) -> bool {
        self.has_letters
    }

    /// Counts the words with letters in the kept text.
    pub(super) fn words(&self) -> usize {
        let is_word = |word: &&str| word.chars().any(char::is_alphabetic);
        self.text.split(' ').filter(is_word).count()
    }

    /// Returns the passage unless the shown text contains it. `shown` must be normalized by
    /// [`plainly`].
    pub(super) fn against(self, shown: &str) -> Option<Passage> {
        let own = plainly(&self.text);
        if own.is_empty() {
            // Only invisible tag characters, which a language model can read.
            let text = "tag characters".to_owned();
            return Some(Passage { text, how: self.how, span: self.span });
        }
        if !self.is_cut && shown.contains(own.trim_end_matches(['.', '\u{2026}'])) {
            return None;
        }
        Some(Passage {
            text: visible::cut(self.text.trim(), SAMPLE).trim_end().to_owned(),
            how: self.how,
            span: self.span,
        })
    }
}

/// Normalizes text: lower case, one space between words.
pub(super) fn plainly(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
    out
}

/// Converts ranges from bytes of `text` to code points, in one pass.
pub(super) fn in_points<'s>(text: &str, spans: impl Iterator<Item = &'s mut Span>) {
    let mut places: Vec<&mut usize> =
        spans.flat_map(|span| [&mut span.start, &mut span.end]).collect();
    places.sort_unstable_by_key(|place| **place);
    let (mut octets, mut points) = (0, 0);
    for place in places {
        points += text.get(octets..*place).unwrap_or_default().chars().count();
        octets = *place;
        *place = points;
    }
}
