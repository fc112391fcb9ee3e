//! The strict parser of a From value: exactly one mailbox, or a named error.
//!
//! Strictness is the defence against parser differentials (threats F1, F11): a value in which two
//! readers could see two different mailboxes is refused. The display name is for people and decides
//! nothing. Comments are skipped and never yield an address (RFC 5322 §3.2.2).

use crate::domain::address::{Address, AddressError};
use crate::domain::sender::Sender;

use super::mail_parser_adapter::decode_words;
use super::visible;

/// Why a From value is not exactly one mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MailboxError {
    #[error("From has no mailbox")]
    Missing,
    #[error("From has more than one mailbox, or an unquoted comma")]
    Several,
    #[error("From has a group, a route, or an unquoted colon or semicolon")]
    GroupOrRoute,
    #[error("From has an unclosed quotation, comment or angle bracket")]
    Unclosed,
    #[error("From has more than one angle-bracketed address")]
    Brackets,
    #[error("From has text after the angle-bracketed address")]
    Trailing,
    #[error("From has a second address or special characters in its unquoted display name")]
    Phrase,
    #[error("the From address contains an encoded word")]
    EncodedWord,
    #[error("the From address is not UTF-8")]
    NotUtf8,
    #[error("the From address is not one local part and one domain joined by one @")]
    NotOneAt,
    #[error("the local part of the From address is not plain")]
    Local,
    #[error("the domain of the From address is not a host name")]
    Domain,
}

impl From<AddressError> for MailboxError {
    fn from(error: AddressError) -> Self {
        match error {
            AddressError::NotOneAt => Self::NotOneAt,
            AddressError::Local => Self::Local,
            AddressError::Domain(_) => Self::Domain,
        }
    }
}

/// The one mailbox of a From value.
#[derive(Debug)]
pub(super) struct Mailbox {
    pub(super) sender: Sender,
    /// The address as written contains characters outside ASCII (RFC 6531).
    pub(super) is_international: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Space,
    Comment,
    /// Includes its quotation marks.
    Quoted(&'a [u8]),
    /// A run without white space and specials; dots are allowed (obs-phrase, dot-atom).
    Word(&'a [u8]),
    Special(u8),
}

/// Parses a From value as received, folding included. The display name keeps at most `max_name`
/// bytes. Takes linear time.
pub(super) fn parse(value: &[u8], max_name: usize) -> Result<Mailbox, MailboxError> {
    let tokens = tokens(value)?;
    refuse_lists(&tokens)?;
    let is_open = |token: &&Token<'_>| **token == Token::Special(b'<');
    let Some(open) = tokens.iter().position(|token| *token == Token::Special(b'<')) else {
        let (address, is_international) = address(&tokens)?;
        return Ok(Mailbox { sender: Sender { address, name: None }, is_international });
    };
    let close = tokens
        .iter()
        .position(|token| *token == Token::Special(b'>'))
        .ok_or(MailboxError::Unclosed)?;
    if tokens.iter().filter(is_open).count() > 1 || close < open {
        return Err(MailboxError::Brackets);
    }
    let phrase = tokens.get(..open).unwrap_or_default();
    let inside = tokens.get(open + 1..close).unwrap_or_default();
    let after = tokens.get(close + 1..).unwrap_or_default();
    if after.contains(&Token::Special(b'>')) {
        return Err(MailboxError::Brackets);
    }
    if !after.iter().all(is_gap) {
        return Err(MailboxError::Trailing);
    }
    if inside.contains(&Token::Comment) {
        return Err(MailboxError::Local);
    }
    let (address, is_international) = address(inside)?;
    let name = display_name(phrase, &address, max_name)?;
    Ok(Mailbox { sender: Sender { address, name }, is_international })
}

const fn is_gap(token: &Token<'_>) -> bool {
    matches!(token, Token::Space | Token::Comment)
}

fn refuse_lists(tokens: &[Token<'_>]) -> Result<(), MailboxError> {
    if tokens.iter().all(is_gap) {
        return Err(MailboxError::Missing);
    }
    for token in tokens {
        match token {
            Token::Special(b',') => return Err(MailboxError::Several),
            Token::Special(b':' | b';') => return Err(MailboxError::GroupOrRoute),
            _ => {}
        }
    }
    Ok(())
}

/// Parses exactly `local "@" domain`, with gaps around it but none inside.
fn address(tokens: &[Token<'_>]) -> Result<(Address, bool), MailboxError> {
    let first = tokens.iter().position(|token| !is_gap(token)).ok_or(MailboxError::Missing)?;
    let last = tokens.iter().rposition(|token| !is_gap(token)).unwrap_or(first);
    let Some(
        &[Token::Word(local) | Token::Quoted(local), Token::Special(b'@'), Token::Word(domain)],
    ) = tokens.get(first..=last)
    else {
        return Err(MailboxError::NotOneAt);
    };
    let text = [local, b"@", domain].concat();
    if text.windows(2).any(|pair| pair == b"=?") {
        return Err(MailboxError::EncodedWord);
    }
    let text = str::from_utf8(&text).map_err(|_| MailboxError::NotUtf8)?;
    Ok((Address::parse(text)?, !text.is_ascii()))
}

/// Decodes the display name. An `@` outside quotation marks is refused, because readers disagree
/// about which address counts. The exception is a phrase that repeats the address that follows
/// (`a@b.example <a@b.example>`), which real senders write.
fn display_name(
    phrase: &[Token<'_>],
    address_in_brackets: &Address,
    max: usize,
) -> Result<Option<String>, MailboxError> {
    let mut text: Vec<u8> = Vec::new();
    for token in phrase {
        match *token {
            // White space on both sides of a comment is one gap.
            Token::Space | Token::Comment if text.ends_with(b" ") => {}
            Token::Space | Token::Comment => text.push(b' '),
            Token::Word(word) => text.extend_from_slice(word),
            Token::Quoted(quoted) => text.extend(unquote(quoted)),
            Token::Special(bracket @ (b'[' | b']')) => text.push(bracket),
            Token::Special(b'@') if repeats(phrase, address_in_brackets) => text.push(b'@'),
            Token::Special(_) => return Err(MailboxError::Phrase),
        }
    }
    Ok(visible::name(&decode_words(&text), max))
}

fn repeats(phrase: &[Token<'_>], address_in_brackets: &Address) -> bool {
    !phrase.contains(&Token::Comment)
        && address(phrase).is_ok_and(|(address, _)| address == *address_in_brackets)
}

/// Returns the content of a quoted string (RFC 5322 §3.2.4), unfolded.
fn unquote(quoted: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let inside = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let mut escaped = false;
    inside.iter().copied().filter(move |byte| {
        let keep = escaped || !matches!(byte, b'\\' | b'\r' | b'\n');
        escaped = !escaped && *byte == b'\\';
        keep
    })
}

fn tokens(value: &[u8]) -> Result<Vec<Token<'_>>, MailboxError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        let rest = value.get(at..).unwrap_or_default();
        let (token, length) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                (Token::Space, run(rest, |b| matches!(b, b' ' | b'\t' | b'\r' | b'\n')))
            }
            b'"' => {
                let length = quoted(rest)?;
                (Token::Quoted(rest.get(..length).unwrap_or_default()), length)
            }
            b'(' => (Token::Comment, comment(rest)?),
            _ if is_special(byte) => (Token::Special(byte), 1),
            _ => {
                let is_word = |b: u8| !is_special(b) && !b.is_ascii_whitespace();
                let length = encoded_word(rest).unwrap_or_else(|| run(rest, is_word));
                (Token::Word(rest.get(..length).unwrap_or_default()), length)
            }
        };
        tokens.push(token);
        at += length.max(1);
    }
    Ok(tokens)
}

/// The specials of RFC 5322 §3.2.3 except the dot.
const fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'(' | b')' | b'<' | b'>' | b'[' | b']' | b':' | b';' | b'@' | b'\\' | b',' | b'"'
    )
}

fn run(bytes: &[u8], belongs: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|byte| !belongs(*byte)).unwrap_or(bytes.len())
}

/// Returns the length of the encoded word (RFC 2047 §2) at the start of `bytes`. Commas and colons
/// are allowed in it: many senders write them, against §5 (3). Brackets, quotation marks and `@`
/// are not, because a reader without encoded words would see an address in them.
fn encoded_word(bytes: &[u8]) -> Option<usize> {
    let inside = bytes.strip_prefix(b"=?")?;
    let is_harmless =
        |b: u8| !b.is_ascii_whitespace() && (!is_special(b) || matches!(b, b',' | b':' | b';'));
    let word = inside.get(..run(inside, is_harmless))?;
    let marks = word.iter().filter(|byte| **byte == b'?').count();
    (marks == 3 && word.ends_with(b"?=")).then_some(word.len() + 2)
}

/// Returns the length of the quoted string at the start of `bytes`.
fn quoted(bytes: &[u8]) -> Result<usize, MailboxError> {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Ok(at + 1),
            _ => {}
        }
    }
    Err(MailboxError::Unclosed)
}

/// Returns the length of the comment at the start of `bytes`; comments nest.
fn comment(bytes: &[u8]) -> Result<usize, MailboxError> {
    let (mut depth, mut escaped) = (0_usize, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'(' => depth += 1,
            b')' if depth == 1 => return Ok(at + 1),
            b')' => depth -= 1,
            _ => {}
        }
    }
    Err(MailboxError::Unclosed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<(String, Option<String>), MailboxError> {
        let mailbox = parse(value.as_bytes(), 1000)?;
        Ok((mailbox.sender.address.to_string(), mailbox.sender.name))
    }

    #[test]
    fn one_mailbox_in_every_honest_spelling() {
        for (value, address, name) in [
            (" boss@good.example", "boss@good.example", None),
            ("boss@good.example", "boss@good.example", None),
            (" <boss@good.example>", "boss@good.example", None),
            (" < boss@good.example >", "boss@good.example", None),
            (" BOSS@GOOD.EXAMPLE", "boss@good.example", None),
            (" The Boss <boss@good.example>", "boss@good.example", Some("The Boss")),
            (" John Q. Public <boss@good.example>", "boss@good.example", Some("John Q. Public")),
            (" \"Doe, \\\"J\\\"\" <boss@good.example>", "boss@good.example", Some("Doe, \"J\"")),
            (" [Team] A <boss@good.example>", "boss@good.example", Some("[Team] A")),
            (" =?utf-8?q?B=C3=B6ss?= <boss@good.example>", "boss@good.example", Some("Böss")),
            (" \"=?utf-8?q?B=C3=B6ss?=\" <boss@good.example>", "boss@good.example", Some("Böss")),
            (" =?utf-8?q?D,_J:;?= <boss@good.example>", "boss@good.example", Some("D, J:;")),
            (" Böss <boss@good.example>", "boss@good.example", Some("Böss")),
            (" Boss\r\n <boss@good.example>", "boss@good.example", Some("Boss")),
            ("\r\n boss@good.example", "boss@good.example", None),
            (" (boss@good.example) x@evil.example", "x@evil.example", None),
            (" boss@good.example (x@evil.example)", "boss@good.example", None),
            (" B (c \\) (d)) <boss@good.example> (e)", "boss@good.example", Some("B")),
            (" (a) B (c) C <boss@good.example>", "boss@good.example", Some("B C")),
            (
                " \"boss@good.example\" <x@evil.example>",
                "x@evil.example",
                Some("boss@good.example"),
            ),
            (" a@b.example <A@B.example>", "a@b.example", Some("a@b.example")),
            (" \"boss\"@good.example", "boss@good.example", None),
            (" \"bo\\ss\"@good.example", "boss@good.example", None),
            (" boss@münchen.example", "boss@xn--mnchen-3ya.example", None),
            (" boss+x@good.example", "boss+x@good.example", None),
        ] {
            let expected = (address.to_owned(), name.map(ToOwned::to_owned));
            assert_eq!(read(value), Ok(expected), "{value:?}");
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        use MailboxError as E;
        for (value, expected) in [
            ("", E::Missing),
            (" \r\n ", E::Missing),
            (" (boss@good.example)", E::Missing),
            (" Boss", E::NotOneAt),
            (" Boss <>", E::Missing),
            (" a@good.example, b@good.example", E::Several),
            (" Doe, John <boss@good.example>", E::Several),
            (" <a@good.example>, <b@evil.example>", E::Several),
            (" group: boss@good.example;", E::GroupOrRoute),
            (" undisclosed:;", E::GroupOrRoute),
            (" <@route.example:boss@good.example>", E::GroupOrRoute),
            (" <@a.example,@b.example:boss@good.example>", E::Several),
            (" <<boss@good.example>>", E::Brackets),
            (" <a@good.example> <b@evil.example>", E::Brackets),
            (" <a@good.example><b@evil.example>", E::Brackets),
            (" <a@good.example>>", E::Brackets),
            (" >a@good.example<", E::Brackets),
            (" <boss@good.example", E::Unclosed),
            (" boss@good.example>", E::NotOneAt),
            (" \"Boss <boss@good.example>", E::Unclosed),
            (" (Boss <boss@good.example>", E::Unclosed),
            (" <x@good.example>boss@good.example", E::Trailing),
            (" <x@good.example> boss", E::Trailing),
            (" <x@good.example> \"b\"", E::Trailing),
            (" boss@good.example <x@evil.example>", E::Phrase),
            (" a\\b <x@evil.example>", E::Phrase),
            (" a) <x@evil.example>", E::Phrase),
            (" a@b.example (c) <a@b.example>", E::Phrase),
            (" <boss(x)@good.example>", E::Local),
            (" boss(x)@good.example", E::NotOneAt),
            (" boss @good.example", E::NotOneAt),
            (" boss@ good.example", E::NotOneAt),
            (" boss@good.example x@evil.example", E::NotOneAt),
            (" boss@good.example@evil.example", E::NotOneAt),
            (" bo\r\n ss@good.example", E::NotOneAt),
            (" \"bo\\\\ss\"@good.example", E::Local),
            (" \"boss \"@good.example", E::Local),
            (" \"\"@good.example", E::Local),
            (" \"a\"b@good.example", E::NotOneAt),
            (" @good.example", E::NotOneAt),
            (" boss@", E::NotOneAt),
            (" boss@[127.0.0.1]", E::NotOneAt),
            (" boss@good.example.", E::Domain),
            (" boss@good\u{ff0e}example", E::Domain),
            (" boss@good_host.example", E::Domain),
            (" boss\u{200b}@good.example", E::Local),
            (" =?utf-8?q?boss?=@good.example", E::EncodedWord),
            (" =?utf-8?q?a@good.example,?= <x@evil.example>", E::Several),
            (" =?utf-8?q?a,b <x@evil.example>", E::Several),
            (" =?utf-8?q?a?=,b <x@evil.example>", E::Several),
            (" a=?utf-8?q?b,c?= <x@evil.example>", E::Several),
            (" <=?utf-8?q?boss=40good.example?=>", E::NotOneAt),
            (" =?utf-8?q?<boss@good.example>?= <x@evil.example>", E::Brackets),
        ] {
            assert_eq!(read(value).unwrap_err(), expected, "{value:?}");
        }
        assert_eq!(parse(b" b\xffss@good.example", 9).unwrap_err(), E::NotUtf8);
    }

    #[test]
    fn a_name_is_text_only() {
        let name = |value: &[u8]| parse(value, 20).unwrap().sender.name;
        let hidden = name(b" =?utf-8?q?boss=0D=0ABcc=3A_x=00=E2=80=AE?= <x@evil.example>");
        assert_eq!(hidden.as_deref(), Some("boss Bcc: x"));
        assert_eq!(name(b" B\xffss <x@evil.example>").as_deref(), Some("B\u{fffd}ss"));
        assert_eq!(name(b" \"\" <x@evil.example>"), None);
        let long = format!("{} <x@evil.example>", "a".repeat(100));
        assert_eq!(name(long.as_bytes()).unwrap().len(), 20);
    }

    #[test]
    fn deep_comments_take_no_stack() {
        let deep = format!("{}{} x@evil.example", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(read(&deep).unwrap().0, "x@evil.example");
    }
}
