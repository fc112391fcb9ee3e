//! `GET /media/{uuid}/{filename}`: one part of a message. The message's id and the number before the
//! first hyphen find it; the rest must be its name, so that no link ever leads to another file.

use std::sync::Arc;

use axum::response::Response;

use super::super::Http;
use super::super::answer::{download, place};
use super::super::call::Call;
use super::super::error::Problem;
use crate::domain::id::MessageId;
use crate::mail::mime::{self, Part};

/// The part, decoded, under the name that its message gave it.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let missing = || Problem::not_found("attachment");
    let id = MessageId(call.uuid("uuid")?);
    let (index, name) = asked(call.path("filename")).ok_or_else(missing)?;
    let place = place(&http).await?;
    let raw = http.use_cases.mailbox.raw(&call.target().scope, id).await?.ok_or_else(missing)?;
    // Decoding tens of megabytes would hold up every other request of this thread.
    let part = tokio::task::spawn_blocking(move || mime::part(&raw, index)).await;
    let part = part.map_err(|error| Problem::internal(format!("a part was not read: {error}")))?;
    let part = part.filter(|part| part.is_called(name)).ok_or_else(missing)?;
    let content_type = safe_type(&part);
    Ok(download(part.bytes, &content_type, &part.filename, place))
}

/// The part's number, which the record wrote before the name, and the name.
fn asked(filename: &str) -> Option<(u32, &str)> {
    let (number, name) = filename.split_once('-')?;
    let canonical = number.bytes().all(|digit| digit.is_ascii_digit());
    Some((number.parse().ok().filter(|_| canonical)?, name))
}

/// Types that a browser shows without running anything in them. Everything else is served as
/// octets: HTML, SVG, XML, scripts, and whatever comes next (threats D6).
fn safe_type(part: &Part) -> String {
    const TEXTS: [&str; 4] = ["text/plain", "text/csv", "text/calendar", "text/vcard"];
    const OTHERS: [&str; 14] = [
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
        // UTF-7 can hide markup in plain letters.
        return match part.charset.as_deref().filter(|charset| *charset != "utf-7") {
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
        assert_eq!(shown("text/plain", Some("utf-7")), "text/plain");
    }
}
