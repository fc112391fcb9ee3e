//! The HTML part of a message as a page for people: sanitised, with the message's own pictures, and
//! nothing loaded from elsewhere.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::bodies::bodies;
use super::charset;
use super::filename;
use super::html;
use super::labels;
use super::mail_parser_adapter::guarded;
use super::mime::{WIDEST, leaves};
use super::sanitise::sanitise;
use super::structure::Entry;

/// Limits of a page (`policies/access.toml`, `[media]`).
#[derive(Clone, Copy, Debug)]
pub struct PageBounds {
    /// Bytes of HTML.
    pub html_bytes: usize,
    pub tags: usize,
    /// Decoded bytes of all pictures; each counts as often as it is shown.
    pub picture_bytes: usize,
}

/// The HTML part of a message, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Made harmless by `filename::sanitise`.
    pub filename: String,
    pub shown: PageContent,
}

/// The content of the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// HTML in UTF-8.
    Html(String),
    /// Only its text, if the HTML is too large to be sanitised.
    Text(String),
}

/// Appended if the text is cut.
const CUT: &str = "\n\n[The HTML was cut here: the original has all of it.]\n";

/// Returns the part with this number if it is the HTML of the message (`emailHtml` in a record).
/// Returns None for others: attached HTML is a file.
pub fn page(raw: &[u8], index: u32, bounds: PageBounds) -> Option<Page> {
    let entries = guarded(|| labels::parts(raw, WIDEST))?.ok()?;
    let number = usize::try_from(index).ok()?;
    let first = bodies(&entries).html.into_iter().find(|at| is_html(entries.get(*at)));
    let entry = entries.get(number).filter(|_| first == Some(number))?;
    let label = entry.media.as_ref().and_then(|media| media.charset.as_deref());
    let octets = decoded(raw, entry)?;
    let read = charset::decode_html(&octets, label, bounds.html_bytes);
    let mut pictures = Pictures::of(raw, &entries, bounds.picture_bytes);
    let clean = match read.is_cut {
        true => None,
        false => {
            // A page whose hidden text cannot be told is shown as text.
            guarded(|| html::hidden_pieces(&read.text)).and_then(|hidden| {
                sanitise(&read.text, bounds.tags, &hidden, &mut |id| pictures.get(id))
            })
        }
    };
    let shown = match clean {
        Some(clean) => PageContent::Html(format!("<!doctype html>\n{clean}")),
        None => {
            let reading = guarded(|| html::read(&read.text, bounds.html_bytes, 0, &|_, _| false))?;
            let cut = if read.is_cut || reading.is_cut { CUT } else { "" };
            PageContent::Text(format!("{}{cut}", reading.text))
        }
    };
    Some(Page { filename: filename::sanitise(entry.name(), "text/html"), shown })
}

fn is_html(entry: Option<&Entry>) -> bool {
    entry.is_some_and(|entry| entry.is("text", "html"))
}

fn decoded(raw: &[u8], entry: &Entry) -> Option<Vec<u8>> {
    let body = raw.get(entry.body.clone())?;
    guarded(|| entry.transfer.decode(body).into_owned())
}

/// The pictures of a message, each decoded once.
struct Pictures<'m> {
    raw: &'m [u8],
    /// By Content-ID; of equal ones the first.
    named: BTreeMap<&'m str, &'m Entry>,
    made: BTreeMap<&'m str, Option<(usize, String)>>,
    left: usize,
}

impl<'m> Pictures<'m> {
    fn of(raw: &'m [u8], entries: &'m [Entry], left: usize) -> Self {
        let mut named = BTreeMap::new();
        for (_, entry) in leaves(entries) {
            if let Some(id) = entry.content_id.as_deref() {
                named.entry(id).or_insert(entry);
            }
        }
        Self { raw, named, made: BTreeMap::new(), left }
    }

    /// Returns the picture for a `cid:` URL with this name (RFC 2392 §2), as a `data:` URI.
    fn get(&mut self, name: &str) -> Option<String> {
        let name = percent_decoded(name)?;
        let (id, entry) = self.named.get_key_value(name.as_str())?;
        let (raw, left) = (self.raw, self.left);
        let made = self.made.entry(id).or_insert_with(|| {
            let octets = decoded(raw, entry).filter(|octets| octets.len() <= left)?;
            let kind = kind(&octets)?;
            Some((octets.len(), format!("data:{kind};base64,{}", STANDARD.encode(&octets))))
        });
        let (octets, uri) = made.as_ref()?;
        self.left = self.left.checked_sub(*octets)?;
        Some(uri.clone())
    }
}

/// Detects the image type from the bytes, whatever the part's label. Only raster images, which
/// cannot run code.
fn kind(octets: &[u8]) -> Option<&'static str> {
    let is_webp = octets.starts_with(b"RIFF") && octets.get(8..12) == Some(b"WEBP");
    match octets {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ => is_webp.then_some("image/webp"),
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        let hex = |digit: Option<u8>| char::from(digit?).to_digit(16);
        plain.push(match byte {
            b'%' => u8::try_from(hex(bytes.next())? * 16 + hex(bytes.next())?).ok()?,
            _ => byte,
        });
    }
    String::from_utf8(plain).ok()
}
