//! `GET /media/{uuid}/{filename}`: one part of a message, found by the message's id and the number
//! before the first hyphen. The rest must be the part's name, so that no link ever leads to another
//! file.
//!
//! HTML is served as a page that is safe to show; with `original=true` as the received bytes, like
//! any other part.

use axum::response::Response;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::domain::id::MessageId;
use crate::http::answer::file::{File, entity_tag, not_modified};
use crate::http::passage::linked::part;
use crate::http::request::call::{Call, FileRequest, Visit};
use crate::http::typed::{Download, MediaTypes, Problem};
use crate::mail::mime::{self, Part};
use crate::mail::page::{self, PageBounds, PageContent};
use crate::wire::Id;

/// Fetches a part of a message
///
/// HTML becomes a page that is safe to show. Types in which a browser could run something are sent
/// as application/octet-stream, all others unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Fetch {
    /// The message.
    uuid: Id,
    /// The number and the name of the part, as records show them.
    #[schemars(example = &"3-invoice.pdf")]
    filename: String,
    /// Whether to fetch HTML as the received bytes instead of a safe page.
    original: Option<bool>,
}

/// A part.
#[derive(Debug)]
pub struct AnyPart;

impl MediaTypes for AnyPart {
    const TYPES: &'static [&'static str] =
        &["text/html", "text/plain", "application/octet-stream", "*/*"];
}

/// Returns the part, under its name in the message.
pub async fn show(call: Call, request: Fetch) -> Result<Download<AnyPart>, Problem> {
    let file = call.file_of(MessageId(request.uuid.0));
    let original = request.original.unwrap_or(false);
    serve(file, &request.filename, original).await.map(Download::of)
}

/// Returns the part to a client with a signed link.
pub(in crate::http) async fn show_by_link(visit: Visit) -> Result<Response, Problem> {
    let original = visit.query.flag("original")?.unwrap_or(false);
    serve(visit.file(), &visit.filename, original).await
}

/// A part of a message, as a request names it.
struct WantedPart {
    index: u32,
    name: String,
    /// Whether HTML is sent as it was received.
    original: bool,
    bounds: PageBounds,
    tag: String,
}

async fn serve(file: FileRequest<'_>, filename: &str, original: bool) -> Result<Response, Problem> {
    let FileRequest { http, message: id, scope, reader, conditions } = file;
    let missing = || Problem::not_found("attachment");
    let (index, name) = part(filename).ok_or_else(missing)?;
    let mailbox = http.use_cases.mailbox.clone();
    let found = mailbox.original(scope, id).await?.ok_or_else(missing)?;
    let media = &http.rules.media;
    let bounds = PageBounds {
        html_bytes: media.max_html_bytes,
        tags: media.max_html_tags,
        picture_bytes: media.max_picture_bytes,
    };
    // All inputs of the file, this version included: the tag is known without reading the message.
    let (digest, version) = (found.digest, env!("CARGO_PKG_VERSION"));
    let tag = entity_tag(&format!("{digest} {index} {original} {bounds:?} {version} {name}"));
    if conditions.have(&tag) {
        return Ok(not_modified(&tag));
    }
    let place = http.downloads.place(reader).await?;
    let wanted = WantedPart { index, name: name.to_owned(), original, bounds, tag };
    let scope = scope.clone();
    let work = async move {
        let Some(raw) = mailbox.raw(&scope, id).await? else { return Ok(None) };
        // Decoding tens of megabytes would block all other requests of this thread.
        let made = tokio::task::spawn_blocking(move || wanted.file(&raw));
        made.await.map_err(|error| Problem::internal(format!("a part was not read: {error}")))
    };
    let (made, place) = place.during(work).await?;
    Ok(made.ok_or_else(missing)?.answer(conditions, place))
}

impl WantedPart {
    /// Returns the part with this number and name, ready to serve.
    fn file(self, raw: &[u8]) -> Option<File> {
        let Self { index, name, original, bounds, tag } = self;
        let part = mime::part(raw, index).filter(|part| part.is_called(&name))?;
        let is_page = !original && part.content_type == "text/html";
        if let Some(page) = is_page.then(|| page::page(raw, index, bounds)).flatten() {
            return Some(match page.shown {
                PageContent::Html(html) => {
                    File::shown(html, "text/html; charset=utf-8", &page.filename, tag)
                }
                PageContent::Text(text) => {
                    let filename = format!("{}.txt", page.filename);
                    File::shown(text, "text/plain; charset=utf-8", &filename, tag)
                }
            });
        }
        let content_type = safe_type(&part);
        Some(File::saved(part.bytes, content_type, &part.filename, tag))
    }
}

/// Returns the part's type if a browser shows it without running anything. Everything else becomes
/// application/octet-stream: HTML, SVG, XML, scripts, and future types (threats D6).
fn safe_type(part: &Part) -> String {
    const TEXTS: &[&str] = &["text/plain", "text/csv", "text/calendar", "text/vcard"];
    const OTHERS: &[&str] = &[
        "application/gzip",
        "application/json",
        "application/msword",
        "application/pdf",
        "application/pkcs7-signature",
        "application/rtf",
        "application/zip",
        "image/avif",
        "image/bmp",
        "image/gif",
        "image/heic",
        "image/jpeg",
        "image/png",
        "image/webp",
    ];
    let name = part.content_type.as_str();
    if TEXTS.contains(&name) {
        // UTF-7, under any name, can hide markup in plain letters.
        let is_utf7 = |charset: &str| charset.replace(['-', '_'], "").contains("utf7");
        return match part.charset.as_deref().filter(|charset| !is_utf7(charset)) {
            Some(charset) => format!("{name}; charset={charset}"),
            None => name.to_owned(),
        };
    }
    let office = name.starts_with("application/vnd.") && !name.ends_with("+xml");
    let playable = name.starts_with("audio/") || name.starts_with("video/");
    if office || playable || OTHERS.contains(&name) {
        name.to_owned()
    } else {
        "application/octet-stream".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content_type: &str, charset: Option<&str>) -> String {
        safe_type(&Part {
            content_type: content_type.into(),
            charset: charset.map(str::to_owned),
            filename: "x".into(),
            bytes: vec![],
        })
    }

    #[test]
    fn active_types_are_octets() {
        for active in [
            "text/html",
            "image/svg+xml",
            "text/xml",
            "application/xml",
            "application/xhtml+xml",
            "application/vnd.x+xml",
            "text/javascript",
            "application/x-shockwave-flash",
            "multipart/x-mixed-replace",
            "message/rfc822",
            "",
        ] {
            assert_eq!(shown(active, Some("utf-8")), "application/octet-stream", "{active}");
        }
        assert_eq!(shown("image/png", None), "image/png");
        assert_eq!(shown("text/plain", Some("iso-8859-1")), "text/plain; charset=iso-8859-1");
        for charset in ["utf-7", "utf7", "unicode-1-1-utf-7", "csunicode11utf7", "utf_7"] {
            assert_eq!(shown("text/plain", Some(charset)), "text/plain", "{charset}");
        }
    }
}
