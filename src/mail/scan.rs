//! The strict scanner of the header section. It runs before any library sees the bytes.
//!
//! mail-auth and mail-parser treat lines that are no fields differently, and a sender could exploit
//! the difference (threats F1, F2). So every line must be a field or its continuation, else the
//! message is refused (threats G2–G4; contract §2, Authentication). Only the first
//! `max_header_bytes` are read, each byte a bounded number of times.

use crate::domain::address::Address;
use crate::domain::reason::Reason;
use crate::domain::sender::Sender;
use crate::rules::IntakeLimits;

use super::fields::KnownField;
use super::mailbox::{self, MailboxError};

/// Fields that may occur at most once: RFC 5322 §3.6, and those of RFC 2045 that decide how the
/// body is read.
pub const SINGLE_FIELDS: &[KnownField] = &[
    KnownField::Date,
    KnownField::From,
    KnownField::Sender,
    KnownField::ReplyTo,
    KnownField::To,
    KnownField::Cc,
    KnownField::Bcc,
    KnownField::MessageId,
    KnownField::InReplyTo,
    KnownField::References,
    KnownField::Subject,
    KnownField::MimeVersion,
    KnownField::ContentType,
    KnownField::ContentTransferEncoding,
];

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {detail}")]
pub struct Fault {
    /// `Malformed`, `SenderInvalid` or `LoopDetected`.
    pub reason: Reason,
    /// Plain words for an SMTP reply: one line of ASCII.
    pub detail: String,
    /// The mailbox in From, if exactly one could be read; not proven.
    pub from: Option<Address>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// As written; compare without case.
    pub name: &'a [u8],
    /// Everything after the colon, folding included, without the final CRLF.
    pub value: &'a [u8],
}

/// A valid header section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    /// In the order of the message.
    pub fields: Vec<Field<'a>>,
    /// Offset of the body; the length of the message if there is none.
    pub body_at: usize,
    /// The one mailbox of the one From field; unproven until a signature is verified.
    pub from: Sender,
    pub received: usize,
    /// The From address contains characters outside ASCII, which only an SMTPUTF8 transaction may
    /// carry.
    pub needs_smtputf8: bool,
}

impl<'a> Headers<'a> {
    /// Returns the value of the first field with this name.
    pub fn first(&self, name: KnownField) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// Returns the values of all fields with this name, in the order of the message.
    pub fn all<'s>(&'s self, name: KnownField) -> impl Iterator<Item = &'a [u8]> + 's {
        values(&self.fields, name)
    }

    /// Refuses an address outside ASCII without SMTPUTF8 (RFC 6531 §3.4). Callers pass the
    /// envelope's parameter.
    pub fn permit(&self, smtputf8: bool) -> Result<(), Fault> {
        if self.needs_smtputf8 && !smtputf8 {
            return Err(Fault {
                reason: Reason::SenderInvalid,
                detail: "the From address is not ASCII and SMTPUTF8 was not asked for".to_owned(),
                from: Some(self.from.address.clone()),
            });
        }
        Ok(())
    }
}

/// Splits the header section into its fields and finds the one From mailbox.
///
/// # Errors
/// In this order: `Malformed` if the section breaks the format or a limit, `LoopDetected` for too
/// many Received fields, `SenderInvalid` for a repeated single field or a From that is not exactly
/// one mailbox.
pub fn scan<'a>(raw: &'a [u8], limits: &IntakeLimits) -> Result<Headers<'a>, Fault> {
    let mut fields = Vec::new();
    let fault = |reason, detail, fields: &[Field<'_>]| Fault {
        reason,
        detail,
        from: readable_from(fields, limits),
    };
    let body_at = match split(raw, limits, &mut fields) {
        Ok(body_at) => body_at,
        Err(error) => return Err(fault(Reason::Malformed, error.to_string(), &fields)),
    };
    let received = values(&fields, KnownField::Received).count();
    if received > limits.max_received_fields {
        let detail = format!(
            "the message has {received} Received fields, more than {}",
            limits.max_received_fields
        );
        return Err(fault(Reason::LoopDetected, detail, &fields));
    }
    if let Some(name) =
        SINGLE_FIELDS.iter().copied().find(|name| values(&fields, *name).count() > 1)
    {
        let detail = format!("the message has more than one {} field", name.as_str());
        return Err(fault(Reason::SenderInvalid, detail, &fields));
    }
    let Some(value) = values(&fields, KnownField::From).next() else {
        let detail = "the message has no From field".to_owned();
        return Err(fault(Reason::SenderInvalid, detail, &fields));
    };
    match mailbox::parse(value, limits.max_shown_bytes) {
        Ok(mailbox) => Ok(Headers {
            fields,
            body_at,
            from: mailbox.sender,
            received,
            needs_smtputf8: mailbox.is_international,
        }),
        Err(error) => Err(fault(Reason::SenderInvalid, error.to_string(), &fields)),
    }
}

/// Returns the header section as received, at most `max` bytes, for the record; also for a message
/// whose scan failed. It stops at the first line that is neither a field nor a continuation, with
/// any line ends, because the body may begin there and a record never keeps the body (contract
/// §2.3).
pub fn section(raw: &[u8], max: usize) -> &[u8] {
    let window = raw.get(..max).unwrap_or(raw);
    let mut at = 0;
    for line in window.split_inclusive(|byte| matches!(byte, b'\r' | b'\n')) {
        let before = window.get(..at).unwrap_or_default();
        let ends_crlf = line == b"\n" && before.ends_with(b"\r");
        let folds = matches!(line.first(), Some(b' ' | b'\t')) && !line.trim_ascii().is_empty();
        if !(ends_crlf || (folds && at > 0) || resembles_field(line)) {
            return before;
        }
        at += line.len();
    }
    window
}

/// Also accepts white space before the colon: such a line is evidence of an attempt.
fn resembles_field(line: &[u8]) -> bool {
    let colon = line.iter().position(|byte| *byte == b':');
    let name = colon.and_then(|colon| line.get(..colon)).unwrap_or_default().trim_ascii_end();
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

fn values<'a: 's, 's>(
    fields: &'s [Field<'a>],
    name: KnownField,
) -> impl Iterator<Item = &'a [u8]> + 's {
    fields.iter().filter(move |field| name.names(field.name)).map(|field| field.value)
}

/// Returns the From address for records of refused mail: the one that all From fields have, empty
/// ones aside. None if they differ, or one cannot be read.
fn readable_from(fields: &[Field<'_>], limits: &IntakeLimits) -> Option<Address> {
    let mut found = None;
    for value in values(fields, KnownField::From) {
        let address = match mailbox::parse(value, limits.max_shown_bytes) {
            Ok(mailbox) => mailbox.sender.address,
            Err(MailboxError::Missing) => continue,
            Err(_) => return None,
        };
        match &found {
            Some(earlier) if *earlier != address => return None,
            _ => found = Some(address),
        }
    }
    found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum SectionError {
    #[error("the header section is longer than {0} bytes")]
    TooLong(usize),
    #[error("the header section has more than {0} fields")]
    TooMany(usize),
    #[error("header line {0} contains a bare CR, a bare LF or a NUL")]
    BareLineEnd(usize),
    #[error("header line {0} contains a control character")]
    Control(usize),
    #[error("the last header line has no line end")]
    Unended,
    #[error("the message begins with a continuation line")]
    FirstContinues,
    #[error("header line {0} is blank but does not end the header section")]
    Blank(usize),
    #[error("header line {0} is not a field: expected a name and a colon")]
    NoField(usize),
}

/// Collects the fields and returns the offset of the body. On error, `fields` has those before it.
fn split<'a>(
    raw: &'a [u8],
    limits: &IntakeLimits,
    fields: &mut Vec<Field<'a>>,
) -> Result<usize, SectionError> {
    let window = raw.get(..limits.max_header_bytes).unwrap_or(raw);
    let is_cut = window.len() < raw.len();
    let (mut at, mut value_at) = (0, 0);
    for number in 1.. {
        let rest = window.get(at..).unwrap_or_default();
        if rest.is_empty() && !is_cut {
            break;
        }
        let line = match line(rest, number) {
            Err(SectionError::Unended) if is_cut => {
                return Err(SectionError::TooLong(limits.max_header_bytes));
            }
            line => line?,
        };
        let end = at + line.len();
        match line.first() {
            None => return Ok(end + 2),
            Some(b' ' | b'\t') => {
                let field = fields.last_mut().ok_or(SectionError::FirstContinues)?;
                // Some readers end the section at a blank line that RFC 5322 §2.2.3 calls folding.
                if line.iter().all(|byte| matches!(byte, b' ' | b'\t')) {
                    return Err(SectionError::Blank(number));
                }
                field.value = raw.get(value_at..end).unwrap_or_default();
            }
            Some(_) => {
                let colon = name_length(line).ok_or(SectionError::NoField(number))?;
                if fields.len() == limits.max_header_fields {
                    return Err(SectionError::TooMany(limits.max_header_fields));
                }
                value_at = at + colon + 1;
                let name = line.get(..colon).unwrap_or_default();
                let value = raw.get(value_at..end).unwrap_or_default();
                fields.push(Field { name, value });
            }
        }
        at = end + 2;
    }
    Ok(at)
}

/// Returns the first line without its CRLF. Fails if it contains a control character.
fn line(bytes: &[u8], number: usize) -> Result<&[u8], SectionError> {
    let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    let end = bytes.iter().position(is_control).ok_or(SectionError::Unended)?;
    match bytes.get(end..) {
        Some([b'\r', b'\n', ..]) => Ok(bytes.get(..end).unwrap_or_default()),
        // The LF may be outside the window, or missing.
        Some([b'\r']) => Err(SectionError::Unended),
        Some([b'\r' | b'\n' | 0, ..]) => Err(SectionError::BareLineEnd(number)),
        _ => Err(SectionError::Control(number)),
    }
}

/// Returns the length of the field name if a colon follows at once: printable ASCII without space
/// and colon (RFC 5322 §2.2).
fn name_length(line: &[u8]) -> Option<usize> {
    let length = line.iter().position(|byte| !matches!(byte, 0x21..=0x39 | 0x3b..=0x7e))?;
    (length > 0 && line.get(length) == Some(&b':')).then_some(length)
}
