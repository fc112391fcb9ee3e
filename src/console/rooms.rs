//! Rooms: the conversations of Agents, and the messages of one.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::http::error::Problem;
use crate::http::in_process::Asked;
use crate::http::in_process::shapes::{Message, Room, Rooms};

/// Rooms of a page, and messages of a room.
const ROWS: u32 = 50;

#[derive(Template)]
#[template(path = "rooms.html", config = "src/console/templates/askama.toml")]
struct RoomsPage {
    frame: Frame,
    now: Timestamp,
    list: Rooms,
    is_junk: bool,
}

impl Room {
    fn ago(&self, now: &Timestamp) -> String {
        filters::ago(&self.last_message_date, *now)
    }
}

/// Shows the rooms, the latest message first.
pub(super) async fn list(visit: Visit) -> Result<Answer, Problem> {
    let is_junk = visit.query.get("inbox") == "junk";
    let asked = visit.on(if is_junk { "listJunkRooms" } else { "listRooms" });
    let asked = asked.with("pageSize", ROWS).with("before", visit.query.get("before"));
    let list: Rooms = visit.ask(asked).await?;
    let now = visit.console.http.mint.clock().now();
    Answer::page(&RoomsPage { frame: visit.frame(Section::Rooms).await?, now, list, is_junk })
}

#[derive(Template)]
#[template(path = "room.html", config = "src/console/templates/askama.toml")]
struct RoomPage {
    frame: Frame,
    now: Timestamp,
    messages: Vec<Message>,
    /// Whether the caller is of an account above the Agent, as contacts are.
    may_erase: bool,
}

/// Shows the messages of a room, newest first.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let asked = visit.on("listRoomMessages").at(visit.segment("room")).with("limit", ROWS);
    let asked = asked.with("before", visit.query.get("before"));
    let messages: Vec<Message> = visit.ask(asked).await?;
    let now = visit.console.http.mint.clock().now();
    let frame = visit.frame(Section::Rooms).await?;
    let caller = &visit.api.caller;
    let may_erase = caller.account.kind != AccountType::Agent
        && caller.permitted().is_none()
        && caller.is_administrator();
    Answer::page(&RoomPage { frame, now, messages, may_erase })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    id: i64,
    account_type: String,
    parent_id: Option<i64>,
}

/// Erases the contact of the room. A contact belongs to the organization of the Agent.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let contact = visit.segment("room").split(':').next().unwrap_or_default();
    let account: Account = visit.ask(visit.on("getAccount")).await?;
    let owner = account.parent_id.filter(|_| account.account_type == "account");
    let asked = Asked::of("eraseContact").on(owner.unwrap_or(account.id)).at(contact);
    visit.ask::<Value>(asked).await?;
    Ok(visit.see("/rooms", "forgotten"))
}
