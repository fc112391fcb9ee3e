//! Which part of a message is the text, which the HTML, and which are attachments; after RFC 2046
//! and the body lists of RFC 8621 §4.1.4.
//!
//! Parts are numbered in the order of the message, containers and the parts of forwarded messages
//! included; a forwarded message is one attachment and is not looked into. The library's list of
//! parts is flat, so nothing here recurses and nothing can be met twice (threats F8); a message
//! that reaches a limit is refused rather than read in part.

use std::collections::BTreeSet;

use mail_parser::{Message, MessagePart, MessageRef, PartFlags, PartKind};

use crate::domain::address::Address;
use crate::domain::reason::Reason;
use crate::rules::IntakeLimits;

use super::filename;
use super::findings::is_misleading;
use super::library::{MOST_DEPTH, MOST_PARTS, guarded, parser};
use super::scan::{Fault, Headers};
use super::text::{self, Bounds, Readable};

/// One leaf of a stored message, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Lower case, without parameters: `image/png`.
    pub content_type: String,
    /// The declared charset of a text part, lower case, a plain token; the octets are in it.
    pub charset: Option<String>,
    /// Harmless: cleaned by `filename::sanitise`.
    pub filename: String,
    /// Without the transfer encoding, otherwise unaltered.
    pub bytes: Vec<u8>,
}

/// A leaf that is kept beside the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) part: u32,
    pub(super) content_type: String,
    pub(super) filename: String,
    pub(super) size: u64,
    /// The HTML part that stands for the whole message.
    pub(super) is_html: bool,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) readable: Readable,
    pub(super) leaves: Vec<Leaf>,
}

/// Reads the content of a message whose header section has been scanned.
pub(super) fn content(
    raw: &[u8],
    headers: &Headers<'_>,
    limits: &IntakeLimits,
) -> Result<Content, Fault> {
    let outcome = guarded(|| {
        let message = parser(limits.max_parts, limits.max_depth)
            .parse(raw)
            .ok_or("the message cannot be read")
            .map_err(|detail| (Reason::Malformed, detail))?;
        check(&message, headers)?;
        Ok(read(&message.root(), limits))
    });
    let refused = |(reason, detail): (Reason, &str)| Fault {
        reason,
        detail: detail.to_owned(),
        from: Some(headers.from.address.clone()),
    };
    outcome
        .unwrap_or(Err((Reason::Malformed, "the parts of the message cannot be read")))
        .map_err(refused)
}

/// Serves one leaf of a message, by the number that `content` gave it. `None` where the number
/// names no leaf. The limits of the day do not matter: they were checked when the message came in.
pub fn part(raw: &[u8], index: u32) -> Option<Part> {
    guarded(|| {
        let message = parser(MOST_PARTS, MOST_DEPTH).parse(raw)?;
        let part = message.root().parts().find(|part| part.id() == index && is_leaf(part))?;
        let content_type = content_type(&part);
        Some(Part {
            charset: charset(&part),
            filename: filename::sanitise(part.attachment_name(), &content_type),
            bytes: part.decoded().into_owned(),
            content_type,
        })
    })?
}

/// The limits, and that the library sees the very message that the scanner saw.
fn check(message: &Message<'_>, headers: &Headers<'_>) -> Result<(), (Reason, &'static str)> {
    if message.parts().any(|part| part.flags().contains(PartFlags::LIMIT_REACHED)) {
        return Err((Reason::Malformed, "the message has too many parts or levels of them"));
    }
    let disagree = (Reason::SenderInvalid, "scanners disagree about the From field");
    let mut fields = message.headers().all_from();
    let (Some(list), None) = (fields.next(), fields.next()) else { return Err(disagree) };
    let mut mailboxes = list.mailboxes();
    let (Some(mailbox), None) = (mailboxes.next(), mailboxes.next()) else { return Err(disagree) };
    let seen = mailbox.address().and_then(|text| Address::parse(text).ok());
    if list.has_groups() || seen.as_ref() != Some(&headers.from.address) {
        return Err(disagree);
    }
    // A body that begins elsewhere means that other fields were seen as well.
    if usize::try_from(message.root_part().offset_body()) != Ok(headers.body_at) {
        return Err((
            Reason::SenderInvalid,
            "scanners disagree about the end of the header section",
        ));
    }
    Ok(())
}

fn read(root: &MessageRef<'_>, limits: &IntakeLimits) -> Content {
    let body: Vec<_> = root.text_body().filter(MessagePart::is_text).collect();
    let html = root.html_body().find(|part| matches!(part.kind(), PartKind::Html));
    let bounds = Bounds { text: limits.max_text_bytes, notes: limits.max_findings };
    let readable = text::read(&body, html, bounds, &is_misleading);
    let texts: BTreeSet<_> = body
        .iter()
        .filter(|part| matches!(part.kind(), PartKind::Text))
        .map(MessagePart::id)
        .collect();
    let html = html.map(|part| part.id());
    let leaves = root
        .parts()
        .filter(|part| is_leaf(part) && !texts.contains(&part.id()))
        .map(|part| leaf(&part, html == Some(part.id())))
        .collect();
    Content { readable, leaves }
}

fn leaf(part: &MessagePart<'_>, is_html: bool) -> Leaf {
    let content_type = content_type(part);
    Leaf {
        part: part.id(),
        filename: filename::sanitise(part.attachment_name(), &content_type),
        size: u64::try_from(part.decoded_len()).unwrap_or(u64::MAX),
        content_type,
        is_html,
    }
}

/// A multipart without children keeps what it has instead of losing it.
fn is_leaf(part: &MessagePart<'_>) -> bool {
    !part.is_multipart() || (part.children().len() == 0 && !part.raw_body().is_empty())
}

/// `type/subtype` of plain tokens (RFC 2045 §5.1); anything else is octets.
fn content_type(part: &MessagePart<'_>) -> String {
    let Some(declared) = part.content_type() else {
        let is_message = part.is_message();
        return if is_message { "message/rfc822" } else { "text/plain" }.to_owned();
    };
    match (declared.ctype(), declared.subtype()) {
        (kind, Some(subtype)) if is_token(kind) && is_token(subtype) => {
            format!("{kind}/{subtype}").to_ascii_lowercase()
        }
        _ => "application/octet-stream".to_owned(),
    }
}

fn charset(part: &MessagePart<'_>) -> Option<String> {
    let declared = part.content_type().filter(|_| part.is_text())?.attribute("charset")?;
    is_token(declared).then(|| declared.to_ascii_lowercase())
}

/// RFC 6838 §4.2 restricts names to these characters and this length.
fn is_token(text: &str) -> bool {
    (1..=127).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
}
