//! Effects of unsigned fields on the body. Adding one to a signed message can turn its text into a
//! file, into other text, or into parts with hidden text between them, without breaking the
//! signature (threats A23). A type that was removed cannot be reported.

use super::elements::is_markup;
use super::fields::KnownField;
use super::mime::{self, Content};
use super::structure::{Entry, Kind};
use super::tags::{Piece, Pieces};

/// Longest notice before the first part, in bytes.
const LONGEST_NOTICE: usize = 200;

/// Describes how each `unsigned` field affects the body. The delimiters and the fields of parts are
/// in the signed body, but Content-Type decides which lines are delimiters.
pub(super) fn effects(content: &Content, unsigned: &[KnownField]) -> Vec<String> {
    let Some(root) = &content.root else { return Vec::new() };
    let told = |field: &KnownField| {
        let does = effect(content, root, *field);
        (!does.is_empty())
            .then(|| format!("{} is not signed, and {}", field.as_str(), does.join(", and ")))
    };
    unsigned.iter().filter_map(told).collect()
}

fn effect(content: &Content, root: &Entry, field: KnownField) -> Vec<String> {
    let attaches = |is_so: bool| is_so.then(|| "makes the body an attachment".to_owned());
    let decodes = |name: &str| Some(format!("has the body decoded as {name}"));
    let (is_plain, is_html) = (root.is("text", "plain"), root.is("text", "html"));
    let effects = match field {
        KnownField::ContentType if root.kind == Kind::Multipart => [content.left_out.told(), None],
        _ if root.kind == Kind::Multipart => [None, None],
        KnownField::ContentDisposition => {
            let is_other = root.disposition.as_deref().is_some_and(|kind| kind != "inline");
            [attaches(is_other || root.is_disputed), None]
        }
        KnownField::ContentType if !(is_plain || is_html) => [attaches(true), None],
        KnownField::ContentType => {
            let kind = if is_html {
                Some("has the body read as HTML")
            } else {
                has_markup(&content.readable.text)
                    .then_some("has the body read as plain text, with HTML in it")
            };
            // Text in these charsets reads the same without the field.
            let charset = mime::charset(root)
                .filter(|name| !["utf-8", "us-ascii"].contains(&name.as_str()))
                .and_then(|name| decodes(&name));
            [kind.map(str::to_owned), charset]
        }
        KnownField::ContentTransferEncoding => [root.transfer.decodes().and_then(decodes), None],
        _ => [None, None],
    };
    effects.into_iter().flatten().collect()
}

/// Tells whether a browser would find a tag in the text.
fn has_markup(text: &str) -> bool {
    Pieces::new(text).any(|piece| match piece {
        Piece::Open(tag) => is_markup(tag.name.as_str()),
        Piece::Close(name) | Piece::Raw(name, _) => is_markup(name.as_str()),
        Piece::Text(_) | Piece::Comment(_) => false,
    })
}

/// Text of a multipart outside its parts, which nobody sees (RFC 2046 §5.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    before: bool,
    behind: bool,
}

impl LeftOut {
    /// Examines the root of `entries`.
    pub(super) fn of(raw: &[u8], entries: &[Entry]) -> Self {
        let root = entries.first().filter(|root| root.kind == Kind::Multipart);
        let boundary = root.and_then(|root| root.media.as_ref()?.boundary.as_deref());
        let last = entries.iter().rfind(|entry| entry.parent == Some(0));
        let (Some(root), Some(boundary), Some(last)) = (root, boundary, last) else {
            return Self::default();
        };
        let is_delimiter = |line: &&[u8]| {
            line.strip_prefix(b"--").is_some_and(|text| text.trim_ascii_end() == boundary)
        };
        let body = raw.get(root.body.clone()).unwrap_or_default();
        let lines = body.split_inclusive(|octet| *octet == b'\n');
        let before: usize = lines.take_while(|line| !is_delimiter(line)).map(<[u8]>::len).sum();
        let before = body.get(..before).unwrap_or_default().trim_ascii();
        let behind = raw.get(last.body.end..root.body.end).unwrap_or_default().trim_ascii();
        // The first line is the last delimiter.
        let behind = memchr::memchr(b'\n', behind).is_some();
        Self { before: !before.is_empty() && !is_notice(before), behind }
    }

    fn told(self) -> Option<String> {
        let places = match (self.before, self.behind) {
            (true, true) => "before and behind",
            (true, false) => "before",
            (false, true) => "behind",
            (false, false) => return None,
        };
        Some(format!("leaves out text {places} its parts"))
    }
}

/// Tells whether the text is the notice for programs without MIME ("This is a multi-part message in
/// MIME format."). It is in the signed body, so nobody on the way added it.
fn is_notice(text: &[u8]) -> bool {
    let text = text.get(..=LONGEST_NOTICE).unwrap_or(text).to_ascii_lowercase();
    let is_line = text.len() <= LONGEST_NOTICE && memchr::memchr(b'\n', &text).is_none();
    is_line && text.starts_with(b"this ") && memchr::memmem::find(&text, b"mime").is_some()
}
