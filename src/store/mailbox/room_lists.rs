//! Lists of rooms, the one with the latest message first: a page costs what it shows, however many
//! messages its rooms have.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use super::contacts;
use super::messages;
use super::presence::PRESENT_ROOM;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::contact::{Contact, Handle};
use crate::domain::id::{ContactId, MessageId};
use crate::domain::room::{Room, preview};
use crate::domain::scope::Scope;
use crate::domain::source::Inbox;
use crate::store::base::Base;
use crate::store::base::page::{in_range, within};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// Messages that are read at a time for the previews of rooms that have none.
const PREVIEWS: usize = 16;

/// Which rooms a list shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomFilter {
    /// That of the latest message.
    pub inbox: Inbox,
    /// With messages that were not read, only.
    pub unread: bool,
}

/// A place in a list of rooms. Shown as `<milliseconds>-<contactId>:<agentId>`; one that lies
/// between two rooms names none (`0:0`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoomPlace {
    pub at: Timestamp,
    pub contact: i64,
    pub agent: i64,
}

impl fmt::Display for RoomPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}:{}", self.at.millis(), self.contact, self.agent)
    }
}

impl FromStr for RoomPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (millis, room) = text.split_once('-')?;
            let (contact, agent) = room.split_once(':')?;
            let at = Timestamp::from_millis(millis.parse().ok()?);
            let place = Self { at, contact: contact.parse().ok()?, agent: agent.parse().ok()? };
            // It has one spelling.
            (place.to_string() == text).then_some(place)
        };
        read().ok_or_else(|| "is not a cursor: take it from an earlier answer".to_owned())
    }
}

/// A part of such a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomPage {
    /// Behind this place.
    pub before: Option<RoomPlace>,
    /// Rooms that are passed over.
    pub skip: u32,
    pub limit: u32,
}

/// A room as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoom {
    pub room: Room,
    pub name: Option<String>,
    pub handle: Handle,
    pub inbox: Inbox,
    pub started_at: Timestamp,
    pub last_at: Timestamp,
    pub last_message: MessageId,
    /// How the latest message begins.
    pub preview: String,
    pub messages: u64,
    pub unread: u64,
}

/// What a page of a list comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomList {
    pub rooms: Vec<ListedRoom>,
    /// How many there are from `before` on, among those that are looked at.
    pub total: u64,
    /// Where the list goes on.
    pub next: Option<RoomPlace>,
}

impl Base {
    /// A page of the rooms in `scope`. No more than `most` rooms are looked at, whatever the filter
    /// leaves out; the list goes on behind them.
    pub async fn list_rooms(
        &self,
        scope: &Scope,
        filter: RoomFilter,
        page: RoomPage,
        most: u32,
    ) -> Result<RoomList, StoreError> {
        let end = self.end_of_rooms(scope, filter, page, most).await?;
        let mut query = sql("SELECT contact_id, agent_id, inbox, started_at, last_at,
                                    last_message_id, preview, messages, unread
                             FROM rooms WHERE ");
        shown(&mut query, scope, filter, (page.before, end));
        query.push(ORDER).push(" LIMIT ").push_value(i64::from(page.limit.saturating_add(1)));
        query.push(" OFFSET ").push_value(i64::from(page.skip));
        let mut rows = query.fetch_all(self.reader()).await?;
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let more = rows.len() > limit;
        rows.truncate(limit);
        let mut count = sql("SELECT COUNT(*) AS total FROM (SELECT contact_id FROM rooms WHERE ");
        shown(&mut count, scope, filter, (page.before, end));
        count.push(" LIMIT ").push_value(i64::from(most)).push(") AS given");
        let total = count.fetch_one(self.reader()).await?;
        let total = Columns { table: "rooms", row: &total }.count("total")?;
        let rooms = self.described(&rows).await?;
        let last = rooms.last().map(|room| RoomPlace {
            at: room.last_at,
            contact: room.room.contact.get(),
            agent: room.room.agent.get(),
        });
        Ok(RoomList { rooms, total, next: if more { last } else { end } })
    }

    /// The place of the last of the next `most` rooms that a filter, or erasing, may leave out; it lies behind
    /// all rooms of its millisecond, as in `Store::end_of_walk`.
    async fn end_of_rooms(
        &self,
        scope: &Scope,
        filter: RoomFilter,
        page: RoomPage,
        most: u32,
    ) -> Result<Option<RoomPlace>, StoreError> {
        let passes_over = scope.permitted().is_some() || filter.unread;
        if !passes_over && self.erasures(0, 1).await?.is_empty() {
            return Ok(None);
        }
        let mut query = sql("SELECT last_at FROM rooms WHERE ");
        in_range(&mut query, scope);
        between(&mut query, scope, filter.inbox, (page.before, None));
        query.push(ORDER).push(" LIMIT 1 OFFSET ");
        query.push_value(i64::from(most.saturating_sub(1)));
        let row = query.fetch_optional(self.reader()).await?;
        let place = row.map(|row| {
            let at = Columns { table: "rooms", row: &row }.time("last_at")?;
            Ok(RoomPlace { at, contact: 0, agent: 0 })
        });
        place.transpose()
    }

    /// With who it is, and how the latest message begins.
    async fn described(&self, rows: &[Row]) -> Result<Vec<ListedRoom>, StoreError> {
        let (mut ids, mut missing) = (Vec::new(), Vec::new());
        for row in rows {
            let columns = Columns { table: "rooms", row };
            ids.push(columns.contact("contact_id")?);
            if columns.optional_text("preview")?.is_none() {
                missing.push(MessageId(columns.uuid("last_message_id")?));
            }
        }
        let mut known: HashMap<ContactId, Contact> = HashMap::new();
        for row in contacts::by_ids(self.reader(), ids.into_iter()).await? {
            let contact = contacts::contact(&row)?;
            known.insert(contact.id, contact);
        }
        let mut previews = HashMap::new();
        for some in missing.chunks(PREVIEWS) {
            let found = messages::by_ids(self.reader(), some.iter().copied()).await?;
            for message in messages::listed_messages(&found, &self.repeats)? {
                let own = message.mailed().map_or("", |mailed| &mailed.mail.stripped_text);
                previews.insert(message.id, preview(own, message.text()));
            }
        }
        let mut rooms = Vec::with_capacity(rows.len());
        for row in rows {
            let columns = Columns { table: "rooms", row };
            // A room whose contact is being erased at this moment is no more.
            let Some(contact) = known.get(&columns.contact("contact_id")?) else { continue };
            let last_message = MessageId(columns.uuid("last_message_id")?);
            let begins = columns.optional_text("preview")?;
            let begins = begins.or_else(|| previews.remove(&last_message));
            rooms.push(ListedRoom {
                room: Room { contact: contact.id, agent: columns.account("agent_id")? },
                name: contact.name.clone(),
                handle: contact.handle.clone(),
                inbox: columns.word("inbox")?,
                started_at: columns.time("started_at")?,
                last_at: columns.time("last_at")?,
                last_message,
                preview: begins.unwrap_or_default(),
                messages: columns.count("messages")?,
                unread: columns.count("unread")?,
            });
        }
        Ok(rooms)
    }
}

const ORDER: &str = " ORDER BY last_at DESC, contact_id DESC, agent_id DESC";

/// Goes on with what a list shows.
fn shown(
    query: &mut Statement,
    scope: &Scope,
    filter: RoomFilter,
    places: (Option<RoomPlace>, Option<RoomPlace>),
) {
    within(query, scope);
    query.push(PRESENT_ROOM);
    between(query, scope, filter.inbox, places);
    if filter.unread {
        query.push(" AND unread > 0");
    }
}

/// Goes on with the part of the index that lies behind one place and not behind another, spelled
/// by the columns that the index has.
fn between(
    query: &mut Statement,
    scope: &Scope,
    inbox: Inbox,
    (before, until): (Option<RoomPlace>, Option<RoomPlace>),
) {
    query.push(" AND inbox = ").push_value(inbox.as_str());
    let by_agent = scope.level() == AccountType::Agent;
    for (place, sign) in [(before, "<"), (until, ">=")] {
        let Some(place) = place else { continue };
        let columns =
            if by_agent { "(last_at, contact_id)" } else { "(last_at, contact_id, agent_id)" };
        query.push(" AND ").push(columns).push(" ").push(sign).push(" (");
        query.push_value(place.at).push(", ").push_value(place.contact);
        if !by_agent {
            query.push(", ").push_value(place.agent);
        }
        query.push(")");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_one_spelling() {
        let place = RoomPlace { at: Timestamp::from_millis(5), contact: 3, agent: 15 };
        assert_eq!(place.to_string(), "5-3:15");
        assert_eq!("5-3:15".parse(), Ok(place));
        for other in ["", "5", "5-3", "5-3:x", "05-3:15", "5-3:15 ", "5-+3:15"] {
            assert!(other.parse::<RoomPlace>().is_err(), "{other:?}");
        }
    }
}
