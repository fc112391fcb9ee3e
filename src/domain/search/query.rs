//! Search queries: `invoice "due friday" pref* -draft subject:offer from:boss@good.example`.
//!
//! Terms are separated by spaces, and all of them must hold. A term is a word or a phrase. A text
//! without spaces that has several words (an address, Chinese) is a phrase. Letter case, accents
//! and punctuation do not count. `text:` searches the text of the message, `from:` the sender's
//! name and address.

use std::collections::BTreeSet;

use super::tokens::{BEGINNING, beginning, is_whole, of_word};
use super::words::{Document, Field, Words, words};

/// Longest query in characters; bounds the cost of matching.
pub const LONGEST_QUERY: usize = 256;
/// Most terms of a query.
pub const MAX_TERMS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    terms: Vec<Term>,
}

/// Consecutive words in one field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    without: bool,
    field: Option<Field>,
    words: Vec<String>,
    /// The last word is a prefix.
    open: bool,
}

/// Why a query is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("q has more than {LONGEST_QUERY} characters: shorten it")]
    TooLong,
    #[error("q has more than {MAX_TERMS} terms: leave some out")]
    TooMany,
    #[error("q has an open quote: end the phrase with \"")]
    OpenQuote,
    #[error("q has no word to search for: send at least one letter or digit")]
    Empty,
    #[error("q has only excluded words: add a word to search for")]
    OnlyWithout,
    #[error("q has {0} without a word after it: write {0}word, without a space")]
    LoneField(&'static str),
    #[error(
        "q has a prefix that is too short: a prefix needs at least {BEGINNING} characters before *"
    )]
    ShortBeginning,
    #[error("q has a * without a word before it: write * at the end of a prefix, like invoi*")]
    LoneStar,
}

const FIELDS: [(&str, Field); 3] =
    [("subject:", Field::Subject), ("from:", Field::From), ("text:", Field::Text)];

impl Query {
    /// Parses a query as its user typed it.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        if text.chars().count() > LONGEST_QUERY {
            return Err(QueryError::TooLong);
        }
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (term, after) = Term::read(rest)?;
            terms.extend(term);
            rest = after.trim_start();
        }
        if terms.len() > MAX_TERMS {
            return Err(QueryError::TooMany);
        }
        match terms.iter().any(|term| !term.without) {
            true => Ok(Self { terms }),
            false if terms.is_empty() => Err(QueryError::Empty),
            false => Err(QueryError::OnlyWithout),
        }
    }

    /// Tells whether a message matches.
    pub fn matches(&self, document: &Document) -> bool {
        self.terms.iter().all(|term| term.is_in(document) != term.without)
    }

    /// Returns tokens that every matching message has; at least one.
    pub fn tokens(&self) -> BTreeSet<String> {
        let terms = self.terms.iter().filter(|term| !term.without);
        terms.flat_map(Term::tokens).collect()
    }
}

impl Term {
    /// Parses the first term of a text without leading spaces. Returns None for the term if it is
    /// only punctuation, and the rest of the text.
    fn read(text: &str) -> Result<(Option<Self>, &str), QueryError> {
        let without = text.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        let mut rest = without.unwrap_or(text);
        let mut field = None;
        for (name, known) in FIELDS {
            // Field names are recognised in any case, such as `Subject:`.
            let begins = rest.get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name));
            if begins && field.is_none() {
                field = Some((name, known));
                rest = rest.get(name.len()..).unwrap_or_default();
            }
        }
        let (said, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or(QueryError::OpenQuote)?,
            None => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        let quoted = rest.starts_with('"');
        if quoted && after.starts_with('*') {
            return Err(QueryError::LoneStar);
        }
        let words: Vec<String> = words(said).collect();
        let open = !quoted && said.ends_with('*');
        let Some(last) = words.last() else {
            return match field {
                Some((name, _)) => Err(QueryError::LoneField(name)),
                None if open => Err(QueryError::LoneStar),
                None => Ok((None, after)),
            };
        };
        if open && !is_whole(last) && beginning(last).is_none() {
            return Err(QueryError::ShortBeginning);
        }
        let field = field.map(|(_, field)| field);
        Ok((Some(Self { without: without.is_some(), field, words, open }), after))
    }

    fn is_in(&self, document: &Document) -> bool {
        match self.field {
            Some(field) => self.is_among(document.field(field)),
            None => Field::ALL.into_iter().any(|field| self.is_among(document.field(field))),
        }
    }

    fn is_among(&self, words: &Words) -> bool {
        let Some((last, first)) = self.words.split_last() else { return false };
        (first.len()..words.count()).any(|end| {
            let mut run = words.behind(end - first.len());
            let begins = first.iter().all(|word| run.next() == Some(word));
            let fits = |end: &str| end == last || self.open && end.starts_with(last.as_str());
            begins && run.next().is_some_and(fits)
        })
    }

    fn tokens(&self) -> Vec<String> {
        let (last, first) = match self.words.split_last() {
            Some((last, first)) if self.open && !is_whole(last) => (beginning(last), first),
            _ => (None, self.words.as_slice()),
        };
        first.iter().map(|word| of_word(word, self.field)).chain(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::contact::Handle;
    use crate::domain::message::Received;
    use crate::domain::source::Source;

    fn document(text: &str) -> Document {
        let handle = Handle::Elsewhere { source: Source::Sms, address: "+1555".into() };
        let name = Some("Ann Boss".to_owned());
        Document::of_received(&Received { name, text: text.into(), ..Received::of(handle) })
    }

    #[test]
    fn terms_hold_together_and_phrases_in_order() {
        let document = document("The invoice is due Friday. 東京都 to boss@good.example");
        for query in [
            "invoice",
            "INVOICE due",
            "\"is due\"",
            "inv*",
            "\"due friday\" -draft",
            "due-fri*",
            "boss@good.example",
            "text:boss@good.exa*",
            "from:boss from:+1555",
            "東京",
            "京都 & invoice -",
            "東*",
            "due.",
            "- invoice",
            "text:\"the invoice\"",
            "FROM:\"ann boss\"",
            "--draft invoice",
        ] {
            let parsed = Query::parse(query);
            let expected = !query.contains("--");
            assert_eq!(parsed.map(|query| query.matches(&document)), Ok(expected), "{query}");
        }
        for query in [
            "\"due is\"",
            "京東",
            "invoice -friday",
            "from:invoice",
            "inv",
            "subject:invoice",
            "oic*",
        ] {
            assert!(!Query::parse(query).unwrap().matches(&document), "{query}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (query, error) in [
            ("", QueryError::Empty),
            (" . - & ", QueryError::Empty),
            ("-a -b", QueryError::OnlyWithout),
            ("a \"b", QueryError::OpenQuote),
            ("a \"", QueryError::OpenQuote),
            ("subject: a", QueryError::LoneField("subject:")),
            ("a -from:\"\"", QueryError::LoneField("from:")),
            ("ab*", QueryError::ShortBeginning),
            ("a *", QueryError::LoneStar),
            ("\"a b\"*", QueryError::LoneStar),
            (&"a ".repeat(MAX_TERMS + 1), QueryError::TooMany),
            (&"a".repeat(LONGEST_QUERY + 1), QueryError::TooLong),
        ] {
            assert_eq!(Query::parse(query), Err(error), "{query:?}");
        }
    }

    #[test]
    fn there_is_a_token_of_every_positive_term_and_of_no_other() {
        let tokens = |query: &str| Query::parse(query).unwrap().tokens().into_iter().collect();
        let of = |query: &str| -> Vec<String> { tokens(query) };
        assert_eq!(of("A -b subject:c from:d text:e"), ["a", "e", "f:d", "s:c"]);
        assert_eq!(of("subject:invo*"), ["b:inv"]);
        assert_eq!(of("東*"), ["東"]);
        assert_eq!(of("a:b' OR \"x & y\""), ["a", "b", "or", "x", "y"]);
    }
}
