//! Mailboxes, in the one spelling that is ever compared (contract §2, Policy).

use std::borrow::Cow;
use std::fmt;

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};

use super::domain_name::DomainName;

/// A mailbox: the local part with ASCII letters in lower case, the domain in lower-case A-labels,
/// nothing stripped (no plus tag, no dots). Two mailboxes are equal exactly when these spellings
/// are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    local: String,
    domain: DomainName,
}

/// Why a text is not one mailbox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("an address has exactly one @ between its local part and its domain")]
    NotOneAt,
    #[error(
        "the part before the @ must be 1 to 64 letters, digits or !#$%&'*+-/=?^_`{{|}}~, with single \
         dots between them"
    )]
    Local,
    #[error(transparent)]
    Domain(#[from] super::domain_name::DomainNameError),
}

impl Address {
    /// Parses a bare addr-spec (RFC 5322 §3.4.1): no display name, no angle brackets, no comments,
    /// no white space. A quoted local part is accepted where the quotes change nothing
    /// (`"boss"@good.example` and `"bo\ss"@good.example` are `boss@good.example`: RFC 5321 §4.1.2)
    /// and refused elsewhere. A local part outside ASCII (RFC 6531) is accepted in NFC (RFC 6532
    /// §3.1), kept as written and compared byte by byte, without Unicode folding, so that no
    /// look-alike is ever equal.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::NotOneAt)?;
        let unquoted = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let local = unquoted.map_or(Cow::Borrowed(local), without_pairs);
        if local.contains('@') {
            return Err(AddressError::NotOneAt);
        }
        // Check the lower-case form: some marks compose only with lower-case letters.
        let local = local.to_ascii_lowercase();
        // RFC 5321 §4.5.3.1.1: 64 bytes.
        if local.len() > 64 || !local.split('.').all(is_atom) || !is_composed(&local) {
            return Err(AddressError::Local);
        }
        Ok(Self { local, domain: DomainName::parse(domain)? })
    }

    /// Reads back a stored spelling, made by this version or an earlier one. Does not validate it
    /// again: a rule that has become stricter must not make stored rows unreadable.
    pub fn kept(text: &str) -> Result<Self, AddressError> {
        let (local, domain) = text.rsplit_once('@').ok_or(AddressError::NotOneAt)?;
        if local.is_empty() {
            return Err(AddressError::Local);
        }
        Ok(Self { local: local.to_owned(), domain: DomainName::kept(domain)? })
    }

    pub fn local(&self) -> &str {
        &self.local
    }

    pub fn domain(&self) -> &DomainName {
        &self.domain
    }

    /// Splits `local+tag@domain` at the first plus sign into `local@domain` and the tag
    /// (RFC 5233 calls the tag "detail"). For recipients only: senders are compared whole.
    pub fn without_tag(&self) -> (Self, Option<String>) {
        match self.local.split_once('+') {
            Some((local, tag)) if !local.is_empty() => {
                let bare = Self { local: local.to_owned(), domain: self.domain.clone() };
                (bare, Some(tag.to_owned()))
            }
            _ => (self.clone(), None),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.local, self.domain)
    }
}

/// Returns the content of a quoted string with each quoted pair unescaped (RFC 5321 §4.1.2). A lone
/// backslash at the end is kept; no atom contains one, so the caller refuses it.
fn without_pairs(inside: &str) -> Cow<'_, str> {
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    let mut plain = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    Cow::Owned(plain)
}

/// Tells whether this is one atom of a dot-atom (RFC 5322 §3.2.3). Outside ASCII only letters,
/// digits and their marks are allowed (RFC 6532 §3.1, narrowed): no controls, spaces, formatting,
/// invisible or private characters, so that people see every character that is compared.
fn is_atom(atom: &str) -> bool {
    !atom.is_empty()
        && !atom.starts_with(is_mark)
        && atom.chars().all(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => true,
            _ if c.is_ascii() => "!#$%&'*+-/=?^_`{|}~".contains(c),
            _ => (c.is_alphanumeric() || is_mark(c)) && !is_unseen(c),
        })
}

/// Marks: vowel signs, accents and others that many scripts need.
fn is_mark(c: char) -> bool {
    GeneralCategoryGroup::Mark.contains(CodePointMapData::<GeneralCategory>::new().get(c))
}

/// Letters and marks that are not displayed, such as the Hangul fillers.
fn is_unseen(c: char) -> bool {
    CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

fn is_composed(text: &str) -> bool {
    text.is_ascii() || ComposingNormalizerBorrowed::new_nfc().is_normalized(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_one_mailbox_is_equal() {
        let boss = Address::parse("boss@xn--mnchen-3ya.example").unwrap();
        for text in [
            "BOSS@xn--mnchen-3ya.example",
            "boss@München.example",
            "\"boss\"@münchen.example",
            "\"b\\o\\s\\s\"@münchen.example",
        ] {
            assert_eq!(Address::parse(text).unwrap(), boss, "{text}");
        }
        assert_eq!(boss.to_string(), "boss@xn--mnchen-3ya.example");
    }

    #[test]
    fn different_mailboxes_stay_different() {
        let boss = Address::parse("boss@good.example").unwrap();
        for text in [
            "boss+x@good.example",
            "b.oss@good.example",
            "b\u{43e}ss@good.example",
            "boss@g\u{43e}od.example",
        ] {
            assert_ne!(Address::parse(text).unwrap(), boss, "{text}");
        }
    }

    /// T, H, J, W and Y with these marks have no composed form, but their small letters have.
    #[test]
    fn what_is_kept_can_be_parsed_again() {
        for capital in ["T\u{308}", "H\u{331}", "J\u{30c}", "W\u{30a}", "Y\u{30a}"] {
            assert!(Address::parse(&format!("{capital}@good.example")).is_err(), "{capital}");
        }
        for text in
            ["t\u{308}om@good.example", "\u{212b}@good.example", "boss\u{3164}@good.example"]
        {
            assert!(Address::parse(text).is_err());
            assert_eq!(Address::kept(text).unwrap().to_string(), text);
        }
        for text in ["boss", "@good.example", "boss@"] {
            assert!(Address::kept(text).is_err(), "{text}");
        }
    }

    #[test]
    fn local_parts_of_any_script_are_kept_as_written() {
        for (text, spelling) in [
            ("JÖRG@good.example", "jÖrg@good.example"),
            ("संपर्क@डाटा.example", "संपर्क@xn--c2bd1gb.example"),
            ("ผู้ใช้@good.example", "ผู้ใช้@good.example"),
            ("用户.名@good.example", "用户.名@good.example"),
        ] {
            assert_eq!(Address::parse(text).unwrap().to_string(), spelling);
        }
        assert_ne!(Address::parse("JÖRG@good.example"), Address::parse("jörg@good.example"));
        for local in [
            "jo\u{308}rg",
            "\u{212b}",
            "\u{308}",
            "a.\u{93f}",
            "boss\u{3164}",
            "boss\u{fe0f}",
            "boss\u{34f}",
            "bo\u{200d}ss",
            "boss\u{ad}",
            "bo\u{3000}ss",
            "boss\u{e000}",
            "boss\u{202e}",
            "\u{1f600}",
        ] {
            assert!(Address::parse(&format!("{local}@good.example")).is_err(), "{local:?}");
        }
        let octets = |letters: usize| format!("{}@good.example", "ö".repeat(letters));
        assert!(Address::parse(&octets(32)).is_ok() && Address::parse(&octets(33)).is_err());
    }

    #[test]
    fn what_is_not_one_bare_mailbox_is_refused() {
        for text in [
            "",
            "boss",
            "@good.example",
            "boss@",
            "a@b@good.example",
            "\"a@b\"@good.example",
            " boss@good.example",
            "boss @good.example",
            "boss@good.example.",
            ".boss@good.example",
            "boss.@good.example",
            "b..oss@good.example",
            "<boss@good.example>",
            "Boss <boss@good.example>",
            "boss@good.example,x@y.example",
            "\"boss\\\"@good.example",
            "\"bo\\\\ss\"@good.example",
            "\"bo\\\"ss\"@good.example",
            "\"bo\\@ss\"@good.example",
            "bo\\ss@good.example",
            "\"\\\"@good.example",
            "\"\"boss\"\"@good.example",
            "\"bo\"ss\"@good.example",
            "\"boss \"@good.example",
            "\"\"@good.example",
            "\"boss@good.example",
            "*@good.example\u{200b}",
            "boss\u{200b}@good.example",
            "bo\0ss@good.example",
            "boss(x)@good.example",
            "boss@[127.0.0.1]",
            "@route.example:boss@good.example",
            "=?utf-8?q?boss?=@good.example\n",
        ] {
            assert!(Address::parse(text).is_err(), "{text:?}");
        }
        assert!(Address::parse(&format!("{}@good.example", "a".repeat(65))).is_err());
    }

    #[test]
    fn the_tag_begins_at_the_first_plus() {
        let split = |text| {
            let (bare, tag) = Address::parse(text).unwrap().without_tag();
            (bare.to_string(), tag)
        };
        assert_eq!(split("a+b+c@d.example"), ("a@d.example".into(), Some("b+c".into())));
        assert_eq!(split("a@d.example"), ("a@d.example".into(), None));
        assert_eq!(split("+x@d.example"), ("+x@d.example".into(), None));
        assert_eq!(split("a+@d.example"), ("a@d.example".into(), Some(String::new())));
    }
}
