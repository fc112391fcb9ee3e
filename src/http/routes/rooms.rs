//! `/conversations`, `/junkConversations`: the rooms of all Agents below the target, by inbox, the
//! one with the latest message first.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::json as answered;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::domain::source::{Inbox, Source};
use crate::store::{ListedRoom, RoomFilter, RoomPage};

/// The query of a list.
pub(in super::super) const LIST: [&str; 5] = ["pagination", "page", "pageSize", "unread", "before"];

/// Rooms on a page where no number is asked for: as v2 has it.
const USUAL: u32 = 20;

/// Rooms whose latest message is shown in the inbox.
pub(in super::super) async fn inbox(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    list(&http, &call, Inbox::Priority).await
}

/// Those whose latest message is junk.
pub(in super::super) async fn junk(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    list(&http, &call, Inbox::Junk).await
}

/// v2 answers this one without its envelope. A page by number lies within the rooms that one
/// request looks at; `before` goes on from the `next` of an answer, however many there are.
async fn list(http: &Http, call: &Call, inbox: Inbox) -> Result<Response, Problem> {
    let (query, limits) = (call.query(), &http.rules.limits);
    if query.flag("pagination")? == Some(false) {
        let detail = "rooms are listed page by page only: leave pagination out, or send true";
        return Err(Problem::invalid(detail));
    }
    let size = query.number("pageSize", 1..=limits.max_page)?.unwrap_or(USUAL.min(limits.max_page));
    let deepest = (limits.max_walk / size).saturating_sub(1);
    let number = query.number("page", 0..=u32::MAX)?.unwrap_or(0);
    if number > deepest {
        return Err(Problem::invalid(format!(
            "page must be a whole number from 0 to {deepest}: further on by before, with the next \
             of an answer, or with a narrower target"
        )));
    }
    let before = query.get("before").map(str::parse).transpose();
    let before = before.map_err(|error| Problem::invalid(format!("before {error}")))?;
    let filter = RoomFilter { inbox, unread: query.flag("unread")?.unwrap_or(false) };
    let page = RoomPage { before, skip: number.saturating_mul(size), limit: size };
    let mailbox = &http.use_cases.mailbox;
    let found = mailbox.rooms(&call.target().scope, filter, page, limits.max_walk).await?;
    let list = json!({
        "pageSize": size,
        "pageNumber": number,
        "totalRooms": found.total,
        "rooms": found.rooms.iter().map(room).collect::<Vec<_>>(),
        "next": found.next.map(|next| next.to_string()),
    });
    Ok(answered(StatusCode::OK, list.to_string()))
}

/// What v2 has no value for here is null.
fn room(room: &ListedRoom) -> Value {
    let address = room.handle.address();
    let number = (room.handle.source() != Source::Email).then_some(&address);
    json!({
        "roomId": room.room.to_string(),
        "name": room.name.as_ref().unwrap_or(&address),
        "id": room.room.contact.get(),
        "image": null,
        "servicePhoneNumber": null,
        "unregistered": false,
        "unregisteredDisplayName": number,
        "destinationInboxType": room.inbox.as_str(),
        "lastMessage": room.preview,
        "lastMessageTimestamp": room.last_at.seconds(),
        "chatAgentCampaignId": null,
        "agentId": room.room.agent.get(),
        "address": address,
        "source": room.handle.source().as_str(),
        "lastMessageUuid": room.last_message.to_string(),
        "messages": room.messages,
        "unread": room.unread,
        "startedAt": room.started_at.to_string(),
    })
}
