//! Header values for people: decoded, on one line, bounded. Made from the scanned fields only.

use mail_parser::{HeaderForm, HeaderValue};

use crate::domain::clock::Timestamp;
use crate::rules::IntakeLimits;

use super::fields::KnownField;
use super::mail_parser_adapter::{decode_words, guarded};
use super::scan::Headers;
use super::{visible, words};

/// Fields of a message for people. None of them is proven, and none decides anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownFields {
    pub subject: Option<String>,
    /// `Name <local@domain>` or `local@domain`.
    pub to: Vec<String>,
    pub cc: Vec<String>,
    pub reply_to: Vec<String>,
    /// Without angle brackets.
    pub message_id: Option<String>,
    pub in_reply_to: Vec<String>,
    /// Only the nearest ancestors, if there are too many to show.
    pub references: Vec<String>,
    /// By the sender's clock.
    pub date: Option<Timestamp>,
    pub auto_submitted: Option<String>,
    pub disposition_notification_to: Option<String>,
}

/// A mailbox in a header field, cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShownMailbox {
    pub(super) name: Option<String>,
    pub(super) address: Option<String>,
}

/// Reads the fields that a message record shows.
pub fn shown(headers: &Headers<'_>, limits: &IntakeLimits) -> ShownFields {
    let text = |name: KnownField| {
        headers.first(name).and_then(|v| visible::line(&decode_words(v), limits.max_shown_bytes))
    };
    let list = |name: KnownField| {
        mailboxes(headers, name, limits).into_iter().filter_map(ShownMailbox::into_text).collect()
    };
    ShownFields {
        subject: text(KnownField::Subject),
        to: list(KnownField::To),
        cc: list(KnownField::Cc),
        reply_to: list(KnownField::ReplyTo),
        message_id: ids(headers, KnownField::MessageId, limits).pop(),
        in_reply_to: ids(headers, KnownField::InReplyTo, limits),
        references: ids(headers, KnownField::References, limits),
        date: date(headers),
        auto_submitted: text(KnownField::AutoSubmitted),
        disposition_notification_to: text(KnownField::DispositionNotificationTo),
    }
}

/// Returns the mailboxes of the first field with this name, up to the number shown.
pub(super) fn mailboxes(
    headers: &Headers<'_>,
    name: KnownField,
    limits: &IntakeLimits,
) -> Vec<ShownMailbox> {
    let Some(value) = headers.first(name) else { return Vec::new() };
    let clean = |text: &str| visible::name(text, limits.max_shown_bytes);
    let value = words::in_utf8(value);
    guarded(|| match HeaderForm::Addresses.parse(&value).value() {
        HeaderValue::Address(list) => list
            .mailboxes()
            .take(limits.max_shown_mailboxes)
            .map(|mailbox| ShownMailbox {
                name: mailbox.name().and_then(clean),
                address: mailbox.address().and_then(clean),
            })
            .collect(),
        _ => Vec::new(),
    })
    .unwrap_or_default()
}

impl ShownMailbox {
    /// Formats `Name <local@domain>`. A name with specials is quoted (RFC 5322 §3.2.4), so that no
    /// name looks like an address.
    fn into_text(self) -> Option<String> {
        let quoted = |name: String| {
            if name.contains(|c: char| "()<>[]:;@\\,\"".contains(c)) {
                format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
            } else {
                name
            }
        };
        match (self.name, self.address) {
            (Some(name), Some(address)) if name != address => {
                Some(format!("{} <{address}>", quoted(name)))
            }
            (_, Some(address)) => Some(address),
            (Some(name), None) => Some(quoted(name)),
            (None, None) => None,
        }
    }
}

fn ids(headers: &Headers<'_>, name: KnownField, limits: &IntakeLimits) -> Vec<String> {
    let Some(value) = headers.first(name) else { return Vec::new() };
    let clean = |text: &str| visible::line(text, limits.max_shown_bytes);
    let most = limits.max_shown_mailboxes;
    guarded(|| match HeaderForm::MessageIds.parse(value).value() {
        HeaderValue::Text(id) => clean(id).into_iter().collect(),
        HeaderValue::TextList(ids) => {
            let skipped = ids.len().saturating_sub(most);
            ids.iter().skip(skipped).filter_map(clean).collect()
        }
        _ => Vec::new(),
    })
    .unwrap_or_default()
}

fn date(headers: &Headers<'_>) -> Option<Timestamp> {
    let value = headers.first(KnownField::Date)?;
    let seconds = guarded(|| match HeaderForm::Date.parse(value).value() {
        HeaderValue::DateTime(date) if date.is_valid() => Some(date.to_timestamp()),
        _ => None,
    })??;
    seconds.checked_mul(1000).map(Timestamp::from_millis)
}
