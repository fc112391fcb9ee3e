//! Contacts: the senders that an organization knows.

use std::fmt;
use std::str::FromStr;

use icu_normalizer::ComposingNormalizerBorrowed;

use super::address::{Address, AddressError};
use super::clock::Timestamp;
use super::id::{AccountId, ContactId};
use super::source::Source;

/// The handle of a contact, in one spelling: its key within an organization. A contact known by
/// mail is never the same as one of another channel. A mailbox is proven; other handles are claims
/// of the platform that submitted the message.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handle {
    Mailbox(Address),
    /// A telephone number or a name, as the platform sent it; the source is never
    /// [`Source::Email`].
    Elsewhere {
        source: Source,
        address: String,
    },
}

/// `local@domain`, or `sms:+15551231234`. A local part never contains a colon, so the two cannot be
/// confused.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mailbox(address) => address.fmt(f),
            Self::Elsewhere { source, address } => write!(f, "{source}:{address}"),
        }
    }
}

/// Reads back a stored handle.
impl FromStr for Handle {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let elsewhere = text.split_once(':').and_then(|(source, address)| {
            let source = source.parse().ok().filter(|source| *source != Source::Email)?;
            Some(Self::Elsewhere { source, address: address.to_owned() })
        });
        elsewhere.map_or_else(|| Address::kept(text).map(Self::Mailbox), Ok)
    }
}

/// Why a text is not a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandleError {
    #[error("is empty")]
    Empty,
    #[error("has more than {LONGEST} bytes: shorten it")]
    TooLong,
    #[error("has invisible characters (control or direction marks): remove them")]
    Unseen,
    #[error("is not an E.164 telephone number: send + and 7 to 15 digits, the first not 0")]
    NoNumber,
    #[error(
        "is a telephone number without + and its country code: send it in E.164, such as +15551231234"
    )]
    NoCountryCode,
}

/// Why nobody can have the handle that is looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskedHandleError {
    #[error(transparent)]
    Mailbox(#[from] AddressError),
    #[error("the sender {0}")]
    Elsewhere(#[from] HandleError),
}

/// In digits.
const LONGEST_SHORT_CODE: usize = 8;

/// Longest handle (without its source) or name, in bytes: longer than any platform's, and a bound
/// for lists.
const LONGEST: usize = 256;

/// Returns one line of text: trimmed, in NFC. Fails if it is empty, too long, or contains invisible
/// characters.
pub fn plain_line(text: &str) -> Result<String, HandleError> {
    let text = ComposingNormalizerBorrowed::new_nfc().normalize(text.trim()).into_owned();
    if text.is_empty() {
        return Err(HandleError::Empty);
    }
    if text.len() > LONGEST {
        return Err(HandleError::TooLong);
    }
    let unseen = |c: char| {
        c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                         | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    if text.chars().any(unseen) { Err(HandleError::Unseen) } else { Ok(text) }
}

/// Like [`plain_line`], but a text that begins with `+` must be a telephone number and is returned
/// in E.164, without separators between the digits. Short codes and names are returned as they are.
pub fn line_or_number(text: &str) -> Result<String, HandleError> {
    let text = plain_line(text)?;
    match text.strip_prefix('+') {
        Some(number) => e164(number).ok_or(HandleError::NoNumber),
        None => Ok(text),
    }
}

/// Like [`line_or_number`] where a number is meant: fails for one without its country code, which
/// would be another contact than the one with it. A short code is up to `LONGEST_SHORT_CODE` digits
/// with nothing between them, the first not 0.
pub fn dialled(text: &str) -> Result<String, HandleError> {
    let text = line_or_number(text)?;
    let digits = digits(&text);
    let is_short_code =
        digits == text && digits.len() <= LONGEST_SHORT_CODE && !digits.starts_with('0');
    if is_digits(&text) && !is_short_code { Err(HandleError::NoCountryCode) } else { Ok(text) }
}

/// Whether a text is digits alone, and what people write between them.
fn is_digits(text: &str) -> bool {
    let digits = digits(text);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

/// A telephone number without what people write between its digits.
fn digits(number: &str) -> String {
    let between = [' ', '-', '.', '(', ')', '/', '\u{a0}'];
    number.chars().filter(|c| !between.contains(c)).collect()
}

/// `1 (555) 123-1234` → `+15551231234`.
fn e164(number: &str) -> Option<String> {
    let digits = digits(number);
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit()) && !digits.starts_with('0');
    (plain && (7..=15).contains(&digits.len())).then(|| format!("+{digits}"))
}

impl Handle {
    /// Parses a handle that somebody looks for, in any spelling: a mailbox, also one that an earlier
    /// version stored, or `sms:` and a number, by the rules for those that platforms hand in.
    pub fn asked(text: &str) -> Result<Self, AskedHandleError> {
        let found = Address::parse(text).map(Self::Mailbox);
        match found.or_else(|error| text.parse().map_err(|_: AddressError| error))? {
            Self::Elsewhere { source, address } => Ok(Self::elsewhere(Some(source), &address)?),
            mailbox @ Self::Mailbox(_) => Ok(mailbox),
        }
    }

    /// Returns the handle of a sender of another channel than mail. Without a source, a telephone
    /// number is taken for SMS, whether it is whole or not; a short code and everything else for
    /// chat.
    pub fn elsewhere(source: Option<Source>, text: &str) -> Result<Self, HandleError> {
        let plain = plain_line(text)?;
        let source = match source {
            Some(source) => source,
            None if plain.strip_prefix('+').is_some_and(is_digits) => Source::Sms,
            None => dialled(&plain).map(|_| Source::Chat).or_else(|error| match error {
                // A name that begins with + is a name.
                HandleError::NoNumber => Ok(Source::Chat),
                error => Err(error),
            })?,
        };
        let address = match source {
            Source::Sms | Source::Call => dialled(&plain)?,
            Source::Chat | Source::Email => plain,
        };
        Ok(Self::Elsewhere { source, address })
    }

    pub const fn source(&self) -> Source {
        match self {
            Self::Mailbox(_) => Source::Email,
            Self::Elsewhere { source, .. } => *source,
        }
    }

    /// The mailbox; None for other channels.
    pub const fn mailbox(&self) -> Option<&Address> {
        match self {
            Self::Mailbox(address) => Some(address),
            Self::Elsewhere { .. } => None,
        }
    }

    /// The handle without its source: `local@domain`, `+15551231234`.
    pub fn address(&self) -> String {
        match self {
            Self::Mailbox(address) => address.to_string(),
            Self::Elsewhere { address, .. } => address.clone(),
        }
    }
}

/// A sender known to an organization. All Agents of the organization share one contact for a
/// handle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub id: ContactId,
    pub organization: AccountId,
    pub handle: Handle,
    /// Display name in the latest accepted message that had one.
    pub name: Option<String>,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

/// Effect of an accepted message on its contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactChange {
    Created,
    Renamed,
    Unchanged,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(source: Option<Source>, text: &str) -> Result<String, HandleError> {
        Handle::elsewhere(source, text).map(|handle| handle.to_string())
    }

    #[test]
    fn a_number_has_one_spelling_and_a_name_is_no_mailbox() {
        for (text, expected) in [
            ("+15551231234", "sms:+15551231234"),
            (" +1 (555) 123-1234 ", "sms:+15551231234"),
            ("anna", "chat:anna"),
            ("boss@good.example", "chat:boss@good.example"),
            ("A\u{30a}nna", "chat:\u{c5}nna"),
            ("+anna", "chat:+anna"),
            ("12345", "chat:12345"),
        ] {
            let found = spelled(None, text).unwrap();
            assert_eq!(found, expected);
            assert_eq!(found.parse::<Handle>().unwrap().to_string(), expected, "read back");
            let mailbox = Handle::Mailbox(Address::parse("boss@good.example").unwrap());
            assert_ne!(found.parse::<Handle>().unwrap(), mailbox);
        }
        assert_eq!(spelled(Some(Source::Call), "+49 89/123456"), Ok("call:+4989123456".into()));
        assert_eq!(spelled(Some(Source::Sms), "12345"), Ok("sms:12345".into()), "a short code");
    }

    #[test]
    fn what_nobody_sees_is_refused() {
        for text in
            ["", " \t ", "a\nb", "a\0", "a\u{202e}b", "a\u{200b}b", "a\u{2066}", "\u{feff}a\u{7}"]
        {
            assert!(spelled(None, text).is_err(), "{text:?}");
        }
        assert_eq!(spelled(None, &"a".repeat(257)), Err(HandleError::TooLong));
        assert_eq!(spelled(None, &"a".repeat(256)).map(|text| text.len()), Ok(261));
        for text in ["+0155512312", "+1", "+1555123123412345", "+1555x231234"] {
            assert_eq!(spelled(Some(Source::Sms), text), Err(HandleError::NoNumber), "{text}");
            let is_a_name = text.contains('x');
            assert_eq!(spelled(None, text).is_ok(), is_a_name, "{text}");
        }
        for text in
            ["5551231234", "(555) 123-1234", "0049 89 123456", "015551231", "555-1234", "03012345"]
        {
            for source in [Some(Source::Sms), Some(Source::Call), None] {
                let refused = spelled(source, text);
                assert_eq!(refused, Err(HandleError::NoCountryCode), "{text}");
            }
            assert_eq!(spelled(Some(Source::Chat), text), Ok(format!("chat:{text}")), "an id");
        }
    }
}
