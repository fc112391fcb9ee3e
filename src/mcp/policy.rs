//! `get_policy` and `allow_sender`: who may write to an inbox.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::call::{Answer, Call};
use crate::http::error::Problem;

/// Senders of a page.
const USUAL: u32 = 50;
const MOST: u32 = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Get {
    /// The inbox, from list_inboxes; may be left out with a key of one inbox.
    inbox: Option<i64>,
    /// How many senders at most.
    #[schemars(range(min = 1, max = MOST))]
    limit: Option<u32>,
    /// `next` of the page before.
    after: Option<String>,
}

/// The senders that may write to an inbox.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Policy {
    /// The inbox.
    inbox: i64,
    /// allowlist admits the senders on the list, open any authenticated sender.
    mode: String,
    /// Number of senders on the list.
    total: u64,
    /// The senders on the list, by address.
    senders: Vec<Sender>,
    /// Send it as `after` to get the next page; null on the last page.
    next: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Sender {
    /// The address.
    email: String,
    /// Why the sender is on the list.
    note: Option<String>,
    /// When the sender was added.
    added_at: String,
}

#[derive(Deserialize)]
struct Shown {
    policy: Mode,
}

#[derive(Deserialize)]
struct Mode {
    mode: String,
}

#[derive(Deserialize)]
struct Listed {
    whitelist: Vec<Sender>,
    total: u64,
    next: Option<String>,
}

pub(super) async fn get(call: Call, request: Get) -> Result<Answer<Policy>, Problem> {
    let limit = call.rows(request.limit, USUAL, MOST)?;
    let inbox = call.one_inbox(request.inbox)?;
    let Shown { policy } = call.api.ask(call.on("getInboundPolicy", Some(inbox))).await?;
    let asked = call.on("listSenders", Some(inbox)).with("limit", limit);
    let asked = asked.with("after", request.after.unwrap_or_default());
    let Listed { whitelist: senders, total, next } = call.api.ask(asked).await?;
    Answer::plain(Policy { inbox, mode: policy.mode, total, senders, next })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Allow {
    /// The inbox, from list_inboxes; may be left out with a key of one inbox.
    inbox: Option<i64>,
    /// The address of the sender.
    sender: String,
    /// Why the sender is on the list.
    note: Option<String>,
}

/// The allowlist after the change.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Allowed {
    /// The inbox.
    inbox: i64,
    /// Senders that are new on the list, normalised.
    added: Vec<String>,
    /// Senders that were on the list before.
    existing: Vec<String>,
    /// Number of senders on the list.
    total: u64,
    /// Warnings about the sender, such as a look-alike domain.
    warnings: Vec<String>,
}

#[derive(Deserialize)]
struct Added {
    added: Vec<String>,
    existing: Vec<String>,
    total: u64,
    warnings: Vec<Warning>,
}

#[derive(Deserialize)]
struct Warning {
    warning: String,
}

pub(super) async fn allow(call: Call, request: Allow) -> Result<Answer<Allowed>, Problem> {
    let inbox = call.one_inbox(request.inbox)?;
    let mut body = json!({ "email": request.sender });
    if let (Some(note), Some(fields)) = (request.note, body.as_object_mut()) {
        fields.insert("note".to_owned(), note.into());
    }
    let asked = call.on("addSenders", Some(inbox)).sends(body);
    let Added { added, existing, total, warnings } = call.api.ask(asked).await?;
    let warnings = warnings.into_iter().map(|one| one.warning).collect();
    Answer::plain(Allowed { inbox, added, existing, total, warnings })
}
