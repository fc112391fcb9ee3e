//! Messages and attachments as resources: `gatepost://messages/UUID` and
//! `gatepost://messages/UUID/parts/NUMBER`. Names and descriptions hold nothing that a sender wrote
//! but the domain that is proven.

use std::fmt::Write as _;

use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use super::call::Call;
use super::letter::{Cut, Letter};
use super::shapes::{self, Page, Proof};
use super::{attachments, messages};
use crate::http::error::{Code, Problem};
use crate::http::in_process::shapes::Message;

const ROOT: &str = "gatepost://messages/";
/// Characters of a text that is read as a resource: get_attachment and read_message have the rest.
const WHOLE: Cut = Cut { offset: 0, length: 200_000 };

pub(super) fn part_uri(uuid: &str, part: u32) -> String {
    format!("{ROOT}{uuid}/parts/{part}")
}

/// The latest messages in reach, a page at a time.
pub(super) async fn list(
    call: &Call,
    cursor: Option<String>,
) -> Result<ListResourcesResult, Problem> {
    let rows = call.rows(None, messages::MOST, messages::MOST)?;
    let asked = call.on("listRecentMessages", None).with("limit", rows);
    let asked = asked.with("before", cursor.unwrap_or_default());
    let page: Page<Message> = shapes::page(&call.api, asked).await?;
    let mut listed = ListResourcesResult::with_all_items(page.rows.iter().map(resource).collect());
    listed.next_cursor = page.next;
    Ok(listed)
}

fn resource(message: &Message) -> Resource {
    let by = match message.proof() {
        None => format!("by {}, no sender proven", message.source),
        Some(Proof { by: "arc", domain }) => format!("by email, sender vouched for by {domain}"),
        Some(Proof { domain, .. }) => format!("by email, sender proven by {domain}"),
    };
    let about = format!("Received {} in inbox {} {by}", message.date, message.agent());
    Resource::new(format!("{ROOT}{}", message.uuid), format!("message {}", message.uuid))
        .with_description(about)
        .with_mime_type("text/plain")
}

pub(super) fn templates() -> ListResourceTemplatesResult {
    let message = ResourceTemplate::new(format!("{ROOT}{{uuid}}"), "message")
        .with_description("A message: who proved to be its sender, and what it says, in a fence")
        .with_mime_type("text/plain");
    let part = ResourceTemplate::new(format!("{ROOT}{{uuid}}/parts/{{part}}"), "attachment")
        .with_description("A file of a message, by the number that the message shows");
    ListResourceTemplatesResult::with_all_items(vec![message, part])
}

/// Reads a message or a file of it.
pub(super) async fn read(call: &Call, uri: &str) -> Result<ReadResourceResult, Problem> {
    let unknown = || Problem::not_found("resource");
    let place = uri.strip_prefix(ROOT).ok_or_else(unknown)?;
    let Some((uuid, part)) = place.split_once("/parts/") else {
        let letter = Letter::of(&messages::message(call, place).await?, WHOLE);
        let text = messages::shown(call, &[letter]);
        return Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri)]));
    };
    let part: u32 = part.parse().map_err(|_| unknown())?;
    let file = attachments::file(call, uuid, part).await?;
    let contents = match file.text() {
        Some(text) => {
            let (beginning, next) = WHOLE.of(&text);
            let mut text = call.fence.legend() + &file.letter.known();
            text.push_str(&call.fence.around("the text of the file", &beginning));
            if let Some(next) = next {
                let _written = writeln!(
                    text,
                    "The text goes on: get_attachment with uuid {uuid}, part {part} and offset {next}."
                );
            }
            ResourceContents::text(text, uri)
        }
        None => ResourceContents::blob(file.base64(), uri).with_mime_type(file.known_type()),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// An error as the protocol has it: a resource that does not exist is told apart.
pub(super) fn refused(problem: Problem) -> ErrorData {
    let problem = problem.masked();
    match problem.code {
        Code::NotFound => ErrorData::resource_not_found(problem.detail, None),
        code if code.status().is_client_error() => ErrorData::invalid_params(problem.detail, None),
        _ => ErrorData::internal_error(problem.detail, None),
    }
}
