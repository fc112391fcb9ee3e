//! Finds the parts of a message in one pass over its lines (RFC 2046 §5.1).
//!
//! This is our own walk, because its cost must be bounded by construction (threats D1–D3).
//! mail-parser compares each line that begins with hyphens with every open boundary, and starts
//! again at parts that never end; a crafted message costs it seconds to hours. Here each line is
//! read once, a line with hyphens is looked up once in a map of the open boundaries, and nothing
//! recurses. A message that reaches a limit is refused, never read in part.
//!
//! Parts are numbered in the order of the message, including containers and the parts of forwarded
//! messages. Malformed input loses no content: a multipart without parts becomes a leaf, a line
//! that is no field begins the body, and a part without delimiter extends to the end of its
//! container.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;

use mail_parser::Encoding;
use memchr::memmem;

use super::fields::KnownField;
use super::mail_parser_adapter::{MediaType, disposition, media_type, transfer_encoding};
use super::transfer::Transfer;
use super::visible;

/// Bytes of one MIME field that are read; real ones have some hundred. Together with `max_parts`
/// this bounds the input of the parameter parser.
const READ_OF_FIELD: usize = 4096;

/// Bytes shown of an unreadable type.
const SHOWN_OF_TYPE: usize = 100;

/// The fields that describe a part.
const READ: &[KnownField] = &[
    KnownField::ContentType,
    KnownField::ContentDisposition,
    KnownField::ContentTransferEncoding,
    KnownField::ContentId,
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) parts: usize,
    /// Levels of containers around a part: multiparts and forwarded messages.
    pub(super) depth: usize,
    /// Bytes and fields of each header section.
    pub(super) header_bytes: usize,
    pub(super) header_fields: usize,
}

/// The kind of a part for the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Leaf,
    Multipart,
    /// A forwarded message without transfer encoding; its root part is its only child.
    Message,
}

/// One part: its relevant fields and the range of its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// Index of its container.
    pub(super) parent: Option<usize>,
    /// Index among the children of its parent.
    pub(super) position: usize,
    /// None without a Content-Type, or if that has no type.
    pub(super) media: Option<MediaType>,
    /// The Content-Type as written, for people, if it is invalid (RFC 2045 §5.1).
    pub(super) odd_type: Option<String>,
    /// `inline`, `attachment` or another, lower case.
    pub(super) disposition: Option<String>,
    pub(super) filename: Option<String>,
    /// The name by which HTML refers to it (RFC 2392), without angle brackets.
    pub(super) content_id: Option<String>,
    pub(super) transfer: Transfer,
    /// Byte range in the message: from after the header section to before the line end of the
    /// delimiter.
    pub(super) body: Range<usize>,
    /// The part or one of its containers repeats a field with different values. Readers take the
    /// first or the last one, so that one may see text where another sees a file.
    pub(super) is_disputed: bool,
    /// Inside a forwarded message, at any level.
    pub(super) is_forwarded: bool,
    children: usize,
}

impl Entry {
    /// Tells whether the type is `kind/subtype`. A part without a type is `text/plain`, or a
    /// message if it is in a digest (RFC 2046 §5.1.5).
    pub(super) fn is(&self, kind: &str, subtype: &str) -> bool {
        match &self.media {
            Some(media) => media.kind == kind && media.subtype.as_deref() == Some(subtype),
            None => kind == "text" && subtype == "plain" && self.kind == Kind::Leaf,
        }
    }

    /// Tells whether the part is inline. An unknown disposition means attachment (RFC 2183 §2.8).
    pub(super) fn is_inline(&self) -> bool {
        self.disposition.as_deref().is_none_or(|kind| kind == "inline")
    }

    /// The name from the sender, as written.
    pub(super) fn name(&self) -> Option<&str> {
        let named = || self.media.as_ref()?.name.as_deref();
        self.filename.as_deref().or_else(named)
    }
}

/// Why the structure of a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StructureError {
    #[error("the message has too many parts or levels of them")]
    TooManyParts,
    #[error("a part of the message has too long a header section")]
    TooLongHeader,
}

/// Finds the parts of `raw`; at least one.
pub(super) fn walk(raw: &[u8], bounds: Bounds) -> Result<Vec<Entry>, StructureError> {
    counted(raw, bounds).0
}

/// Like [`walk`], but also returns the number of lines read: the measure of work.
fn counted(raw: &[u8], bounds: Bounds) -> (Result<Vec<Entry>, StructureError>, usize) {
    let mut walk = Walk {
        raw,
        bounds,
        entries: Vec::new(),
        frames: Vec::new(),
        open: BTreeMap::new(),
        dashes: memmem::Finder::new(b"\n--"),
        lines: Cell::new(0),
    };
    let mut next = Ok(Some(0));
    while let Ok(Some(head_at)) = next {
        next = walk.part(head_at);
    }
    walk.close_frames(0, raw.len());
    let lines = walk.lines.get();
    (next.map(|_| walk.entries), lines)
}

struct Frame {
    entry: usize,
    /// Set for a multipart until its close delimiter.
    boundary: Option<Vec<u8>>,
}

/// A delimiter line of frame `frame`; ends parts.
struct Delimiter {
    frame: usize,
    is_close: bool,
    line: usize,
    next: usize,
}

struct Walk<'a> {
    raw: &'a [u8],
    bounds: Bounds,
    entries: Vec<Entry>,
    frames: Vec<Frame>,
    /// The frames of each open boundary, innermost last.
    open: BTreeMap<Vec<u8>, Vec<usize>>,
    dashes: memmem::Finder<'static>,
    lines: Cell<usize>,
}

impl Walk<'_> {
    /// Reads the part whose header section begins at `head_at`. Returns the start of the next part.
    fn part(&mut self, head_at: usize) -> Result<Option<usize>, StructureError> {
        if self.entries.len() >= self.bounds.parts {
            return Err(StructureError::TooManyParts);
        }
        let (head, body_at, mut delimiter) = self.head(head_at)?;
        let number = self.entries.len();
        let parent = self.frames.last().map(|frame| frame.entry);
        let (position, is_digest, is_disputed, is_forwarded) = match self.container() {
            Some(parent) => {
                parent.children += 1;
                let is_forwarded = parent.is_forwarded || parent.kind == Kind::Message;
                let is_digest = parent.is("multipart", "digest");
                (parent.children - 1, is_digest, parent.is_disputed, is_forwarded)
            }
            None => (0, false, false, false),
        };
        // If a delimiter cuts the header section, there is no body to look into.
        let mut kind = if delimiter.is_some() { Kind::Leaf } else { head.kind(is_digest) };
        if kind == Kind::Message && self.is_end(body_at) {
            kind = Kind::Leaf;
        }
        let boundary = head.media.as_ref().and_then(|media| media.boundary.clone());
        self.entries.push(Entry {
            kind,
            parent,
            position,
            media: head.media,
            odd_type: head.odd_type,
            disposition: head.disposition,
            filename: head.filename,
            content_id: head.content_id,
            transfer: Transfer::from(head.encoding),
            body: body_at..self.raw.len(),
            is_disputed: is_disputed || head.is_disputed,
            is_forwarded,
            children: 0,
        });
        if kind != Kind::Leaf {
            if self.frames.len() >= self.bounds.depth {
                return Err(StructureError::TooManyParts);
            }
            if kind == Kind::Message {
                self.frames.push(Frame { entry: number, boundary: None });
                return Ok(Some(body_at));
            }
            self.push_multipart(number, boundary);
        }
        delimiter = delimiter.or_else(|| self.delimiter_from(body_at));
        while let Some(found) = delimiter {
            let end = self.content_end(found.line);
            if kind == Kind::Leaf {
                self.end_entry(number, end);
            }
            self.close_frames(found.frame + 1, end);
            if !found.is_close {
                // A delimiter at the end of the message begins no part.
                return Ok((found.next < self.raw.len()).then_some(found.next));
            }
            self.forget(found.frame);
            delimiter = self.delimiter_from(found.next);
        }
        Ok(None)
    }

    /// Returns the container of the next part.
    fn container(&mut self) -> Option<&mut Entry> {
        let frame = self.frames.last()?;
        self.entries.get_mut(frame.entry)
    }

    /// Tells whether no part can begin at `at`.
    fn is_end(&self, at: usize) -> bool {
        at >= self.raw.len() || (!self.open.is_empty() && self.delimiter_at(at).is_some())
    }

    fn push_multipart(&mut self, entry: usize, boundary: Option<Vec<u8>>) {
        if let Some(boundary) = &boundary {
            self.open.entry(boundary.clone()).or_default().push(self.frames.len());
        }
        self.frames.push(Frame { entry, boundary });
    }

    /// Closes all frames from index `from` on.
    fn close_frames(&mut self, from: usize, end: usize) {
        while self.frames.len() > from {
            self.forget(self.frames.len() - 1);
            if let Some(frame) = self.frames.pop() {
                self.end_entry(frame.entry, end);
                if let Some(entry) = self.entries.get_mut(frame.entry)
                    && entry.children == 0
                {
                    entry.kind = Kind::Leaf;
                }
            }
        }
    }

    /// Closes the boundary of a frame: it delimits nothing any more.
    fn forget(&mut self, frame: usize) {
        let Some(boundary) = self.frames.get_mut(frame).and_then(|frame| frame.boundary.take())
        else {
            return;
        };
        if let Some(numbers) = self.open.get_mut(&boundary) {
            numbers.retain(|number| *number != frame);
            if numbers.is_empty() {
                self.open.remove(&boundary);
            }
        }
    }

    fn end_entry(&mut self, entry: usize, end: usize) {
        if let Some(entry) = self.entries.get_mut(entry) {
            entry.body.end = end.max(entry.body.start).min(entry.body.end);
        }
    }

    /// Returns the end of the content before a delimiter. The line end before it belongs to the
    /// delimiter (RFC 2046 §5.1.1).
    fn content_end(&self, line: usize) -> usize {
        let before = self.raw.get(..line).unwrap_or_default();
        let before = before.strip_suffix(b"\n").unwrap_or(before);
        before.strip_suffix(b"\r").unwrap_or(before).len()
    }

    /// Returns the first delimiter at or after `from`, which is the beginning of a line.
    fn delimiter_from(&self, from: usize) -> Option<Delimiter> {
        if self.open.is_empty() {
            return None;
        }
        if let Some(found) = self.delimiter_at(from) {
            return Some(found);
        }
        // Lines after `from`: the search needs a line feed in front.
        let rest = self.raw.get(from..)?;
        self.dashes.find_iter(rest).find_map(|found| self.delimiter_at(from + found + 1))
    }

    /// Returns the delimiter at `line`, if that line delimits an open multipart.
    fn delimiter_at(&self, line: usize) -> Option<Delimiter> {
        let rest = self.raw.get(line..)?;
        let text = rest.strip_prefix(b"--")?;
        self.lines.set(self.lines.get() + 1);
        let length = memchr::memchr(b'\n', text).map_or(text.len(), |end| end + 1);
        let text = text.get(..length)?.trim_ascii_end();
        let frame_of = |boundary: &[u8]| self.open.get(boundary)?.last().copied();
        let (frame, is_close) = match frame_of(text) {
            Some(frame) => (frame, false),
            None => (frame_of(text.strip_suffix(b"--")?)?, true),
        };
        Some(Delimiter { frame, is_close, line, next: line + 2 + length })
    }

    /// Returns the start of the header section at `at`. Skips the `From ` line of mailbox files,
    /// which forwarded messages may keep.
    fn behind_mark(&self, at: usize) -> usize {
        let container = self.frames.last().and_then(|frame| self.entries.get(frame.entry));
        let rest = self.raw.get(at..).unwrap_or_default();
        let has_mark = rest.starts_with(b"From ") || rest.starts_with(b">From ");
        if !has_mark || container.is_none_or(|entry| entry.kind != Kind::Message) {
            return at;
        }
        self.lines.set(self.lines.get() + 1);
        let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
        if is_field(rest.get(..length).unwrap_or_default()) { at } else { at + length }
    }

    /// Tells whether a MIME field ends before a parameter: some programs do not indent the next
    /// line.
    fn wants_more(&self, field: Range<usize>) -> bool {
        let field = self.raw.get(field).unwrap_or_default();
        let is_mime = field.get(..8).is_some_and(|name| name.eq_ignore_ascii_case(b"content-"));
        is_mime && field.trim_ascii_end().ends_with(b";")
    }

    /// Reads the header section at `at`. Returns its fields, the start of the body, and the
    /// delimiter that cut it off, if any.
    fn head(&self, at: usize) -> Result<(Head, usize, Option<Delimiter>), StructureError> {
        let (mut head, mut line, mut fields) = (Head::default(), self.behind_mark(at), 0);
        let mut field: Option<Range<usize>> = None;
        loop {
            let rest = self.raw.get(line..).unwrap_or_default();
            self.lines.set(self.lines.get() + 1);
            let length = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            let text = rest.get(..length).unwrap_or_default();
            let delimiter = text
                .starts_with(b"--")
                .then(|| self.delimiter_at(line).filter(|_| !self.open.is_empty()))
                .flatten();
            let is_blank = text.trim_ascii().is_empty();
            let indented = matches!(text.first(), Some(b' ' | b'\t'));
            let is_begun = field.is_some();
            let begins =
                !(is_blank || (indented && is_begun)) && delimiter.is_none() && is_field(text);
            let folds = field.as_ref().is_some_and(|field| {
                let goes_on = || delimiter.is_none() && self.wants_more(field.clone());
                indented || (!begins && goes_on())
            });
            if begins || (folds && !is_blank) {
                if begins {
                    head.take(self.raw, field.replace(line..line));
                    fields += 1;
                }
                line += length;
                if let Some(field) = &mut field {
                    field.end = line;
                }
                if line - at > self.bounds.header_bytes || fields > self.bounds.header_fields {
                    return Err(StructureError::TooLongHeader);
                }
                continue;
            }
            head.take(self.raw, field);
            // A line that is no field belongs to the body. A delimiter leaves no body.
            let ends_head = is_blank && delimiter.is_none();
            return Ok((head, if ends_head { line + length } else { line }, delimiter));
        }
    }
}

/// Joins a value to one line if one of its lines is not indented; a parser would stop there.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    let is_broken = |pair: &[u8]| matches!(pair, [b'\n', next] if !matches!(next, b' ' | b'\t'));
    if !value.windows(2).any(is_broken) {
        return Cow::Borrowed(value);
    }
    let flat = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    Cow::Owned(value.iter().map(flat).collect())
}

/// Returns the text in the angle brackets of a Content-ID, or the whole value if there are none.
fn content_id(value: &[u8]) -> Option<String> {
    let text = str::from_utf8(value).ok()?.trim();
    let inner = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')).unwrap_or(text);
    (!inner.is_empty()).then(|| inner.to_owned())
}

/// Tells whether a line has a name of printable ASCII (RFC 5322 §2.2) and a colon. White space
/// before the colon is tolerated.
fn is_field(line: &[u8]) -> bool {
    let colon = memchr::memchr(b':', line);
    let name = colon.and_then(|colon| line.get(..colon)).unwrap_or_default().trim_ascii_end();
    !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

/// The fields of a header section that describe a part. Of repeated fields the last counts, as in
/// mail-parser.
#[derive(Default)]
struct Head {
    media: Option<MediaType>,
    odd_type: Option<String>,
    disposition: Option<String>,
    filename: Option<String>,
    content_id: Option<String>,
    encoding: Encoding,
    /// Last value of each of the three fields that must not be disputed.
    values: [Option<Vec<u8>>; 3],
    is_disputed: bool,
}

impl Head {
    fn take(&mut self, raw: &[u8], field: Option<Range<usize>>) {
        let Some(field) = field.and_then(|field| raw.get(field)) else { return };
        let Some(colon) = memchr::memchr(b':', field) else { return };
        let Some((name, value)) = field.split_at_checked(colon) else { return };
        let name = READ.iter().find(|known| known.names(name.trim_ascii_end()));
        let value = value.get(1..).unwrap_or_default();
        let value = unfolded(value.get(..READ_OF_FIELD).unwrap_or(value));
        let slot = match name {
            Some(KnownField::ContentType) => {
                self.media = media_type(&value);
                let is_type = self.media.as_ref().is_some_and(MediaType::is_valid);
                let written = || visible::name(&String::from_utf8_lossy(&value), SHOWN_OF_TYPE);
                self.odd_type = (!is_type).then(|| written().unwrap_or_default());
                0
            }
            Some(KnownField::ContentDisposition) => {
                (self.disposition, self.filename) = disposition(&value);
                1
            }
            Some(KnownField::ContentTransferEncoding) => {
                self.encoding = transfer_encoding(&value);
                2
            }
            Some(KnownField::ContentId) => {
                self.content_id = content_id(&value);
                return;
            }
            _ => return,
        };
        let Some(seen) = self.values.get_mut(slot) else { return };
        let value = value.trim_ascii().to_ascii_lowercase();
        self.is_disputed |= seen.replace(value.clone()).is_some_and(|seen| seen != value);
    }

    fn kind(&self, is_digest: bool) -> Kind {
        match &self.media {
            Some(media) if media.kind == "multipart" && media.boundary.is_some() => Kind::Multipart,
            Some(media) => {
                let is_message = media.kind == "message"
                    && matches!(media.subtype.as_deref(), Some("rfc822" | "global"));
                // Decoding an encoded one would multiply the memory used.
                let is_open = is_message && self.encoding == Encoding::None;
                if is_open { Kind::Message } else { Kind::Leaf }
            }
            None if is_digest && self.encoding == Encoding::None => Kind::Message,
            None => Kind::Leaf,
        }
    }
}

#[cfg(test)]
mod tests;
