//! `/conversation/…`: threads of messages as dialogues, one page of a thread or many threads at
//! once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::mailbox::conversations::{self, Bounds, Conversation, RoomEntry};
use crate::domain::clock::Timestamp;
use crate::domain::id::MessageId;
use crate::domain::room::Room;
use crate::domain::source::Source;
use crate::http::routes::messages;
use crate::http::typed::{Call, Limit, ListPlace, Problem, WithHeaders, page, refused, successes};
use crate::store::{Cursor, Direction, Page};
use crate::wire::{Date, Id, RoomId, Seconds, Texts, Word, uuid};

/// Most items of a batch, as in v2.
const MOST: usize = 200;

/// A message of a conversation, or a reply to it.
#[derive(Debug, Serialize, JsonSchema)]
struct Turn {
    /// The message, or the reply.
    uuid: Id,
    /// The speaker: anyone who writes to an Agent is its user; a reply is the Agent's.
    #[schemars(extend("enum" = ["user", "assistant"]))]
    role: &'static str,
    /// The text, without quotes.
    message: String,
    /// When the message came, in Unix seconds.
    timestamp: Seconds,
    /// When the message came.
    date: Date,
    /// The channel.
    source: Word<Source>,
}

impl From<conversations::Turn> for Turn {
    fn from(turn: conversations::Turn) -> Self {
        Self {
            uuid: Id(turn.place.id),
            role: if turn.is_reply { "assistant" } else { "user" },
            message: turn.text,
            timestamp: Seconds(turn.place.at),
            date: Date(turn.place.at),
            source: Word(turn.source),
        }
    }
}

/// Shows the thread of a message
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// The room: contact and Agent.
    room_id: RoomId,
    /// A message of the room.
    uuid: Id,
    limit: Option<Limit>,
    /// Only newer messages: `next`, or the id of a message.
    after: Option<ListPlace>,
}

/// Returns a page of the message's thread in its room, oldest first.
pub async fn show(call: Call, request: Show) -> Result<WithHeaders<Thread>, Problem> {
    let (RoomId(room), id) = (request.room_id, MessageId(request.uuid.0));
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    let missing = || Problem::not_found("message in such a room");
    let found = mailbox.find(scope, room, id).await?.ok_or_else(missing)?;
    let mut page = messages::requested(&call, request.limit, None, request.after).await?;
    match page.from {
        None => {
            let first = Cursor { at: Timestamp::from_millis(0), id: uuid::Uuid::nil() };
            page.from = Some((Direction::After, first));
        }
        Some((Direction::After, _)) => {}
        Some((Direction::Before, _)) => {
            return Err(refused("after", &"the cursor belongs to another list"));
        }
    }
    let thread = Some(found.thread);
    let part = |part: Page| async move { mailbox.room_entries(scope, room, thread, &part).await };
    let row = |entry: &RoomEntry| page::row(entry.place(), &Turn::from(entry.turn()));
    let rows = page::read(&call, page, part, row).await?;
    let next = rows.newest_if_more().map(|cursor| cursor.to_string());
    let answer = Thread {
        room_id: request.room_id,
        thread_id: Id(found.thread.0),
        next: next.clone(),
        conversation: rows.oldest_first()?,
    };
    Ok(page::followed(&call, "after", next, answer))
}

/// Shows many threads at once
///
/// Each has its own result: a missing thread, or one too long beside the others, fails no other.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// The messages whose threads to show.
    #[schemars(extend("minItems" = 1, "maxItems" = MOST))]
    items: Vec<Item>,
    /// Whether to mark the rooms as read up to these messages.
    mark_read: Option<bool>,
}

/// A message of a room.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
struct Item {
    /// The room.
    #[schemars(example = &"41:7")]
    room_id: String,
    /// A message of the room.
    #[schemars(example = &"019a9e5c-7c80-7000-8000-000000000001")]
    uuid: String,
}

impl Item {
    fn named(&self) -> Option<(Room, MessageId)> {
        Some((self.room_id.parse().ok()?, MessageId(uuid(&self.uuid)?)))
    }
}

/// Counts of the results.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Stats {
    /// How many were requested.
    requested: usize,
    /// How many were found.
    ok: usize,
    /// How many were not found.
    failed: usize,
}

/// The result of an item.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Outcome {
    /// Whether the thread was found.
    success: bool,
    /// The room, as you sent it.
    #[schemars(example = &"41:7")]
    room_id: String,
    /// The message, as you sent it.
    uuid: String,
    /// The result in words.
    message: &'static str,
    /// Oldest first.
    conversation: Vec<Turn>,
}

successes! {
    Thread {
        /// The room.
        room_id: RoomId,
        /// The thread.
        thread_id: Id,
        /// Send it as `after` to get the next page; null on the last page.
        next: Option<String>,
        /// Oldest first.
        conversation: Texts<Turn>,
    } = OK "conversation found", pages;
    Threads {
        /// Counts of the results.
        stats: Stats,
        /// One for each item.
        results: Vec<Outcome>,
    } = OK "conversations read, each with its own result";
}

/// With `markRead`, marks the rooms as read up to the requested messages that are shown; and for a
/// thread that is requested alone and still too long, since no other operation marks anything.
pub async fn batch(call: Call, request: Batch) -> Result<Threads, Problem> {
    let limits = &call.http.rules.limits;
    let bounds = Bounds { messages: limits.max_page, octets: limits.max_page_bytes };
    let named: Vec<(Room, MessageId)> = request.items.iter().filter_map(Item::named).collect();
    let (mailbox, scope) = (&call.http.use_cases.mailbox, &call.target.scope);
    let mut found = mailbox.conversations(scope, &named, bounds).await?.into_iter();
    let is_alone = request.items.len() == 1;
    let (mut marks, mut ok) = (Vec::new(), 0);
    let mut results = Vec::with_capacity(request.items.len());
    for item in request.items {
        let conversation = item.named().and_then(|_| found.next());
        match &conversation {
            Some(Conversation::Whole(found, _)) => marks.push((found.room, found.place)),
            Some(Conversation::TooLong(found)) if is_alone => {
                marks.push((found.room, found.place));
            }
            _ => {}
        }
        let result = outcome(item, conversation);
        ok += usize::from(result.success);
        results.push(result);
    }
    if request.mark_read.unwrap_or(false) {
        mailbox.mark_read(scope, &marks).await?;
    }
    let requested = results.len();
    let stats = Stats { requested, ok, failed: requested.saturating_sub(ok) };
    Ok(Threads { stats, results })
}

fn outcome(Item { room_id, uuid }: Item, conversation: Option<Conversation>) -> Outcome {
    let (success, message, turns) = match conversation {
        Some(Conversation::Whole(_, turns)) => (true, "conversation found", turns),
        Some(Conversation::Missing) => {
            (false, "there is no such message in such a room in the scope of this request", vec![])
        }
        Some(Conversation::TooLong(_)) => {
            let message = "too long to show with the others: request it alone with GET \
                           /conversation/{roomId}/{uuid}";
            (false, message, vec![])
        }
        None => {
            let message =
                "roomId must be \"<contactId>:<agentId>\" and uuid a UUID, as answers show them";
            (false, message, vec![])
        }
    };
    let conversation = turns.into_iter().map(Turn::from).collect();
    Outcome { success, room_id, uuid, message, conversation }
}
