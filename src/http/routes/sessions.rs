//! `/computer/sessions`: the sessions in which workers take an Agent's conversations.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::super::state::Http;
use crate::domain::room::Room;
use crate::domain::session::{Session, SessionKey};
use crate::store::RoomPlace;

/// A page of the sessions that go on, the one with the latest message first; with `roomId` those of
/// one room, also that were reset. `after` goes on from `next`.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let (computers, scope) = (call.computers(&http), &call.target().scope);
    let (sessions, next) = match call.query().get("roomId") {
        Some(text) => {
            let room: Room = text.parse().map_err(|_| {
                Problem::invalid("roomId must be \"<contactId>:<agentId>\", as answers show it")
            })?;
            let before = page::cursor(&call, "after")?;
            let found = computers.sessions_of_room(scope, room, (before, limit)).await?;
            (found.sessions, found.next.map(|place| place.to_string()))
        }
        None => {
            let before = call.query().get("after").map(str::parse::<RoomPlace>).transpose();
            let before = before.map_err(|error| Problem::invalid(format!("after {error}")))?;
            let found = computers.sessions(scope, before, limit).await?;
            (found.sessions, found.next.map(|place| place.to_string()))
        }
    };
    let fields = json!({
        "sessions": sessions.iter().map(shape).collect::<Vec<_>>(),
        "next": next,
    });
    Ok(success(StatusCode::OK, "sessions found", fields))
}

/// Ends a session; the answer names the one in which the next message comes.
pub(in super::super) async fn reset(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let key = key(call.body().required_text("sessionKey")?)?;
    let reason = call.body().text("reason")?;
    let done = call.computers(&http).reset(&call.target().scope, key, reason).await?;
    let message = match done.ended {
        Some(_) => "session reset",
        None => "nothing has come in this session: it goes on",
    };
    let fields = json!({
        "session": shape(&done.current),
        "ended": done.ended.as_ref().map(shape),
    });
    Ok(success(StatusCode::OK, message, fields))
}

/// The room of a session; without a key that of the Agent's latest conversation.
pub(in super::super) async fn resolve(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let named = call.body().text("sessionKey")?.map(key).transpose()?;
    let found = call.computers(&http).resolve(&call.target().scope, named).await?;
    let room = found.key.room.to_string();
    let fields = json!({ "session": shape(&found), "roomId": room, "chatRef": room });
    Ok(success(StatusCode::OK, "session resolved", fields))
}

fn key(text: &str) -> Result<SessionKey, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("sessionKey {error}")))
}

fn shape(session: &Session) -> Value {
    let ended = session.ended.as_ref();
    json!({
        "sessionKey": session.key.to_string(),
        "roomId": session.key.room.to_string(),
        "targetAccountId": session.key.room.agent.get(),
        "contactId": session.key.room.contact.get(),
        "state": if ended.is_some() { "ended" } else { "active" },
        "startedAt": session.started_at.to_string(),
        "lastMessageAt": session.last_at.map(|at| at.to_string()),
        "endedAt": ended.map(|ended| ended.at.to_string()),
        "reason": ended.and_then(|ended| ended.reason.clone()),
        "messages": session.messages,
    })
}
