//! `/conversation/…`: the messages that answer each other, as a dialogue; of one thread, page by
//! page, or of many at once.

use std::collections::HashMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::{json as answered, success};
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::query::quoted;
use super::super::state::Http;
use crate::app::mailbox::conversations::{Bounds, Conversation, Turn};
use crate::domain::clock::Timestamp;
use crate::domain::id::MessageId;
use crate::domain::message::Message;
use crate::domain::room::Room;
use crate::store::{Cursor, Direction, Page};
use crate::wire::uuid;

/// Items of one batch: v2's number.
const MOST: usize = 200;

/// The thread of a message in its room, the oldest first; `after` goes on from `next`.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let (room, id) = (call.room()?, MessageId(call.uuid("uuid")?));
    let limit = page::limit(&call, &http.rules)?;
    let first = Cursor { at: Timestamp::from_millis(0), id: uuid::Uuid::nil() };
    let from = page::cursor(&call, "after")?.unwrap_or(first);
    let (mailbox, scope) = (&http.use_cases.mailbox, &call.target().scope);
    let found = mailbox.find(scope, room, id).await?.ok_or_else(missing)?;
    let thread = Some(found.thread);
    let page = Page { limit, from: Some((Direction::After, from)), until: None };
    let part = |part: Page| async move { mailbox.room_messages(scope, room, thread, &part).await };
    let show = |message: &Message| {
        (Cursor { at: message.at, id: message.id.0 }, turn(&Turn::of(message)).to_string())
    };
    let rows = page::read(&http.rules, page, part, show).await?;
    let turns: Vec<&str> = rows.texts.iter().rev().map(|(_, text)| text.as_str()).collect();
    let next = rows.newest_if_more().map(|cursor| cursor.to_string());
    // Written by hand, so that the texts are written once.
    Ok(answered(
        StatusCode::OK,
        format!(
            r#"{{"success":true,"message":"conversation found","roomId":"{room}","threadId":"{}","next":{},"conversation":[{}]}}"#,
            found.thread,
            json!(next),
            turns.join(",")
        ),
    ))
}

/// Threads of many rooms, each whole, with an answer of its own: one that is not there, or is too
/// much beside the others, fails no other. With `markRead` the rooms are read up to the messages
/// that were named and shown.
pub(in super::super) async fn batch(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let items = items(&call)?;
    let mark_read = call.body().flag("markRead")?.unwrap_or(false);
    let limits = &http.rules.limits;
    let bounds = Bounds { messages: limits.max_page, octets: limits.max_page_bytes };
    let named: Vec<(Room, MessageId)> = items.iter().filter_map(Item::named).collect();
    let (mailbox, scope) = (&http.use_cases.mailbox, &call.target().scope);
    let found = mailbox.conversations(scope, &named, bounds).await?;
    let found: HashMap<(Room, MessageId), &Conversation> =
        named.iter().copied().zip(&found).collect();
    let (mut marks, mut results) = (Vec::new(), Vec::with_capacity(items.len()));
    for item in &items {
        let conversation = item.named().and_then(|named| found.get(&named).copied());
        if let Some(Conversation::Whole(found, _)) = conversation {
            marks.push((found.room, found.place));
        }
        results.push(result(item, conversation));
    }
    if mark_read {
        mailbox.mark_read(scope, &marks).await?;
    }
    let fields = json!({
        "stats": {
            "requested": items.len(),
            "ok": marks.len(),
            "failed": items.len().saturating_sub(marks.len()),
        },
        "results": results,
    });
    Ok(success(StatusCode::OK, "conversations read, each with its own result", fields))
}

fn missing() -> Problem {
    Problem::not_found("message in such a room")
}

/// What was asked for, as it was written.
struct Item {
    room: String,
    uuid: String,
}

impl Item {
    fn named(&self) -> Option<(Room, MessageId)> {
        Some((self.room.parse().ok()?, MessageId(uuid(&self.uuid)?)))
    }
}

fn items(call: &Call) -> Result<Vec<Item>, Problem> {
    let shape = || {
        Problem::invalid(format!(
            "field items must be an array of 1 to {MOST} objects {{roomId, uuid}}, both strings"
        ))
    };
    let items = call.body().get("items").and_then(Value::as_array).ok_or_else(shape)?;
    if items.is_empty() || items.len() > MOST {
        return Err(shape());
    }
    let read = |item: &Value| {
        let fields = item.as_object().ok_or_else(shape)?;
        let known = |name: &String| ["roomId", "uuid"].contains(&name.as_str());
        if let Some(name) = fields.keys().find(|name| !known(name)) {
            let name = quoted(name);
            return Err(Problem::invalid(format!("items: field {name} is not known there")));
        }
        let text = |name: &str| text(fields, name).ok_or_else(shape);
        Ok(Item { room: text("roomId")?, uuid: text("uuid")? })
    };
    items.iter().map(read).collect()
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name)?.as_str().map(ToOwned::to_owned)
}

fn result(item: &Item, conversation: Option<&Conversation>) -> Value {
    let (success, message, turns) = match conversation {
        Some(Conversation::Whole(_, turns)) => (true, "conversation found", turns.as_slice()),
        Some(Conversation::Missing) => {
            (false, "there is no such message in such a room in the scope of this request", &[][..])
        }
        Some(Conversation::TooLong) => {
            let message = "too long beside the others: ask for it alone, \
                           GET /conversation/{roomId}/{uuid}";
            (false, message, &[][..])
        }
        None => {
            let message =
                "roomId must be \"<contactId>:<agentId>\" and uuid a UUID, as answers show them";
            (false, message, &[][..])
        }
    };
    json!({
        "success": success,
        "roomId": item.room,
        "uuid": item.uuid,
        "message": message,
        "conversation": turns.iter().map(turn).collect::<Vec<_>>(),
    })
}

/// Everybody who writes to an Agent is its `user`.
fn turn(turn: &Turn) -> Value {
    json!({
        "uuid": turn.id.to_string(),
        "role": "user",
        "message": turn.text,
        "timestamp": turn.at.seconds(),
        "date": turn.at.to_string(),
        "source": turn.source.as_str(),
    })
}
