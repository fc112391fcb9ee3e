//! Turns rendered HTML into lines: collapses white space, breaks lines, marks quotations.

/// Most quotation marks before a line.
const DEEPEST_QUOTE: usize = 10;
/// Most line breaks in a row, which leave two empty lines.
const MOST_BREAKS: usize = 3;

pub(super) struct TextSink {
    out: String,
    max: usize,
    /// Line breaks to write before the next visible character.
    breaks: usize,
    is_spaced: bool,
    quotes: usize,
    /// Visible text was dropped.
    pub(super) is_cut: bool,
}

impl TextSink {
    /// Keeps at most `max` bytes.
    pub(super) const fn new(max: usize) -> Self {
        Self { out: String::new(), max, breaks: 0, is_spaced: false, quotes: 0, is_cut: false }
    }

    /// Appends text. White space collapses unless the text is preformatted.
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
                // A no-break space looks like a space; unlike in HTML, lines are not broken here
                // anyway.
                _ if c.is_whitespace() => self.is_spaced = true,
                _ if c.is_control() => {}
                _ => self.visible(c),
            }
        }
    }

    /// Tells whether no more text is kept.
    pub(super) const fn is_full(&self) -> bool {
        self.out.len() >= self.max
    }

    /// Adds a `<br>`.
    pub(super) fn line_break(&mut self) {
        self.breaks = (self.breaks + 1).min(MOST_BREAKS);
        self.is_spaced = false;
    }

    /// Ensures at least this many line breaks before the next text.
    pub(super) fn at_least(&mut self, breaks: usize) {
        if breaks > 0 {
            self.breaks = self.breaks.max(breaks);
            self.is_spaced = false;
        }
    }

    /// Begins or ends a quotation.
    pub(super) fn quote(&mut self, is_open: bool) {
        self.quotes =
            if is_open { self.quotes.saturating_add(1) } else { self.quotes.saturating_sub(1) };
    }

    /// Returns the text, trimmed.
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
