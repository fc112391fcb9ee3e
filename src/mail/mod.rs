//! Reads raw messages: sender, text, attachments, remarks.
//!
//! Two steps. [`scan::scan`] reads the header section strictly and finds the one From mailbox,
//! which `verify` authenticates and `app` decides on. [`summarise`] reads the rest of an accepted
//! message: text, HTML, attachments, remarks. Later, [`mime::part`] returns one attachment, and
//! [`page::page`] the HTML.
//!
//! - `scan`, `mailbox`: our own parsers of raw bytes; a library only decodes the display name;
//! - `structure`, `bodies`: our own walk over the parts, whose cost is bounded;
//! - `labels`, `transfer`: correct wrong types and encodings of parts, and name them;
//! - `charset`, `words`: decode bytes by the WHATWG Encoding Standard; `legacy` has more charsets;
//! - `mail_parser_adapter`: the only access to mail-parser, with a guard against panics;
//! - `fields`: the names of all header fields that are read;
//! - `headers`, `mime`, `text`, `html`, `reply`, `filename`, `findings`: content for people and
//!   Agents. It never decides on acceptance, with one exception: `mime` refuses a message that
//!   cannot be read completely, or that mail-parser reads differently than the scanner;
//! - below `html`: `tags` (the tokenizer), `elements`, `computed_style`, `passages`, `text_sink`;
//! - below `computed_style`: `stylesheet`, `style`, `css`, `css_source`, `measures`, `colour`;
//! - below `findings`: `unseen`, `links`, `unsigned`; below `reply`: `quotes`;
//! - `page`: the HTML part for people, made by `sanitise` (two allowlists: ours, then ammonia's)
//!   and `inline_style`;
//! - `machine`: signs that a machine wrote the message;
//! - `visible`: visible and invisible characters; `line_ends`: line ends of messages from files.
//!
//! Used by `verify` (scanned headers) and `app`. No I/O, no clock, no randomness. Every input has a
//! result, in time linear in its length and within the limits of `policies/intake.toml`. Nothing
//! recurses deeper than a small constant.

mod bodies;
mod charset;
mod colour;
mod computed_style;
mod css;
mod css_source;
mod elements;
pub mod fields;
mod filename;
pub mod findings;
pub mod headers;
mod html;
mod inline_style;
mod labels;
mod legacy;
pub mod line_ends;
mod links;
pub mod machine;
mod mail_parser_adapter;
mod mailbox;
mod measures;
pub mod mime;
pub mod page;
mod passages;
mod quotes;
mod reply;
mod sanitise;
pub mod scan;
mod structure;
mod style;
mod stylesheet;
mod tags;
mod text;
mod text_sink;
mod transfer;
mod unseen;
mod unsigned;
mod visible;
mod words;

#[cfg(test)]
mod tests;

use crate::domain::message::{Attachment, Mail};
use crate::domain::reason::Reason;
use crate::rules::IntakeLimits;

use self::fields::KnownField;
use self::findings::Evidence;
use self::mime::Content;
use self::scan::{Fault, Headers};

/// Reads the content of a message whose header section has been scanned. `unsigned` are the fields
/// that its signature does not cover.
///
/// # Errors
/// `Malformed` for too many parts or levels, or unreadable content; `SenderInvalid` if mail-parser
/// sees another From or another header section than the scanner.
pub fn summarise(
    raw: &[u8],
    headers: &Headers<'_>,
    unsigned: &[KnownField],
    limits: &IntakeLimits,
) -> Result<Mail, Fault> {
    let content = mime::content(raw, headers, limits)?;
    // No panic is known here; if there is one, the message is refused (threats D10).
    mail_parser_adapter::guarded(|| describe(headers, content, unsigned, limits)).ok_or_else(|| {
        Fault {
            reason: Reason::Malformed,
            detail: "the content of the message cannot be read".to_owned(),
            from: Some(headers.from.address.clone()),
        }
    })
}

fn describe(
    headers: &Headers<'_>,
    content: Content,
    open: &[KnownField],
    limits: &IntakeLimits,
) -> Mail {
    let shown = headers::shown(headers, limits);
    let evidence = Evidence {
        from: &headers.from,
        subject: shown.subject.as_deref(),
        reply_to: &headers::mailboxes(headers, KnownField::ReplyTo, limits),
        readable: &content.readable,
        doubts: &content.doubts,
        html_part: content.leaves.iter().find(|leaf| leaf.is_html).map(|leaf| leaf.part),
        unsigned: unsigned::effects(&content, open),
    };
    let findings = findings::findings(&evidence, limits.max_findings);
    let attachments = content
        .leaves
        .into_iter()
        .map(|leaf| Attachment {
            part: leaf.part,
            content_type: leaf.content_type,
            filename: leaf.filename,
            size: leaf.size,
            listed: !leaf.is_html,
        })
        .collect();
    Mail {
        from: headers.from.clone(),
        stripped_text: reply::stripped(&content.readable.text),
        text: content.readable.text,
        subject: shown.subject,
        to: shown.to,
        cc: shown.cc,
        reply_to: shown.reply_to,
        message_id: shown.message_id,
        in_reply_to: shown.in_reply_to,
        references: shown.references,
        auto_submitted: shown.auto_submitted,
        disposition_notification_to: shown.disposition_notification_to,
        attachments,
        findings,
    }
}
