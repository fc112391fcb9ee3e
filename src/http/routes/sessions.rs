//! `/computer/sessions`: sessions, in which workers handle an Agent's conversations.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;

use axum::http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::computers::{Behind, ComputerError};
use crate::domain::session;
use crate::domain::words::words;
use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::state::Http;
use crate::http::typed::{Headed, Limit, Success, refused, successes};
use crate::http::typed::{page, wrong};
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

#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// The one with the latest message first.
    sessions: Vec<Session>,
    /// Send it as `before` to get the next page; null on the last page.
    next: Option<String>,
}

pub async fn list(http: Arc<Http>, call: Call, asked: List) -> Result<Headed<Listed>, Problem> {
    let limit = page::at_most(asked.limit, &http.rules);
    let (computers, scope) = (call.computers(&http), &call.target().scope);
    let (found, next) = match asked.room_id {
        Some(RoomId(room)) => {
            let before = behind(asked.before)?;
            let found = computers.sessions_of_room(scope, room, before, limit).await;
            let found = found.map_err(placed)?;
            (found.sessions, found.next.map(|place| place.to_string()))
        }
        None => {
            let found = computers.sessions(scope, behind(asked.before)?, limit).await;
            let found = found.map_err(placed)?;
            (found.sessions, found.next.map(|place| place.to_string()))
        }
    };
    let place = next.clone().map(|place| ("before", place));
    let listed = Listed { sessions: found.iter().map(shape).collect(), next };
    Ok(page::followed(&call, place, listed))
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
fn behind<P: FromStr + Display>(text: Option<String>) -> Result<Option<Behind<P>>, Problem> {
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

#[derive(Debug, Serialize, JsonSchema)]
pub struct HasBeenReset {
    /// The session of the next message.
    session: Session,
    /// The session that was reset; null if it had no message and continues.
    ended: Option<Session>,
}

impl Success for HasBeenReset {
    const STATUS: StatusCode = StatusCode::OK;
    const MESSAGE: &'static str = "session reset";

    fn message(&self) -> &'static str {
        match self.ended {
            Some(_) => Self::MESSAGE,
            None => "the session has no message yet and continues",
        }
    }
}

pub async fn reset(http: Arc<Http>, call: Call, asked: Reset) -> Result<HasBeenReset, Problem> {
    let (SessionRef(key), reason) = (asked.session_key, asked.reason.as_deref());
    let done = call.computers(&http).reset(&call.target().scope, key, reason).await?;
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

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resolved {
    session: Session,
    /// Its room, for GET /messages/{roomId}.
    room_id: RoomId,
    /// The room again, under its name in v2.
    chat_ref: RoomId,
}

successes! {
    Listed = OK "sessions found", pages;
    Resolved = OK "session resolved";
}

pub async fn resolve(http: Arc<Http>, call: Call, asked: Resolve) -> Result<Resolved, Problem> {
    let named = asked.session_key.map(|SessionRef(key)| key);
    let found = call.computers(&http).resolve(&call.target().scope, named).await?;
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
