//! Which part of a message is the text, which the HTML, and which are attachments; after RFC 2046
//! and the body lists of RFC 8621 §4.1.4 (`structure`, `bodies`).
//!
//! A forwarded message is one attachment and is not looked into. Parts are decoded one at a time,
//! and decoding makes none larger, so that memory is bounded by the message; what is read as text
//! is bounded by itself.

use std::collections::BTreeSet;

use crate::domain::reason::Reason;
use crate::rules::IntakeLimits;

use super::bodies::bodies;
use super::charset::Misread;
use super::filename;
use super::labels::{self, Doubt};
use super::library::{guarded, is_token, other_reading};
use super::links;
use super::scan::{Fault, Headers};
use super::structure::{self, Entry, Kind};
use super::text::{self, Body, Readable};
use super::unsigned::LeftOut;

/// The most that `policies/intake.toml` may say: what was accepted under any limits is served
/// again, with the same numbers. Header sections of parts had no limit once.
pub(super) const WIDEST: structure::Bounds = structure::Bounds {
    parts: 100_000,
    depth: 100,
    header_bytes: usize::MAX,
    header_fields: usize::MAX,
};

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

impl Part {
    /// Whether a record could have called it `name`. The number alone does not do: a part of a
    /// message that an earlier version stored may have had another.
    pub fn is_called(&self, name: &str) -> bool {
        name == self.filename || filename::sanitise(Some(name), &self.content_type) == self.filename
    }
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
    /// Of the parts that are shown.
    pub(super) doubts: Vec<Doubt>,
    /// The message itself.
    pub(super) root: Option<Entry>,
    /// Its text outside of all parts.
    pub(super) left_out: LeftOut,
}

/// Reads the content of a message whose header section has been scanned.
pub(super) fn content(
    raw: &[u8],
    headers: &Headers<'_>,
    limits: &IntakeLimits,
) -> Result<Content, Fault> {
    let refused = |reason, detail: &str| Fault {
        reason,
        detail: detail.to_owned(),
        from: Some(headers.from.address.clone()),
    };
    let Some(other) = other_reading(raw) else {
        return Err(refused(Reason::Malformed, "the message cannot be read"));
    };
    if other.from.as_ref() != Some(&headers.from.address) {
        return Err(refused(Reason::SenderInvalid, "scanners disagree about the From field"));
    }
    let unreadable = || refused(Reason::Malformed, "the parts of the message cannot be read");
    let entries = guarded(|| labels::parts(raw, bounds(limits)))
        .ok_or_else(unreadable)?
        .map_err(|error| refused(Reason::Malformed, &error.to_string()))?;
    // A body that begins elsewhere means that other fields were seen as well.
    let begins = entries.first().map(|root| root.body.start);
    if other.body_at != headers.body_at || begins != Some(headers.body_at) {
        let detail = "scanners disagree about the end of the header section";
        return Err(refused(Reason::SenderInvalid, detail));
    }
    guarded(|| read(raw, &entries, limits)).ok_or_else(unreadable)
}

/// Serves one leaf of a message, by the number that `content` gave it. `None` where the number
/// names no leaf. The limits of the day do not matter: they were checked when the message came in.
pub fn part(raw: &[u8], index: u32) -> Option<Part> {
    let entries = guarded(|| labels::parts(raw, WIDEST))?.ok()?;
    let (_, entry) = leaves(&entries).find(|(number, _)| u32::try_from(*number) == Ok(index))?;
    let content_type = content_type(entry);
    let body = raw.get(entry.body.clone())?;
    Some(Part {
        charset: charset(entry),
        filename: filename::sanitise(entry.name(), &content_type),
        bytes: guarded(|| entry.transfer.decode(body).into_owned())?,
        content_type,
    })
}

const fn bounds(limits: &IntakeLimits) -> structure::Bounds {
    structure::Bounds {
        parts: limits.max_parts,
        depth: limits.max_depth,
        header_bytes: limits.max_header_bytes,
        header_fields: limits.max_header_fields,
    }
}

fn read(raw: &[u8], entries: &[Entry], limits: &IntakeLimits) -> Content {
    let bodies = bodies(entries);
    let body = |number: usize| {
        let entry = entries.get(number)?;
        Some(Body {
            number,
            is_html: entry.is("text", "html"),
            transfer: entry.transfer,
            charset: entry.media.as_ref().and_then(|media| media.charset.as_deref()),
            octets: raw.get(entry.body.clone()).unwrap_or_default(),
        })
    };
    let texts: Vec<_> = bodies.text.iter().filter_map(|number| body(*number)).collect();
    let htmls = bodies.html.iter().filter_map(|number| body(*number));
    let htmls: Vec<_> = htmls.filter(|body| body.is_html).collect();
    let bounds = text::Bounds {
        text: limits.max_text_bytes,
        html: limits.max_html_bytes,
        notes: limits.max_findings,
    };
    let is_notable = |shown: &str, target: &str| links::deceit(shown, target).is_some();
    let readable = text::read(&texts, &htmls, bounds, &is_notable);
    let misread = |number: usize| {
        readable.misread.iter().find(|(part, _)| *part == number).map(|(_, misread)| *misread)
    };
    // What nobody can read as text, or only by guessing, is a file.
    let is_read =
        |body: &&Body<'_>| !body.is_html && !misread(body.number).is_some_and(Misread::is_guess);
    let shown: BTreeSet<_> = texts.iter().filter(is_read).map(|body| body.number).collect();
    let bodies: BTreeSet<_> = texts.iter().chain(&htmls).map(|body| body.number).collect();
    let doubts = bodies.into_iter().filter_map(|number| Some((number, entries.get(number)?)));
    let doubts =
        doubts.flat_map(|(number, entry)| labels::doubts(number, entry, misread(number))).collect();
    let html = htmls.first().map(|body| body.number);
    let leaves = leaves(entries)
        .filter(|(number, _)| !shown.contains(number))
        .map(|(number, entry)| leaf(raw, number, entry, html == Some(number)))
        .collect();
    let left_out = LeftOut::of(raw, entries);
    Content { readable, leaves, doubts, root: entries.first().cloned(), left_out }
}

fn leaf(raw: &[u8], number: usize, entry: &Entry, is_html: bool) -> Leaf {
    let content_type = content_type(entry);
    let body = raw.get(entry.body.clone()).unwrap_or_default();
    Leaf {
        part: u32::try_from(number).unwrap_or(u32::MAX),
        filename: filename::sanitise(entry.name(), &content_type),
        size: u64::try_from(entry.transfer.decoded_len(body)).unwrap_or(u64::MAX),
        content_type,
        is_html,
    }
}

/// What can be an attachment of the message itself, by number: a forwarded message is one, and a
/// multipart without parts that has anything in it.
pub(super) fn leaves(entries: &[Entry]) -> impl Iterator<Item = (usize, &Entry)> {
    entries.iter().enumerate().filter(|(_, entry)| {
        let is_empty = entry.body.is_empty()
            && entry.media.as_ref().is_some_and(|media| media.kind == "multipart");
        !entry.is_forwarded && !is_empty && entry.kind != Kind::Multipart
    })
}

/// `type/subtype` of plain tokens (RFC 2045 §5.1); anything else is octets.
fn content_type(entry: &Entry) -> String {
    let Some(declared) = &entry.media else {
        let is_message = entry.kind == Kind::Message;
        return if is_message { "message/rfc822" } else { "text/plain" }.to_owned();
    };
    match (&declared.kind, &declared.subtype) {
        (kind, Some(subtype)) if is_token(kind) && is_token(subtype) => format!("{kind}/{subtype}"),
        _ => "application/octet-stream".to_owned(),
    }
}

/// The declared charset of a text part, lower case, where it is a plain token.
pub(super) fn charset(entry: &Entry) -> Option<String> {
    let media = entry.media.as_ref().filter(|media| media.kind == "text")?;
    let declared = media.charset.as_deref()?;
    is_token(declared).then(|| declared.to_ascii_lowercase())
}
