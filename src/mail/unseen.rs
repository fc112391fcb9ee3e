//! Finds invisible characters where they do not belong.
//!
//! Many scripts need some of them: joiners in Persian and emoji, marks in Hebrew, selectors after
//! emoji and ideographs, isolates that a template puts around a name. These are accepted.
//! Characters that reorder a line, split a word or carry data are reported.

use std::collections::BTreeSet;

use super::passages::Span;
use super::visible::Unseen;

/// Most places of one class that are reported individually.
const MOST_RUNS: usize = 10;
/// Most different code points named per place.
const NAMED: usize = 8;
/// Most tags of a flag (UTS 51, ED-14a): six, and the one that ends it.
const FLAG: usize = 7;

/// A run of invisible characters of one class; white space between them is ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) class: Unseen,
    pub(super) span: Span,
    pub(super) count: usize,
    /// Some of its characters.
    pub(super) named: BTreeSet<char>,
    /// Later runs of the class that are not reported individually.
    pub(super) more: usize,
}

/// Returns the runs in `text`, in order within each class; at most [`MOST_RUNS`] per class.
pub(super) fn runs(text: &str) -> Vec<Run> {
    // Fast path: most texts have none.
    if text.is_ascii() || !text.chars().any(|c| Unseen::of(c).is_some()) {
        return Vec::new();
    }
    let chars: Vec<char> = text.chars().collect();
    let reordering = reordering(&chars);
    let mut found = [const { Vec::new() }; Unseen::ALL.len()];
    let (mut flag_end, mut last) = (0, [None; Unseen::ALL.len()]);
    for (at, c) in chars.iter().enumerate() {
        let Some(class) = Unseen::of(*c) else {
            if *c == '\u{1f3f4}' {
                flag_end = at + 1 + flag_length(chars.get(at + 1..).unwrap_or_default());
            }
            // Only white space may interrupt a run.
            if !c.is_whitespace() {
                last = [None; Unseen::ALL.len()];
            }
            continue;
        };
        let around = Around::of(&chars, at);
        let belongs = match class {
            Unseen::Bidi => !reordering.contains(&at) && !around.is_stray_mark(*c),
            Unseen::ZeroWidth => around.takes_joiner(*c),
            Unseen::Tag => at < flag_end,
            Unseen::Variation => around.takes_selector(*c),
        };
        let Some(slot) = Unseen::ALL.iter().position(|other| *other == class) else { continue };
        if let (false, Some(found), Some(last)) = (belongs, found.get_mut(slot), last.get_mut(slot))
        {
            add(found, last, class, at, *c);
        }
    }
    found.into_iter().flatten().collect()
}

fn add(found: &mut Vec<Run>, last: &mut Option<usize>, class: Unseen, at: usize, c: char) {
    let goes_on = last.is_some();
    *last = Some(at);
    let is_full = found.len() >= MOST_RUNS;
    match found.last_mut() {
        // A run that was only counted also continues.
        Some(run) if goes_on && run.more == 0 => {
            run.count += 1;
            run.span.end = at + 1;
            if run.named.len() < NAMED {
                run.named.insert(c);
            }
        }
        Some(run) if is_full => run.more += usize::from(!goes_on),
        _ => found.push(Run {
            class,
            span: Span { start: at, end: at + 1 },
            count: 1,
            named: BTreeSet::from([c]),
            more: 0,
        }),
    }
}

/// Returns the number of `chars` that complete the flag of a region.
fn flag_length(chars: &[char]) -> usize {
    let is_tag = |c: &&char| matches!(**c, '\u{e0030}'..='\u{e0039}' | '\u{e0061}'..='\u{e007a}');
    let tags = chars.iter().take(FLAG).take_while(is_tag).count();
    let ends = chars.get(tags) == Some(&'\u{e007f}');
    if ends && (1..FLAG).contains(&tags) { tags + 1 } else { 0 }
}

/// Finds controls that reorder text wrongly (UAX #9): overrides, controls without their counterpart
/// in the line, and right-to-left where no such text exists.
fn reordering(chars: &[char]) -> BTreeSet<usize> {
    let has_rtl = chars.iter().any(|c| is_rtl(*c));
    let mut found = BTreeSet::new();
    let mut open: Vec<(usize, char)> = Vec::new();
    for (at, c) in chars.iter().enumerate() {
        match c {
            '\n' | '\u{2029}' => found.extend(open.drain(..).map(|(at, _)| at)),
            '\u{202a}' | '\u{202b}' | '\u{202d}' | '\u{202e}' | '\u{2066}'..='\u{2068}' => {
                open.push((at, *c));
            }
            '\u{202c}' | '\u{2069}' => {
                let is_isolate = |c: char| matches!(c, '\u{2066}'..='\u{2068}');
                let fits = |(_, begins): &&(usize, char)| is_isolate(*begins) == is_isolate_end(*c);
                match open.last().filter(fits).copied() {
                    Some((begins_at, begins)) => {
                        open.pop();
                        let is_override = matches!(begins, '\u{202d}' | '\u{202e}');
                        let is_rtl = matches!(begins, '\u{202b}' | '\u{2067}');
                        if is_override || (is_rtl && !has_rtl) {
                            found.extend([begins_at, at]);
                        }
                    }
                    None => {
                        found.insert(at);
                    }
                }
            }
            '\u{206a}'..='\u{206f}' => {
                found.insert(at);
            }
            _ => {}
        }
    }
    found.extend(open.into_iter().map(|(at, _)| at));
    found
}

const fn is_isolate_end(c: char) -> bool {
    c == '\u{2069}'
}

/// Tells whether a letter is written from right to left.
const fn is_rtl(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{61b}' | '\u{61d}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}'
        | '\u{fe70}'..='\u{fefc}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

/// The neighbours of a character; NUL if there is none.
struct Around {
    before: char,
    after: char,
}

impl Around {
    fn of(chars: &[char], at: usize) -> Self {
        let get = |at: Option<usize>| at.and_then(|at| chars.get(at)).copied().unwrap_or_default();
        Self { before: get(at.checked_sub(1)), after: get(at.checked_add(1)) }
    }

    /// Tells whether LRM, RLM or ALM have no use: several in a row, or one inside an ASCII word,
    /// order nothing.
    fn is_stray_mark(&self, c: char) -> bool {
        let is_mark = |c: char| matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}');
        let in_word = self.before.is_ascii_alphanumeric() && self.after.is_ascii_alphanumeric();
        is_mark(c) && (in_word || is_mark(self.before) || is_mark(self.after))
    }

    /// Tells whether a joiner belongs here. Many scripts and emoji need joiners; between ASCII
    /// letters they only hide.
    const fn takes_joiner(&self, c: char) -> bool {
        const fn is_joining(c: char) -> bool {
            !c.is_ascii() && matches!(Unseen::of(c), None | Some(Unseen::Variation))
        }
        const fn is_jamo(c: char) -> bool {
            matches!(c, '\u{1100}'..='\u{115e}' | '\u{1161}'..='\u{11ff}')
        }
        const fn is_braille(c: char) -> bool {
            matches!(c, '\u{2801}'..='\u{28ff}')
        }
        match c {
            '\u{200b}'..='\u{200d}' | '\u{34f}' => {
                is_joining(self.before) && is_joining(self.after)
            }
            '\u{180b}'..='\u{180d}' | '\u{180f}' => matches!(self.before, '\u{1820}'..='\u{18aa}'),
            '\u{115f}' | '\u{1160}' => is_jamo(self.before) || is_jamo(self.after),
            '\u{2800}' => is_braille(self.before) || is_braille(self.after),
            _ => false,
        }
    }

    /// Tells whether a selector follows a character with variants (the Unicode lists of emoji,
    /// standardized and ideographic variation sequences, by block).
    const fn takes_selector(&self, c: char) -> bool {
        let is_han = matches!(self.before, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
            | '\u{20000}'..='\u{3ffff}');
        match c {
            '\u{fe0e}' | '\u{fe0f}' => match self.before {
                '0'..='9' | '#' | '*' => true,
                before => !before.is_ascii() && Unseen::of(before).is_none() && !is_han,
            },
            '\u{fe00}'..='\u{fe0d}' => {
                is_han
                    || matches!(self.before, '0' | '\u{1000}'..='\u{109f}' | '\u{2190}'..='\u{22ff}'
                        | '\u{2a00}'..='\u{2aff}' | '\u{a840}'..='\u{a87f}'
                        | '\u{aa60}'..='\u{aa7f}' | '\u{ff00}'..='\u{ffef}'
                        | '\u{10ac0}'..='\u{10aff}' | '\u{1d400}'..='\u{1d7ff}')
            }
            _ => is_han,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<(Unseen, usize, usize, usize)> {
        runs(text).iter().map(|r| (r.class, r.span.start, r.span.end, r.count)).collect()
    }

    #[test]
    fn what_belongs_is_left_alone() {
        for text in [
            "",
            "Hello, W\u{f6}rld",
            "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{2764}\u{fe0f}\u{200d}\u{1f525} 1\u{fe0f}\u{20e3} \u{a9}\u{fe0f}",
            "\u{1f3f4}\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}",
            "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            "\u{e01}\u{200b}\u{e02}",
            "\u{5e9}\u{5dc}\u{5d5}\u{5dd}\u{200f}! (abc)\u{200e}",
            "\u{202b}\u{5e9}\u{5dc}\u{202c} \u{2067}\u{5e9}\u{2069}",
            "Hi \u{2068}Anna\u{2069}, call \u{202a}+49 30 1234\u{202c}",
            "\u{845b}\u{e0100} \u{8fbb}\u{fe00} \u{2268}\u{fe00}",
            "\u{1820}\u{180b}",
            "\u{1100}\u{1160}\u{11a8}",
            "\u{2801}\u{2800}\u{2803}",
        ] {
            assert_eq!(places(text), [], "{text:?}");
        }
    }

    #[test]
    fn what_hides_is_named_by_its_place() {
        use Unseen::{Bidi, Tag, Variation, ZeroWidth};
        for (text, expected) in [
            ("\u{e4}\u{202e}b\u{202c}", vec![(Bidi, 1, 2, 1), (Bidi, 3, 4, 1)]),
            ("a\u{2066}b\nc\u{2069}", vec![(Bidi, 1, 2, 1), (Bidi, 5, 6, 1)]),
            ("a\u{2067}b\u{2069}", vec![(Bidi, 1, 2, 1), (Bidi, 3, 4, 1)]),
            ("a\u{2066}b\u{202c}", vec![(Bidi, 1, 2, 1), (Bidi, 3, 4, 1)]),
            ("a\u{200e}b", vec![(Bidi, 1, 2, 1)]),
            ("a \u{200e}\u{200f}\u{200e}", vec![(Bidi, 2, 5, 3)]),
            ("\u{206a}", vec![(Bidi, 0, 1, 1)]),
            ("a\u{200b}b", vec![(ZeroWidth, 1, 2, 1)]),
            ("pass\u{200d}word", vec![(ZeroWidth, 4, 5, 1)]),
            ("pass\u{ad}word", vec![(ZeroWidth, 4, 5, 1)]),
            ("a\u{200b} \u{feff}\u{2060}b", vec![(ZeroWidth, 1, 5, 3)]),
            ("a\u{2063}\u{3164}\u{ffa0}\u{34f}", vec![(ZeroWidth, 1, 5, 4)]),
            ("\u{1160}\u{2800}\u{180e}\u{180b}", vec![(ZeroWidth, 0, 4, 4)]),
            ("hi\u{e0041}\u{e0042}", vec![(Tag, 2, 4, 2)]),
            ("\u{1f3f4}\u{e0067}\u{e0062}", vec![(Tag, 1, 3, 2)]),
            ("\u{1f600}\u{fe0f}\u{fe01}\u{e0100}", vec![(Variation, 2, 4, 2)]),
            ("a\u{fe0f}b\u{fe0e}", vec![(Variation, 1, 2, 1), (Variation, 3, 4, 1)]),
            ("\u{1f600}\u{e0110}", vec![(Variation, 1, 2, 1)]),
        ] {
            assert_eq!(places(text), expected, "{text:?}");
        }
        let flag = format!("\u{1f3f4}{}\u{e007f}", "\u{e0061}".repeat(7));
        assert_eq!(places(&flag), [(Tag, 1, 9, 8)]);
    }

    #[test]
    fn places_are_bounded_and_counted() {
        let found = runs(&"a\u{200b}\u{200b}".repeat(100));
        assert_eq!(found.len(), MOST_RUNS);
        assert_eq!((found[0].more, found[9].more, found[9].count), (0, 90, 2));
        assert_eq!(runs(&"\u{202e}".repeat(100_000))[0].count, 100_000);
    }
}
