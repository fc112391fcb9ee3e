//! Raw bytes become facts: who a message says it is from, what it says, what hangs on it.
//!
//! Two steps. [`scan::scan`] reads the header section strictly and yields the one From mailbox that
//! `verify` proves and `app` judges. [`summarise`] reads the rest for an accepted message: text,
//! HTML, attachments, remarks. [`mime::part`] serves one attachment later, [`page::page`] the HTML.
//!
//! - `scan`, `mailbox`: our own code on raw octets, no library below them;
//! - `structure`, `bodies`: our own walk over the parts, whose cost is bounded;
//! - `labels`, `transfer`: types and encodings that do not say what a part is, settled and named;
//! - `charset`, `words`: octets become text by the WHATWG Encoding Standard, and by `legacy` where
//!   it stops;
//! - `library`: the one door to mail-parser, with a wall against its panics;
//! - `fields`: the names of all fields that are read;
//! - `headers`, `mime`, `text`, `html`, `reply`, `filename`, `findings`: for people and Agents to
//!   read; nothing in them decides about acceptance, except that `mime` refuses what it cannot read
//!   whole or reads differently than the scanner did;
//! - below `html`: `tags` (the tokenizer), `elements`, `look` (over `sheet`, `media`, `css`, `colour`),
//!   `passages`, `text_sink`; below `findings`: `unseen`, `links`, `unsigned`; below `reply`: `quotes`;
//! - `page`: the HTML part for people, over `sanitise` (twice: our tags, then ammonia) and
//!   `inline_style`;
//! - `machine`: signs that no person wrote it;
//! - `visible`: what can be seen of a text; `line_ends`: those of files become those of mail.
//!
//! Called by `verify` (scanned headers) and `app`. No I/O, no clock, no randomness: identifiers are
//! given in. Total: every octet string gets an answer, in time linear in its length and within
//! the limits of `policies/intake.toml`; nothing recurses.

mod bodies;
mod charset;
mod colour;
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
mod library;
pub mod line_ends;
mod links;
mod look;
pub mod machine;
mod mailbox;
mod measures;
pub mod mime;
pub mod page;
mod passages;
mod quotes;
mod reply;
mod sanitise;
pub mod scan;
mod sheet;
mod structure;
mod style;
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

use self::fields::Known;
use self::findings::Evidence;
use self::mime::Content;
use self::scan::{Fault, Headers};

/// Reads the content of a message whose header section has been scanned; its signature leaves the
/// `unsigned` fields open.
///
/// # Errors
/// `Malformed` for too many parts or levels, or content that cannot be read; `SenderInvalid` when
/// mail-parser sees another From or another header section than the scanner did.
pub fn summarise(
    raw: &[u8],
    headers: &Headers<'_>,
    unsigned: &[Known],
    limits: &IntakeLimits,
) -> Result<Mail, Fault> {
    let content = mime::content(raw, headers, limits)?;
    // Nothing here is known to panic; if something does, the sender is told so (threats D10).
    library::guarded(|| describe(headers, content, unsigned, limits)).ok_or_else(|| Fault {
        reason: Reason::Malformed,
        detail: "the content of the message cannot be read".to_owned(),
        from: Some(headers.from.address.clone()),
    })
}

fn describe(
    headers: &Headers<'_>,
    content: Content,
    open: &[Known],
    limits: &IntakeLimits,
) -> Mail {
    let shown = headers::shown(headers, limits);
    let evidence = Evidence {
        from: &headers.from,
        subject: shown.subject.as_deref(),
        reply_to: &headers::mailboxes(headers, Known::ReplyTo, limits),
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
