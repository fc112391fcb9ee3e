//! The words of a text, folded, and the words of a message by field.
//!
//! Folding: NFKC, lower case, no accents on Latin, Greek and Cyrillic letters (combining marks
//! U+0300 to U+036F), `ß` as `ss`, `ς` as `σ`, no invisible characters (soft hyphens, joiners). A
//! word is a run of letters, digits and marks. Han, Hiragana, Katakana, Hangul and Thai have few or
//! no spaces: there each character is a word, and a run of them in a query is a phrase.

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use icu_properties::props::{
    DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup, Script,
};
use icu_properties::{CodePointMapData, CodePointSetData};

use crate::domain::message::{Content, Mail, Received};

/// Significant characters of a word, in texts and queries; the rest is ignored. Bounds the index
/// cost of one word.
pub const LONGEST_WORD: usize = 64;
/// Most searchable words of one message, in the order of [`Field`]; bounds the index cost of
/// hostile text. Not configurable, like [`MAX_OCTETS`], because stored tokens depend on it.
pub const MAX_WORDS: usize = 16_000;
/// Most bytes of these words together: a tsvector is limited to one mebibyte.
pub const MAX_OCTETS: usize = 400_000;

/// Scripts in which each character is a word.
const ALONE: &[Script] =
    &[Script::Han, Script::Hiragana, Script::Katakana, Script::Hangul, Script::Thai];

/// The field of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    Subject,
    /// The sender's name and address.
    From,
    /// Names of the listed attachments.
    Names,
    Text,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    subject: Words,
    from: Words,
    names: Words,
    text: Words,
}

/// Folded words in order, in one string: a search reads the words of hundreds of messages per page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    all: String,
    /// The end of each word in `all`.
    ends: Vec<usize>,
}

/// Words and bytes that a document may still take.
struct WordLimits {
    words: usize,
    octets: usize,
}

impl Document {
    /// The words of a stored message.
    pub fn of(content: &Content) -> Self {
        match content {
            Content::Mail(mailed) => Self::of_mail(&mailed.mail),
            Content::Received(received) => Self::of_received(received),
        }
    }

    pub fn of_mail(mail: &Mail) -> Self {
        let address = mail.from.address.to_string();
        let from = [mail.from.name.as_deref().unwrap_or_default(), &address];
        let listed = mail.attachments.iter().filter(|part| part.listed);
        let names: Vec<&str> = listed.map(|part| part.filename.as_str()).collect();
        Self::read(mail.subject.as_deref().unwrap_or_default(), &from, &names, &mail.text)
    }

    /// The words of a message that a platform submitted.
    pub fn of_received(received: &Received) -> Self {
        let address = received.handle.address();
        let from = [received.name.as_deref().unwrap_or_default(), &address];
        Self::read("", &from, &[], &received.text)
    }

    pub(super) fn read(subject: &str, from: &[&str], names: &[&str], text: &str) -> Self {
        let mut left = WordLimits { words: MAX_WORDS, octets: MAX_OCTETS };
        let mut take = |texts: &[&str]| {
            let mut found = Words::default();
            texts.iter().for_each(|text| found.add(text, &mut left));
            found
        };
        let (subject, from, names) = (take(&[subject]), take(from), take(names));
        Self { subject, from, names, text: take(&[text]) }
    }

    pub const fn field(&self, field: Field) -> &Words {
        match field {
            Field::Subject => &self.subject,
            Field::From => &self.from,
            Field::Names => &self.names,
            Field::Text => &self.text,
        }
    }
}

impl Words {
    pub const fn count(&self) -> usize {
        self.ends.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.behind(0)
    }

    /// Returns the words after the first `skipped` ones.
    pub fn behind(&self, skipped: usize) -> impl Iterator<Item = &str> {
        let begin = skipped.checked_sub(1).and_then(|last| self.ends.get(last)).copied();
        let mut begin = begin.unwrap_or(0);
        self.ends.iter().skip(skipped).filter_map(move |end| {
            let word = self.all.get(begin..*end);
            begin = *end;
            word
        })
    }

    /// Adds the words of a text until the limits are reached.
    fn add(&mut self, text: &str, left: &mut WordLimits) {
        if text.is_ascii() {
            for word in ascii_words(text) {
                let begin = self.all.len();
                if !self.push(word, left) {
                    return;
                }
                self.all.get_mut(begin..).unwrap_or_default().make_ascii_lowercase();
            }
            return;
        }
        let _cut_off = all_words(text).all(|word| self.push(&word, left));
    }

    /// Returns false if the limits are reached.
    fn push(&mut self, word: &str, left: &mut WordLimits) -> bool {
        let rest = left.words.checked_sub(1).zip(left.octets.checked_sub(word.len()));
        // The first word that does not fit ends the list; no shorter one may follow.
        (left.words, left.octets) = rest.unwrap_or((0, 0));
        if rest.is_some() {
            self.all.push_str(word);
            self.ends.push(self.all.len());
        }
        rest.is_some()
    }
}

impl Field {
    /// All fields, in the order in which they use up the limits.
    pub const ALL: [Self; 4] = [Self::Subject, Self::From, Self::Names, Self::Text];
}

/// Returns the folded words of a text in order.
pub fn words(text: &str) -> Box<dyn Iterator<Item = String> + '_> {
    match text.is_ascii() {
        true => Box::new(ascii_words(text).map(str::to_ascii_lowercase)),
        false => Box::new(all_words(text)),
    }
}

/// Fast path for ASCII texts. Returns the words before folding: only their case is left to fold.
fn ascii_words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| word.get(..LONGEST_WORD).unwrap_or(word))
}

fn all_words(text: &str) -> impl Iterator<Item = String> {
    let mut folded = folded(text).peekable();
    std::iter::from_fn(move || {
        let mut word = String::new();
        let mut length = 0;
        while let Some(c) = folded.peek().copied() {
            match kind(c) {
                Kind::Between if length == 0 => {}
                Kind::Between => break,
                Kind::Alone if length > 0 => break,
                Kind::Alone => {
                    folded.next();
                    return Some(c.into());
                }
                Kind::Part => {
                    length += 1;
                    if length <= LONGEST_WORD {
                        word.push(c);
                    }
                }
            }
            folded.next();
        }
        (length > 0).then_some(word)
    })
}

/// Tells whether the character is a word by itself.
pub fn is_alone(c: char) -> bool {
    matches!(kind(c), Kind::Alone)
}

fn folded(text: &str) -> impl Iterator<Item = char> {
    let small = DecomposingNormalizerBorrowed::new_nfkd()
        .normalize_iter(text.chars())
        .flat_map(char::to_lowercase)
        .filter(|c| !('\u{300}'..='\u{36f}').contains(c) && !is_invisible(*c))
        .flat_map(|c| match c {
            'ß' => ['s'].into_iter().chain(Some('s')),
            'ς' => ['σ'].into_iter().chain(None),
            other => [other].into_iter().chain(None),
        });
    ComposingNormalizerBorrowed::new_nfc().normalize_iter(small)
}

fn is_invisible(c: char) -> bool {
    !c.is_ascii() && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

enum Kind {
    Between,
    Part,
    Alone,
}

fn kind(c: char) -> Kind {
    if c.is_ascii() {
        return if c.is_ascii_alphanumeric() { Kind::Part } else { Kind::Between };
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(c);
    if !c.is_alphanumeric() && !GeneralCategoryGroup::Mark.contains(category) {
        return Kind::Between;
    }
    let script = CodePointMapData::<Script>::new().get(c);
    if ALONE.contains(&script) { Kind::Alone } else { Kind::Part }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        words(text).collect()
    }

    #[test]
    fn ascii_is_cut_into_words_as_all_text_is() {
        for c in 0..=127 {
            let c = char::from(c);
            let text = format!("{c}A{c}{c}b1{c}{}{c}", "xY".repeat(LONGEST_WORD));
            let (fast, slow) = (words(&text), all_words(&text));
            assert_eq!(fast.collect::<Vec<_>>(), slow.collect::<Vec<_>>(), "{c:?}");
        }
    }

    #[test]
    fn words_are_runs_of_letters_digits_and_marks() {
        for (text, expected) in [
            ("", vec![]),
            (" -- ... ", vec![]),
            ("Hello, World!", vec!["hello", "world"]),
            ("boss@good.example", vec!["boss", "good", "example"]),
            ("don't_do 1,234.50", vec!["don", "t", "do", "1", "234", "50"]),
            ("Straße STRASSE ẞ", vec!["strasse", "strasse", "ss"]),
            ("Ångström e\u{301}té ﬁn İ", vec!["angstrom", "ete", "fin", "i"]),
            ("ΟΔΟΣ οδός", vec!["οδοσ", "οδοσ"]),
            ("Ёлка й", vec!["елка", "и"]),
            ("in\u{ad}vo\u{200b}ice", vec!["invoice"]),
            ("東京都 x", vec!["東", "京", "都", "x"]),
            ("abc東が", vec!["abc", "東", "が"]),
            ("한국 ไทย", vec!["한", "국", "ไ", "ท", "ย"]),
            ("हिन्दी", vec!["हिन्दी"]),
            ("ﾊﾝｶｸ", vec!["ハ", "ン", "カ", "ク"]),
            ("a\0b", vec!["a", "b"]),
        ] {
            assert_eq!(of(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_long_word_is_cut_and_no_text_has_more_words_than_are_counted() {
        let long = "x".repeat(LONGEST_WORD + 9);
        assert_eq!(of(&format!("{long} y")), [&long[..LONGEST_WORD], "y"]);
        let document = Document::read("subject", &["from"], &[], &"a ".repeat(MAX_WORDS));
        assert_eq!(document.field(Field::Text).count(), MAX_WORDS - 2);
        assert_eq!(document.field(Field::Text).behind(MAX_WORDS - 3).collect::<Vec<_>>(), ["a"]);
        let wide = "😀𝕏".repeat(9) + &"𐍈".repeat(LONGEST_WORD);
        let document = Document::read("", &[], &[], &format!("{wide} ").repeat(MAX_WORDS));
        let octets: usize = document.field(Field::Text).iter().map(str::len).sum();
        assert!(octets <= MAX_OCTETS && octets > MAX_OCTETS - 1000, "{octets}");
    }
}
