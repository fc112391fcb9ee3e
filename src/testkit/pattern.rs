//! The few regular expressions (ECMA-262) that descriptions use: classes of characters, plain
//! characters and groups, each of them once or a bounded or open number of times, for a whole text.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

/// Whether a text is of this pattern; `None` of a pattern with anything else in it.
pub fn matches(pattern: &str, text: &str) -> Option<bool> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let mut letters = inner.chars().peekable();
    let pieces = pieces(&mut letters)?;
    if letters.next().is_some() {
        return None;
    }
    let text: Vec<char> = text.chars().collect();
    Some(reached(&pieces, &text, BTreeSet::from([0])).contains(&text.len()))
}

struct Piece {
    what: What,
    least: usize,
    most: usize,
}

enum What {
    /// One character of these ranges.
    Class(Vec<(char, char)>),
    Group(Vec<Piece>),
}

/// Up to the end, or the end of a group.
fn pieces(letters: &mut Peekable<Chars<'_>>) -> Option<Vec<Piece>> {
    let mut all = Vec::new();
    while let Some(letter) = letters.next_if(|letter| *letter != ')') {
        let what = match letter {
            '[' => What::Class(class(letters)?),
            '(' => {
                let group = pieces(letters)?;
                letters.next_if_eq(&')')?;
                What::Group(group)
            }
            '.' | '*' | '+' | '?' | '{' | '}' | '|' | '\\' | '^' | '$' | ']' => return None,
            plain => What::Class(vec![(plain, plain)]),
        };
        let (least, most) = match letters.peek() {
            Some('{') => counts(letters)?,
            Some('+') => letters.next().map(|_| (1, usize::MAX))?,
            Some('*') => letters.next().map(|_| (0, usize::MAX))?,
            Some('?') => letters.next().map(|_| (0, 1))?,
            _ => (1, 1),
        };
        all.push(Piece { what, least, most });
    }
    Some(all)
}

fn class(letters: &mut Peekable<Chars<'_>>) -> Option<Vec<(char, char)>> {
    let mut ranges = Vec::new();
    loop {
        let first = letters.next()?;
        match first {
            ']' => return Some(ranges),
            '^' | '\\' => return None,
            _ => {}
        }
        let mut ahead = letters.clone();
        let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|next| next != ']');
        let last = if is_range { letters.nth(1)? } else { first };
        ranges.push((first, last));
    }
}

/// `{3}`, `{1,3}` or `{1,}`.
fn counts(letters: &mut Peekable<Chars<'_>>) -> Option<(usize, usize)> {
    let inner: String = letters.by_ref().skip(1).take_while(|letter| *letter != '}').collect();
    match inner.split_once(',') {
        None => inner.parse().ok().map(|count| (count, count)),
        Some((least, "")) => Some((least.parse().ok()?, usize::MAX)),
        Some((least, most)) => Some((least.parse().ok()?, most.parse().ok()?)),
    }
}

/// Where these pieces end that begin at any of these places.
fn reached(pieces: &[Piece], text: &[char], from: BTreeSet<usize>) -> BTreeSet<usize> {
    pieces.iter().fold(from, |from, piece| {
        let mut ends = if piece.least == 0 { from.clone() } else { BTreeSet::new() };
        let mut places = from;
        // Nothing is repeated more often than there are characters.
        for count in 1..=piece.most.min(text.len().max(piece.least)) {
            places = match &piece.what {
                What::Group(inner) => reached(inner, text, places),
                What::Class(ranges) => {
                    let is_one = |place: &usize| {
                        text.get(*place).is_some_and(|letter| {
                            ranges.iter().any(|(first, last)| (first..=last).contains(&letter))
                        })
                    };
                    places.into_iter().filter(is_one).map(|place| place + 1).collect()
                }
            };
            if places.is_empty() {
                break;
            }
            if count >= piece.least {
                ends.extend(&places);
            }
        }
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn texts_are_held_against_patterns() {
        let key = "^[1-9][0-9]{0,15}:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
        for (pattern, text, expected) in [
            ("^[1-9][0-9]{0,15}$", "7", Some(true)),
            ("^[1-9][0-9]{0,15}$", "1234567890123456", Some(true)),
            ("^[1-9][0-9]{0,15}$", "12345678901234567", Some(false)),
            ("^[1-9][0-9]{0,15}$", "07", Some(false)),
            ("^[1-9][0-9]{0,15}$", "", Some(false)),
            ("^[0-9a-fA-F.:]+$", "2001:db8::1", Some(true)),
            ("^[0-9a-fA-F.:]+$", "g", Some(false)),
            ("^[A-Za-z0-9_.-]{1,3}$", "a-b", Some(true)),
            ("^[A-Za-z0-9_.-]{1,3}$", "a-bc", Some(false)),
            ("^a?b*$", "bbb", Some(true)),
            ("^a?b*$", "aab", Some(false)),
            ("^(ab?)+$", "aaba", Some(true)),
            (key, "41:019a9e5c-7c80-7000-8000-000000000001", Some(true)),
            (key, "41:019a9e5c-7c80-7000-000000000001", Some(false)),
            ("[0-9]", "1", None),
            ("^\\d$", "1", None),
            ("^a|b$", "a", None),
            ("^(a$", "a", None),
            ("^a)$", "a", None),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
