//! Parts with invalid or wrong labels: they are read anyway, and a remark names the fault.
//!
//! An unreadable type is treated as text/plain (RFC 2045 §5.2), and so is a multipart without
//! parts. If such text became a file beside an empty message, readers would miss it. Other programs
//! may treat the part differently (threats D11, D12); the remark warns of that.

use super::charset::{self, Misread};
use super::mail_parser_adapter::MediaType;
use super::structure::{self, Bounds, Entry, Kind, StructureError};
use super::transfer::Fault;
use super::visible;

/// Bytes of a label that a remark shows.
const SHOWN: usize = 100;

/// A missing or wrong label of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) part: usize,
    /// The kind of the remark.
    pub(super) kind: &'static str,
    /// Includes the number of the part.
    pub(super) detail: String,
}

/// Finds the parts of a message, with their labels corrected.
pub(super) fn parts(raw: &[u8], bounds: Bounds) -> Result<Vec<Entry>, StructureError> {
    let mut entries = structure::walk(raw, bounds)?;
    for entry in entries.iter_mut().filter(|entry| entry.kind == Kind::Leaf) {
        // Parts that some reader takes for a file, and forwarded ones, keep their labels.
        if !entry.is_disputed && !entry.is_forwarded && entry.is_inline() {
            settle(raw, entry);
        }
    }
    Ok(entries)
}

fn settle(raw: &[u8], entry: &mut Entry) {
    let body = raw.get(entry.body.clone()).unwrap_or_default();
    let multipart = entry.media.as_ref().filter(|media| media.kind == "multipart");
    if multipart.is_some() && body.trim_ascii().is_empty() {
        return;
    }
    let subtype = |media: &MediaType| media.subtype.clone().unwrap_or_default();
    let broken = multipart.map(|media| format!("multipart/{}", subtype(media)));
    let is_named = entry.position > 0 && entry.name().is_some_and(|name| !name.is_empty());
    // Text has no NULs: this is a file.
    let is_text = || memchr::memchr(0, &entry.transfer.decode(body)).is_none();
    if broken.is_some() || entry.odd_type.is_some() {
        if is_named || !is_text() {
            entry.odd_type = None;
            return;
        }
        entry.odd_type = entry.odd_type.take().or(broken);
        let media = entry.media.take().unwrap_or_default();
        entry.media = Some(MediaType {
            kind: "text".to_owned(),
            subtype: Some("plain".to_owned()),
            boundary: None,
            ..media
        });
    }
    if entry.is("text", "plain") || entry.is("text", "html") {
        let label = entry.media.as_ref().and_then(|media| media.charset.as_deref());
        entry.transfer = entry.transfer.of_text(body, label);
    }
}

/// Returns the doubts about a shown part.
pub(super) fn doubts(part: usize, entry: &Entry, misread: Option<Misread>) -> Vec<Doubt> {
    let doubt =
        |kind, detail: String| Doubt { part, kind, detail: format!("part {part} {detail}") };
    let mut doubts = Vec::new();
    if let Some(written) = &entry.odd_type {
        let shown = visible::cut(written, SHOWN);
        let detail = if shown.starts_with("multipart/") {
            format!("is labelled {shown:?} but has no parts: it is read as text/plain")
        } else {
            format!("has the unreadable type {shown:?}: it is read as text/plain")
        };
        doubts.push(doubt("content_type_invalid", detail));
    }
    if let Some(fault) = entry.transfer.fault {
        let name = entry.transfer.name();
        let detail = match fault {
            Fault::ClearFrom(0) => {
                format!("is labelled {name} but is not encoded: it is read as it is")
            }
            Fault::ClearFrom(_) => {
                format!("starts as {name} and continues unencoded: both are read")
            }
            Fault::Damaged => {
                format!("is labelled {name} but has invalid characters: the rest is decoded")
            }
        };
        doubts.push(doubt("encoding_mislabelled", detail));
    }
    if let Some(misread) = misread {
        let label = entry.media.as_ref().and_then(|media| media.charset.as_deref());
        let label = visible::name(label.unwrap_or_default(), SHOWN).unwrap_or_default();
        let (kind, why) = match misread.fault {
            charset::Fault::Unknown => ("charset_unknown", "which is unknown"),
            charset::Fault::Impossible => ("charset_mislabelled", "which does not fit its bytes"),
        };
        let read = if misread.is_lost() { "cannot be read" } else { "is read as" };
        let read_as = if misread.is_lost() { "" } else { misread.read_as };
        let detail = format!("names the charset {label:?}, {why}: it {read} {read_as}");
        doubts.push(doubt(kind, detail.trim_end().to_owned()));
    }
    doubts
}
