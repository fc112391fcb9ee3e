//! Visible text: removes controls, classifies invisible characters, cuts.

/// Invisible characters that change what a reader sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unseen {
    /// Changes the reading direction (UAX #9): `txt.exe` shows as `exe.txt`.
    Bidi,
    /// Takes no room: splits words for a filter, not for a reader.
    ZeroWidth,
    /// An invisible alphabet (U+E0000 block) that language models read.
    Tag,
    /// Selects a variant of the character before it; a run of them can carry data.
    Variation,
}

impl Unseen {
    pub(super) const ALL: &[Self] = &[Self::Bidi, Self::ZeroWidth, Self::Tag, Self::Variation];

    /// Returns the class of `c`; None if it is visible.
    pub(super) const fn of(c: char) -> Option<Self> {
        match c {
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => Some(Self::Bidi),
            '\u{2066}'..='\u{2069}' | '\u{206a}'..='\u{206f}' => Some(Self::Bidi),
            '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
                Some(Self::ZeroWidth)
            }
            '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' => {
                Some(Self::ZeroWidth)
            }
            '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => {
                Some(Self::ZeroWidth)
            }
            '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => Some(Self::ZeroWidth),
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Some(Self::Variation),
            '\u{e0000}'..='\u{e0fff}' => Some(Self::Tag),
            _ => None,
        }
    }
}

/// Returns `text` on one line, as unfolding leaves it (RFC 5322 §2.2.3), at most `max` bytes. Line
/// ends and controls are removed, leaving a space if there is none beside them. Spaces stay, tabs
/// become spaces, both ends are trimmed. Returns None if nothing is left.
pub(super) fn line(text: &str, max: usize) -> Option<String> {
    on_one_line(text.chars(), max)
}

/// Like [`line`], without any invisible characters, which have no legitimate use in names.
pub(super) fn name(text: &str, max: usize) -> Option<String> {
    on_one_line(text.chars().filter(|c| Unseen::of(*c).is_none()), max)
}

fn on_one_line(chars: impl Iterator<Item = char>, max: usize) -> Option<String> {
    let mut out = String::new();
    // Spaces and tabs since the last character, and whether there was another gap.
    let (mut blanks, mut broken) = (0, false);
    for c in chars {
        match c {
            ' ' | '\t' => blanks += 1,
            c if c.is_control() || c.is_whitespace() => broken = true,
            c => {
                let gap = if out.is_empty() { 0 } else { blanks.max(usize::from(broken)) };
                if out.len() + gap + c.len_utf8() > max {
                    break;
                }
                out.extend(std::iter::repeat_n(' ', gap));
                out.push(c);
                (blanks, broken) = (0, false);
            }
        }
    }
    (!out.is_empty()).then_some(out)
}

/// Returns the longest prefix of at most `max` bytes that ends between characters.
pub(super) fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line_and_bounded() {
        assert_eq!(line(" a\r\n\tb\0c\u{2028}d ", 99).as_deref(), Some("a b c d"));
        assert_eq!(line("a  b\r\n   c", 99).as_deref(), Some("a  b   c"));
        assert_eq!(line("\r\n \0", 99), None);
        assert_eq!(line("äöü", 5).as_deref(), Some("äö"));
        assert_eq!(line("ab cd", 3).as_deref(), Some("ab"));
        assert_eq!(line("a\u{202e}b", 99).as_deref(), Some("a\u{202e}b"));
    }

    #[test]
    fn a_name_has_no_unseen_characters() {
        assert_eq!(name("B\u{202e}o\u{200b}s\u{e0041}s\u{feff}", 99).as_deref(), Some("Boss"));
        assert_eq!(name("\u{200b}\u{202e}", 99), None);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(cut("aäb", 2), "a");
        assert_eq!(cut("aäb", 3), "aä");
        assert_eq!(cut("ab", 9), "ab");
    }
}
