//! Tokens: stored in the index for each message, and used by queries to find candidates.
//!
//! `invoice` stands for a word anywhere, `s:invoice` for one in the subject, `f:boss` in the
//! sender, `b:inv` for a word that begins so. `in:o12:1:3021` names owner and time: organization
//! 12, span 3021 of size 1. A search also asks for the spans that it covers, so that its cost
//! depends on the searcher's own rows alone. A token consists of letters, digits, marks and colons,
//! without spaces or quotes, and has at most a hundred characters.

use std::cmp::Ordering;

use super::words::{Document, Field, is_alone};
use crate::domain::account::{AccountType, Lineage};
use crate::domain::clock::Timestamp;

/// Characters of a prefix token; shorter prefixes cannot be searched.
pub const BEGINNING: usize = 3;

/// Sizes of time spans, as powers of two in milliseconds: about 70 minutes, 37 hours, 50 days and
/// four years. Each is 32 times the one before, so that a few spans cover any period.
const SPANS: [u32; 4] = [22, 27, 32, 37];
/// Times after the year 2248 are treated as one.
const END: i64 = (1 << 43) - 1;

/// Returns the tokens of a document, each once, separated by spaces, as an index takes them.
pub fn of_document(document: &Document) -> String {
    let mut tokens = String::new();
    let mut add = |prefix: &str, word: &str| {
        let space = if tokens.is_empty() { "" } else { " " };
        tokens.extend([space, prefix, word]);
    };
    for field in Field::ALL {
        if !prefix(field).is_empty() {
            let words = distinct(document.field(field).iter());
            words.into_iter().for_each(|word| add(prefix(field), word));
        }
    }
    let mut before = "";
    for word in distinct(Field::ALL.iter().flat_map(|field| document.field(*field).iter())) {
        add("", word);
        // The words are sorted, so equal prefixes are adjacent.
        if let Some(first) = first(word).filter(|first| *first != before) {
            add("b:", first);
            before = first;
        }
    }
    tokens
}

/// Sorts by bytes and removes duplicates.
fn distinct<'d>(words: impl Iterator<Item = &'d str>) -> Vec<&'d str> {
    let mut words: Vec<(u128, &str)> = words.map(|word| (head(word), word)).collect();
    words.sort_unstable_by(order);
    words.dedup_by(|one, before| order(one, before).is_eq());
    words.into_iter().map(|(_, word)| word).collect()
}

/// Compares words with their heads, nearly always by these alone: most words are the same again.
fn order((one, word): &(u128, &str), (other, another): &(u128, &str)) -> Ordering {
    let goes_on = word.len().max(another.len()) > size_of::<u128>();
    one.cmp(other).then_with(|| if goes_on { word.cmp(another) } else { Ordering::Equal })
}

/// The first bytes of a word, which has no NUL, as a number of the same order.
fn head(word: &str) -> u128 {
    let mut first = [0; size_of::<u128>()];
    first.iter_mut().zip(word.bytes()).for_each(|(place, byte)| *place = byte);
    u128::from_be_bytes(first)
}

/// Prefix of a token for one field; empty for fields without tokens of their own.
const fn prefix(field: Field) -> &'static str {
    match field {
        Field::Subject => "s:",
        Field::From => "f:",
        Field::Names | Field::Text => "",
    }
}

/// Returns the token of a word in one field, or in any.
pub fn of_word(word: &str, field: Option<Field>) -> String {
    format!("{}{word}", field.map_or("", prefix))
}

/// Returns the prefix token of a word; None if the word is too short.
pub fn beginning(word: &str) -> Option<String> {
    first(word).map(|first| format!("b:{first}"))
}

fn first(word: &str) -> Option<&str> {
    let (last, c) = word.char_indices().nth(BEGINNING - 1)?;
    word.get(..last + c.len_utf8())
}

/// Tells whether a word is complete: a character that is a word by itself cannot be continued.
pub fn is_whole(word: &str) -> bool {
    word.chars().all(is_alone)
}

/// Returns the tokens of a message's owners and time.
pub fn of_place(lineage: &Lineage, at: Timestamp) -> Vec<String> {
    let at = at.millis().clamp(0, END);
    let mut found = Vec::new();
    for (level, letter) in LEVELS {
        let Some(id) = lineage.at(level) else { continue };
        for (size, span) in SPANS.iter().enumerate() {
            found.push(format!("in:{letter}{id}:{size}:{}", at >> span));
        }
    }
    found
}

/// Returns tokens for the messages of an account between two times, both inclusive. Each such
/// message has one of them. They are few, and exact to the smallest span.
pub fn of_spans(
    level: AccountType,
    id: impl std::fmt::Display,
    from: Timestamp,
    to: Timestamp,
) -> Vec<String> {
    let letter =
        LEVELS.iter().find(|(known, _)| *known == level).map_or('a', |(_, letter)| *letter);
    let mut at = from.millis().clamp(0, END);
    let last = to.millis().clamp(0, END);
    let mut found = Vec::new();
    while at <= last {
        // The largest span that begins here and ends within the period; else the smallest.
        let fits = |span: &u32| {
            let length = 1_i64 << span;
            at % length == 0 && at + (length - 1) <= last
        };
        let size = SPANS.iter().rposition(fits).unwrap_or(0);
        let span = SPANS.get(size).copied().unwrap_or_default();
        found.push(format!("in:{letter}{id}:{size}:{}", at >> span));
        at = ((at >> span) + 1) << span;
    }
    found
}

const LEVELS: [(AccountType, char); 4] = [
    (AccountType::Partner, 'p'),
    (AccountType::Reseller, 'r'),
    (AccountType::Organization, 'o'),
    (AccountType::Agent, 'a'),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::id::AccountId;

    #[test]
    fn a_document_has_each_token_once() {
        let document =
            Document::read("Re: due", &["Ann", "due"], &["due.pdf"], "Due 東京 due, дуэль");
        let expected = "s:due s:re f:ann f:due ann b:ann due b:due pdf b:pdf re дуэль b:дуэ 京 東";
        assert_eq!(of_document(&document), expected);
        assert_eq!(of_document(&Document::default()), "");
        for word in ["due", "дуэль"] {
            let beginning = beginning(word).unwrap();
            assert!(expected.split(' ').any(|token| token == beginning));
        }
        assert_eq!(beginning("re"), None);
        // Longer than what is compared as a number, and as long.
        let long = ["antidisestablishment", "antidisestablishing", "antidisestablish"];
        let document = Document::read("", &[], &[], &[long.as_slice(), &long].concat().join(" "));
        let sorted = "antidisestablish b:ant antidisestablishing antidisestablishment";
        assert_eq!(of_document(&document), sorted);
    }

    #[test]
    fn any_time_is_covered_by_few_spans() {
        let spans = |from, to| {
            let times = (Timestamp::from_millis(from), Timestamp::from_millis(to));
            of_spans(AccountType::Agent, 7, times.0, times.1)
        };
        assert_eq!(spans(5, 5), ["in:a7:0:0"]);
        assert_eq!(spans(0, (1 << 27) - 1), ["in:a7:1:0"]);
        assert!(spans(1, 0).is_empty());
        assert_eq!(spans(0, i64::MAX).len(), 64);
        assert_eq!(spans(i64::MIN, i64::MAX).len(), 64);
        assert!(spans(1, END - 1).len() <= 64 + 6 * 31);
    }

    proptest! {
        #[test]
        fn what_lies_within_has_exactly_one_of_the_tokens(
            from in 0..=END, length in 0_i64..1 << 40, at in 0..=END
        ) {
            let to = from.saturating_add(length).min(END);
            let lineage = Lineage::default().with(AccountType::Agent, AccountId::new(7).unwrap());
            let asked = of_spans(
                AccountType::Agent, 7, Timestamp::from_millis(from), Timestamp::from_millis(to));
            prop_assert!(asked.len() <= 64 + 6 * 31);
            let hits = |at: i64| {
                let own = of_place(&lineage, Timestamp::from_millis(at));
                own.iter().filter(|token| asked.contains(token)).count()
            };
            for at in [from, to, from + (to - from) / 2] {
                prop_assert_eq!(hits(at), 1);
            }
            let (first, last) = (from >> 22, to >> 22);
            prop_assert_eq!(hits(at), usize::from((first..=last).contains(&(at >> 22))));
        }
    }
}
