//! The original of a message as text: its header fields and its body, as they came.

use askama::Template;
use axum::body::Body;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use futures_util::StreamExt as _;

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;

/// Octets of an original that are shown: escaped they are six times as many at most.
const SHOWN: usize = 262_144;

#[derive(Template)]
#[template(path = "source.html", config = "src/console/templates/askama.toml")]
struct SourcePage {
    frame: Frame,
    uuid: String,
    /// Those of mail; other messages came as JSON.
    fields: Vec<Field>,
    body: String,
    /// Octets of the original.
    size: u64,
    is_cut: bool,
}

/// A header field, with its folding.
struct Field {
    name: String,
    value: String,
}

/// Shows the first octets of the original.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let uuid = visit.segment("uuid").to_owned();
    let answer = visit.api.perform(visit.on("getRawMessage").at(&uuid)).await?;
    let (head, body) = answer.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    let is_mail = header(CONTENT_TYPE) == Some("message/rfc822");
    let size = header(CONTENT_LENGTH).and_then(|size| size.parse().ok()).unwrap_or_default();
    let (raw, is_cut) = beginning(body).await?;
    let shown = String::from_utf8_lossy(&raw);
    let (head, body) = match is_mail {
        true => shown.split_once("\r\n\r\n").unwrap_or((&shown, "")),
        false => ("", &*shown),
    };
    let (fields, body) = (fields(head), body.to_owned());
    let frame = visit.frame(Section::Rooms).await?;
    let page = SourcePage { frame, uuid, fields, body, size, is_cut };
    // Reading the original took a place and gave it back: two at once could wait for each other.
    Answer::large_page(&visit, &page).await
}

/// The first octets, and whether there are more. The original and its place are free afterwards.
async fn beginning(body: Body) -> Result<(Vec<u8>, bool), Problem> {
    let (mut pieces, mut raw) = (body.into_data_stream(), Vec::new());
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(Problem::internal)?;
        let room = SHOWN - raw.len();
        raw.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if piece.len() > room {
            return Ok((raw, true));
        }
    }
    Ok((raw, false))
}

/// Returns the fields in their order; lines that continue a field stay lines of its value.
fn fields(head: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for line in head.split_terminator("\r\n") {
        match (fields.last_mut(), line.split_once(':')) {
            (Some(last), _) if line.starts_with([' ', '\t']) => {
                last.value.push('\n');
                last.value.push_str(line);
            }
            (_, split) => {
                let (name, value) = split.unwrap_or(("", line));
                fields.push(Field { name: name.to_owned(), value: value.trim_start().to_owned() });
            }
        }
    }
    fields
}
