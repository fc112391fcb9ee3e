//! `recent_messages`, `search_messages`, `read_message`: lists with the beginning of each text, and
//! one message in parts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Answer, Call, renamed, within};
use super::letter::Cut;
pub(super) use super::letter::Letter;
use super::shapes::{self, Page};
use crate::http::error::Problem;
use crate::http::in_process::Asked;
use crate::http::in_process::shapes::Message;

/// Messages of a page: an answer that a model still reads.
pub(super) const USUAL: u32 = 10;
pub(super) const MOST: u32 = 20;
/// Characters of each text in a list.
const BEGINNING: Cut = Cut { offset: 0, length: 300 };
/// Characters of a text at a time.
const USUAL_LENGTH: u32 = 20_000;
const LONGEST: u32 = 50_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Recent {
    /// Only this inbox, from list_inboxes; without it all in reach.
    inbox: Option<i64>,
    /// How many messages at most.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<u32>,
    /// `next` of the page before.
    before: Option<String>,
}

/// Messages with the beginning of each text.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Letters {
    /// The messages; each text may be cut.
    messages: Vec<Letter>,
    /// Send it as `before` to get the next page; null on the last page.
    next: Option<String>,
}

pub(super) async fn recent(call: Call, request: Recent) -> Result<Answer<Letters>, Problem> {
    let limit = call.rows(request.limit, USUAL, MOST)?;
    let asked = call.on("listRecentMessages", request.inbox).with("limit", limit);
    let asked = asked.with("before", request.before.unwrap_or_default());
    let page = shapes::page(&call.api, asked).await?;
    Ok(list(&call, page, BEGINNING))
}

/// A page as an answer.
pub(super) fn list(call: &Call, page: Page<Message>, cut: Cut) -> Answer<Letters> {
    let messages: Vec<_> = page.rows.iter().map(|message| Letter::of(message, cut)).collect();
    let mut text = shown(call, &messages);
    match &page.next {
        Some(next) => text.push_str(&format!("\nMore messages: send before {next}.\n")),
        None => text.push_str("\nNo more messages.\n"),
    }
    Answer::of(text, Letters { messages, next: page.next })
}

/// Messages as text, behind the legend of the fence.
pub(super) fn shown(call: &Call, messages: &[Letter]) -> String {
    let each = messages.iter().map(|letter| format!("\n{}", letter.shown(&call.fence)));
    format!("{}{}", call.fence.legend(), each.collect::<String>())
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    /// Words of the message; "…" for a phrase, word* for a prefix.
    query: String,
    /// Only this inbox, from list_inboxes; without it all in reach.
    inbox: Option<i64>,
    /// Only messages from then on (RFC 3339).
    since: Option<String>,
    /// Only messages before then (RFC 3339).
    until: Option<String>,
    /// How many messages at most.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<u32>,
    /// `next` of the page before.
    before: Option<String>,
}

pub(super) async fn search(call: Call, request: Search) -> Result<Answer<Letters>, Problem> {
    let limit = call.rows(request.limit, USUAL, MOST)?;
    let asked = call.on("searchMessages", request.inbox).with("q", request.query);
    let asked = asked.with("since", request.since.unwrap_or_default());
    let asked = asked.with("until", request.until.unwrap_or_default()).with("limit", limit);
    let asked = asked.with("before", request.before.unwrap_or_default());
    let page = shapes::page(&call.api, asked).await;
    let page = page.map_err(renamed(&[("q", "query")]))?;
    Ok(list(&call, page, BEGINNING))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// The message.
    uuid: String,
    /// The first character to show: `nextOffset` of the part before.
    offset: Option<u32>,
    /// How many characters at most.
    #[schemars(range(min = 1, max = LONGEST))]
    length: Option<u32>,
}

pub(super) async fn read(call: Call, request: Read) -> Result<Answer<Letter>, Problem> {
    let cut = cut(request.offset, request.length)?;
    let letter = Letter::of(&message(&call, &request.uuid).await?, cut);
    let text = shown(&call, std::slice::from_ref(&letter));
    Ok(Answer::of(text, letter))
}

/// The part of a text that a request names.
pub(super) fn cut(offset: Option<u32>, length: Option<u32>) -> Result<Cut, Problem> {
    let length = within("length", length, USUAL_LENGTH, LONGEST)?;
    let characters = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(Cut { offset: characters(offset.unwrap_or(0)), length: characters(length) })
}

/// The message of this id.
pub(super) async fn message(call: &Call, uuid: &str) -> Result<Message, Problem> {
    call.api.ask(Asked::of("getMessage").on(call.home()).at(uuid)).await
}
