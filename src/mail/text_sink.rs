//! Where rendered HTML becomes lines: collapsed white space, line breaks, quotation marks.

/// Quotation marks before a line at most; deeper quotations are indented no further.
const DEEPEST_QUOTE: usize = 10;
/// Line breaks in a row at most: two empty lines.
const MOST_BREAKS: usize = 3;

/// Text in the making.
pub(super) struct TextSink {
    out: String,
    max: usize,
    /// Line breaks owed before the next visible character.
    breaks: usize,
    is_spaced: bool,
    quotes: usize,
    /// There was more to see than was kept.
    pub(super) is_cut: bool,
}

impl TextSink {
    /// A sink that keeps at most `max` octets.
    pub(super) const fn new(max: usize) -> Self {
        Self { out: String::new(), max, breaks: 0, is_spaced: false, quotes: 0, is_cut: false }
    }

    /// Appends text: white space collapses unless the element is preformatted.
    pub(super) fn push(&mut self, text: &str, is_preformatted: bool) {
        for c in text.chars() {
            if self.is_full() {
                self.is_cut |= !c.is_whitespace() && !c.is_control();
                if self.is_cut {
                    return;
                }
                continue;
            }
            match c {
                '\n' if is_preformatted => self.line_break(),
                ' ' | '\u{a0}' if is_preformatted => self.visible(' '),
                '\r' | '\0' => {}
                // A hard space is a space to the reader; unlike HTML's own it never breaks a line.
                _ if c.is_whitespace() => self.is_spaced = true,
                _ if c.is_control() => {}
                _ => self.visible(c),
            }
        }
    }

    /// Nothing more is kept.
    pub(super) const fn is_full(&self) -> bool {
        self.out.len() >= self.max
    }

    /// A `<br>`.
    pub(super) fn line_break(&mut self) {
        self.breaks = (self.breaks + 1).min(MOST_BREAKS);
        self.is_spaced = false;
    }

    /// At least this many line breaks before what follows.
    pub(super) fn at_least(&mut self, breaks: usize) {
        if breaks > 0 {
            self.breaks = self.breaks.max(breaks);
            self.is_spaced = false;
        }
    }

    /// Enters or leaves a quotation.
    pub(super) fn quote(&mut self, is_open: bool) {
        self.quotes =
            if is_open { self.quotes.saturating_add(1) } else { self.quotes.saturating_sub(1) };
    }

    /// The text, without white space at its ends.
    pub(super) fn into_text(self) -> String {
        super::visible::cut(&self.out, self.max).trim().to_owned()
    }

    fn visible(&mut self, c: char) {
        let is_first = self.out.is_empty();
        if !is_first && self.breaks > 0 {
            (0..self.breaks).for_each(|_| self.out.push('\n'));
        }
        if is_first || self.breaks > 0 {
            (0..self.quotes.min(DEEPEST_QUOTE)).for_each(|_| self.out.push_str("> "));
        } else if self.is_spaced {
            self.out.push(' ');
        }
        self.breaks = 0;
        self.is_spaced = false;
        self.out.push(c);
    }
}
