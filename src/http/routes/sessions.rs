//! `/computer/sessions`: sessions, in which workers handle an Agent's conversations.

use std::fmt::Display;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::computers::{Behind, ComputerError};
use crate::domain::session;
use crate::domain::words::words;
use crate::http::typed::{
    Call, Limit, Problem, Success, WithHeaders, page, refused, successes, wrong,
};
use crate::wire::{Date, Number, RoomId, SessionRef, Word};

/// A part of a room's conversation, which a worker handles as one.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ComputerSession")]
pub struct Session {
    /// The key of the session.
    session_key: SessionRef,
    /// Its room: contact and Agent.
    room_id: RoomId,
    /// The Agent.
    target_account_id: Number,
    /// The contact.
    contact_id: Number,
    /// Whether it is active.
    state: Word<State>,
    /// When it began.
    started_at: Date,
    /// When the latest message of the room came.
    last_message_at: Option<Date>,
    /// When it was reset, if it was.
    ended_at: Option<Date>,
    /// Why it was reset, in the words of the request.
    #[schemars(example = &REASON)]
    reason: Option<String>,
    /// How many messages came in it, including deleted ones.
    messages: u64,
}

const REASON: &str = "The customer asked for it.";

words! { State { Active = "active", Ended = "ended", } }

/// Lists active sessions
///
/// Covers all rooms in scope; with `roomId`, the active session of one room and its ended ones.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// Only sessions of this room.
    room_id: Option<RoomId>,
    limit: Option<Limit>,
    /// Only older sessions: `next`, or the key of a session.
    before: Option<String>,
}

pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let limit = page::limit(&call, request.limit);
    let (computers, scope) = (call.computers(), &call.target.scope);
    let (found, next) = match request.room_id {
        Some(RoomId(room)) => {
            let before = parse_place(request.before)?;
            let found = computers.sessions_of_room(scope, room, before, limit).await;
            let found = found.map_err(placed)?;
            (found.sessions, found.next.map(|place| place.to_string()))
        }
        None => {
            let found = computers.sessions(scope, parse_place(request.before)?, limit).await;
            let found = found.map_err(placed)?;
            (found.sessions, found.next.map(|place| place.to_string()))
        }
    };
    let listed = Listed { sessions: found.iter().map(shape).collect(), next: next.clone() };
    Ok(page::followed(&call, "before", next, listed))
}

/// Turns an unknown cursor into an error about `before`.
fn placed(error: ComputerError) -> Problem {
    match error {
        ComputerError::NoPlace => refused("before", &error),
        other => other.into(),
    }
}

/// Parses the position after which a page begins. The form of cursors depends on the list, so the
/// schema does not name it.
fn parse_place<P: FromStr + Display>(text: Option<String>) -> Result<Option<Behind<P>>, Problem> {
    let read = |text: String| {
        let place = text.parse().ok().filter(|place: &P| place.to_string() == text);
        let session = || text.parse().map(Behind::Session);
        place.map(Behind::Place).map_or_else(session, Ok).map_err(|_| {
            wrong(
                "before",
                "must be a cursor or the key of a session: take it from an earlier answer",
            )
        })
    };
    text.map(read).transpose()
}

/// Ends a session
///
/// The next message of its room comes in another session, which the answer names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reset {
    /// The session.
    session_key: SessionRef,
    /// Why, in your words.
    #[schemars(example = &REASON)]
    reason: Option<String>,
}

impl HasBeenReset {
    fn own_message(&self) -> &'static str {
        match self.ended {
            Some(_) => Self::MESSAGE,
            None => "the session has no message yet and continues",
        }
    }
}

pub async fn reset(call: Call, request: Reset) -> Result<HasBeenReset, Problem> {
    let (SessionRef(key), reason) = (request.session_key, request.reason.as_deref());
    let done = call.computers().reset(&call.target.scope, key, reason).await?;
    Ok(HasBeenReset { session: shape(&done.current), ended: done.ended.as_ref().map(shape) })
}

/// Shows the session of this key, and its room
///
/// Without a key, the session of the Agent's latest conversation.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolve {
    /// A session of the Agent, active or ended.
    session_key: Option<SessionRef>,
}

successes! {
    Listed {
        /// The one with the latest message first.
        sessions: Vec<Session>,
        /// Send it as `before` to get the next page; null on the last page.
        next: Option<String>,
    } = OK "sessions found", pages;
    Resolved {
        session: Session,
        /// Its room, for GET /messages/{roomId}.
        room_id: RoomId,
        /// The room again, under its name in v2.
        chat_ref: RoomId,
    } = OK "session resolved";
    HasBeenReset {
        /// The session of the next message.
        session: Session,
        /// The session that was reset; null if it had no message and continues.
        ended: Option<Session>,
    } = OK "session reset", varies;
}

pub async fn resolve(call: Call, request: Resolve) -> Result<Resolved, Problem> {
    let named = request.session_key.map(|SessionRef(key)| key);
    let found = call.computers().resolve(&call.target.scope, named).await?;
    let room = RoomId(found.key.room);
    Ok(Resolved { session: shape(&found), room_id: room, chat_ref: room })
}

fn shape(session: &session::Session) -> Session {
    let ended = session.ended.as_ref();
    Session {
        session_key: SessionRef(session.key),
        room_id: RoomId(session.key.room),
        target_account_id: session.key.room.agent.into(),
        contact_id: session.key.room.contact.into(),
        state: Word(if ended.is_some() { State::Ended } else { State::Active }),
        started_at: Date(session.started_at),
        last_message_at: session.last_at.map(Date),
        ended_at: ended.map(|ended| Date(ended.at)),
        reason: ended.and_then(|ended| ended.reason.clone()),
        messages: session.messages,
    }
}
