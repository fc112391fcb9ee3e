//! Sorts the parts of a message into text, HTML and attachments, by RFC 2046 and the body lists of
//! RFC 8621 §4.1.4 (`structure`, `bodies`).
//!
//! A forwarded message is one attachment and is not opened. Parts are decoded one at a time, and
//! decoding never enlarges them, so memory is bounded by the size of the message. Text has its own
//! limits.

use std::collections::BTreeSet;

use crate::domain::reason::Reason;
use crate::rules::IntakeLimits;

use super::bodies::bodies;
use super::charset::Misread;
use super::filename;
use super::labels::{self, Doubt};
use super::links;
use super::mail_parser_adapter::{guarded, is_token, other_reading};
use super::scan::{Fault, Headers};
use super::structure::{self, Entry, Kind};
use super::text::{self, Body, Readable};
use super::unsigned::LeftOut;

/// The largest bounds that `policies/intake.toml` allows. Stored messages are read with these,
/// because they must keep their part numbers whatever the limits were. Earlier versions did not
/// limit the header sections of parts.
pub(super) const WIDEST: structure::Bounds = structure::Bounds {
    parts: 100_000,
    depth: 100,
    header_bytes: usize::MAX,
    header_fields: usize::MAX,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Lower case, without parameters: `image/png`.
    pub content_type: String,
    /// The declared charset of a text part, lower case, a plain token; the bytes are encoded in it.
    pub charset: Option<String>,
    /// Made harmless by `filename::sanitise`.
    pub filename: String,
    /// Transfer encoding removed, otherwise unchanged.
    pub bytes: Vec<u8>,
}

impl Part {
    /// Tells whether a record may have called this part `name`. The number alone is not enough: an
    /// earlier version may have numbered the parts differently.
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
    /// The HTML part of the message.
    pub(super) is_html: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) readable: Readable,
    pub(super) leaves: Vec<Leaf>,
    /// About the shown parts.
    pub(super) doubts: Vec<Doubt>,
    /// The root part.
    pub(super) root: Option<Entry>,
    /// Text of the root outside its parts.
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
    // Another start of the body means that the library saw other fields.
    let begins = entries.first().map(|root| root.body.start);
    if other.body_at != headers.body_at || begins != Some(headers.body_at) {
        let detail = "scanners disagree about the end of the header section";
        return Err(refused(Reason::SenderInvalid, detail));
    }
    guarded(|| read(raw, &entries, limits)).ok_or_else(unreadable)
}

/// Returns one leaf of a message by the number that `content` gave it, or None if there is none.
/// Present limits do not apply: they were checked when the message arrived.
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
    // A text that can only be guessed is also listed as a file.
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

/// Returns the possible attachments with their indices. A forwarded message is one, and so is a
/// multipart without parts, unless it is empty.
pub(super) fn leaves(entries: &[Entry]) -> impl Iterator<Item = (usize, &Entry)> {
    entries.iter().enumerate().filter(|(_, entry)| {
        let is_empty = entry.body.is_empty()
            && entry.media.as_ref().is_some_and(|media| media.kind == "multipart");
        !entry.is_forwarded && !is_empty && entry.kind != Kind::Multipart
    })
}

/// Returns `type/subtype` if both are plain tokens (RFC 2045 §5.1), else
/// `application/octet-stream`.
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

/// Returns the declared charset of a text part in lower case, if it is a plain token.
pub(super) fn charset(entry: &Entry) -> Option<String> {
    let media = entry.media.as_ref().filter(|media| media.kind == "text")?;
    let declared = media.charset.as_deref()?;
    is_token(declared).then(|| declared.to_ascii_lowercase())
}
