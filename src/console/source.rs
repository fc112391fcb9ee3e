//! The original of a message as text: its header fields and its body, as they came.

use askama::Template;
use axum::body::to_bytes;

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::http::error::Problem;

/// Octets of an original that are shown; all of it can be saved.
const SHOWN: usize = 262_144;

#[derive(Template)]
#[template(path = "source.html", config = "src/console/templates/askama.toml")]
struct SourcePage {
    frame: Frame,
    uuid: String,
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
    let raw = to_bytes(answer.into_body(), usize::MAX).await.map_err(Problem::internal)?;
    let size = u64::try_from(raw.len()).unwrap_or(u64::MAX);
    let is_cut = raw.len() > SHOWN;
    let shown = String::from_utf8_lossy(raw.get(..SHOWN).unwrap_or(&raw));
    let (head, body) = shown.split_once("\r\n\r\n").unwrap_or((&shown, ""));
    let (fields, body) = (fields(head), body.to_owned());
    let frame = visit.frame(Section::Rooms).await?;
    Answer::page(&SourcePage { frame, uuid, fields, body, size, is_cut })
}

/// Returns the fields in their order; lines that continue a field stay lines of its value.
fn fields(head: &str) -> Vec<Field> {
    let mut fields: Vec<Field> = Vec::new();
    for line in head.split("\r\n") {
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
