//! `/conversations`, `/junkConversations`: the rooms of all Agents below the target, by inbox,
//! latest message first.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::room::Room;
use crate::domain::source::{Inbox, Source};
use crate::http::typed::{Call, Problem, WithHeaders, page, refused, successes, wrong};
use crate::store::{ListedRoom, RoomFilter, RoomPage};
use crate::wire::{Date, Id, Number, RoomId, Seconds, Word};

/// Rooms on a page by default, as in v2.
const USUAL: u32 = 20;

/// Lists the rooms of the inbox
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct List {
    /// Always true: rooms are listed page by page.
    #[schemars(extend("enum" = [true], "x-expected" = "true: rooms are listed page by page"))]
    #[expect(dead_code, reason = "v2 clients send it")]
    pagination: Option<bool>,
    /// The number of the page, from 0.
    #[schemars(extend("maximum" = "limits.max_walk"))]
    page: Option<u32>,
    /// Maximum number of rooms on a page.
    #[schemars(extend("minimum" = 1, "maximum" = "limits.max_page"))]
    page_size: Option<u32>,
    /// Only rooms with new messages.
    unread: Option<bool>,
    /// Only rooms after this one in the list: `next`, or a roomId.
    before: Option<String>,
}

/// Lists the rooms whose latest message is junk
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ListJunk(List);

/// A page of rooms.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Rooms {
    /// Maximum number of rooms on a page.
    page_size: u32,
    /// The number of the page, from 0.
    page_number: u32,
    /// How many rooms there are, from `before` on.
    total_rooms: u64,
    /// The room with the latest message first.
    rooms: Vec<ListedAs>,
    /// Send it as `before` to get the next page; null on the last page.
    next: Option<String>,
}

successes! { Rooms = OK "A page of rooms; v2 answers it without its envelope.", bare, pages; }

/// The conversation of a contact with an Agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Room")]
struct ListedAs {
    /// The room: contact and Agent.
    room_id: RoomId,
    /// The name of the contact, or else the address.
    #[schemars(example = &"The Boss")]
    name: String,
    /// The contact.
    id: Number,
    /// Known from v2; always null.
    image: Option<String>,
    /// Known from v2; always null.
    service_phone_number: Option<String>,
    /// Always false.
    unregistered: bool,
    /// The number or name of the contact; null for mail.
    unregistered_display_name: Option<String>,
    /// The inbox that shows the room.
    destination_inbox_type: Word<Inbox>,
    /// The beginning of the latest message.
    last_message: String,
    /// When the latest message came, in Unix seconds.
    last_message_timestamp: Seconds,
    /// When the latest message came.
    last_message_date: Date,
    /// Known from v2; always null.
    chat_agent_campaign_id: Option<String>,
    /// The Agent.
    agent_id: Number,
    /// The mailbox, telephone number or name of the contact.
    #[schemars(example = &"boss@good.example")]
    address: String,
    /// The channel.
    source: Word<Source>,
    /// The latest message.
    last_message_uuid: Id,
    /// How many messages there are.
    messages: u64,
    /// How many of the messages are new.
    unread: u64,
    /// When the first message came.
    started_at: Date,
}

/// Rooms whose latest message is shown in the inbox.
pub async fn inbox(call: Call, request: List) -> Result<WithHeaders<Rooms>, Problem> {
    list(&call, Inbox::Priority, request).await
}

/// Rooms whose latest message is junk.
pub async fn junk(call: Call, request: ListJunk) -> Result<WithHeaders<Rooms>, Problem> {
    list(&call, Inbox::Junk, request.0).await
}

/// Returns a page without the envelope, as in v2. A page by number lies within the rooms that one
/// request examines; `before` continues from `next` without that limit.
async fn list(call: &Call, inbox: Inbox, request: List) -> Result<WithHeaders<Rooms>, Problem> {
    let limits = &call.http.rules.limits;
    let size = request.page_size.unwrap_or(USUAL.min(limits.max_page));
    let deepest = (limits.max_walk / size).saturating_sub(1);
    let number = request.page.unwrap_or(0);
    if number > deepest {
        return Err(wrong(
            "page",
            format!(
                "must be a whole number from 0 to {deepest}: for later rooms, send next of an \
                 answer as before, or narrow the target"
            ),
        ));
    }
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    let before = match request.before.as_deref() {
        None => None,
        Some(text) => Some(match text.parse::<Room>() {
            Ok(room) => {
                let found = mailbox.room_place(scope, room).await?;
                found.ok_or_else(|| refused("before", &"this list has no such room"))?
            }
            Err(_) => text
                .parse()
                .map_err(|_| wrong("before", "must be a roomId, or next of an earlier answer"))?,
        }),
    };
    let filter = RoomFilter { inbox, unread: request.unread.unwrap_or(false) };
    let page = RoomPage { before, skip: number.saturating_mul(size), limit: size };
    let found = mailbox.rooms(scope, filter, page, limits.max_walk).await?;
    let next = found.next.map(|next| next.to_string());
    let list = Rooms {
        page_size: size,
        page_number: number,
        total_rooms: found.total,
        rooms: found.rooms.iter().map(listed).collect(),
        next: next.clone(),
    };
    Ok(page::followed(call, "before", next, list))
}

fn listed(room: &ListedRoom) -> ListedAs {
    let address = room.handle.address();
    ListedAs {
        room_id: RoomId(room.room),
        name: room.name.clone().unwrap_or_else(|| address.clone()),
        id: room.room.contact.into(),
        image: None,
        service_phone_number: None,
        unregistered: false,
        unregistered_display_name: (room.handle.source() != Source::Email).then(|| address.clone()),
        destination_inbox_type: Word(room.inbox),
        last_message: room.preview.clone(),
        last_message_timestamp: Seconds(room.last_at),
        last_message_date: Date(room.last_at),
        chat_agent_campaign_id: None,
        agent_id: room.room.agent.into(),
        address,
        source: Word(room.handle.source()),
        last_message_uuid: Id(room.last_message.0),
        messages: room.messages,
        unread: room.unread,
        started_at: Date(room.started_at),
    }
}
