//! Lists of rooms, the latest message first. A page costs its rooms, not their messages.

use std::collections::HashMap;

use super::messages;
use super::presence::PRESENT_ROOM;
use super::room_ranges::{self, Enclosure, RANGES_AT_ONCE, RoomPlace, RoomRange, RowWindow};
use super::rooms::room;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::id::MessageId;
use crate::domain::room::{Room, preview};
use crate::domain::scope::Scope;
use crate::domain::source::Inbox;
use crate::store::base::Base;
use crate::store::base::page::{below, permitted, truncate_page};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// Messages read per statement for rooms without a stored preview.
const PREVIEWS: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomFilter {
    /// The inbox of the latest message.
    pub inbox: Inbox,
    /// Only rooms with unread messages.
    pub unread: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomPage {
    /// Only rooms behind this place.
    pub before: Option<RoomPlace>,
    pub skip: u32,
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRoom {
    pub room: Room,
    pub name: Option<String>,
    pub handle: Handle,
    pub inbox: Inbox,
    pub started_at: Timestamp,
    pub last_at: Timestamp,
    pub last_message: MessageId,
    /// The beginning of the latest message.
    pub preview: String,
    pub messages: u64,
    pub unread: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomList {
    pub rooms: Vec<ListedRoom>,
    /// The number of rooms behind `before` that match, among those read.
    pub total: u64,
    /// The place where the next page begins; None on the last page.
    pub next: Option<RoomPlace>,
}

impl Base {
    /// Returns a page of the rooms in `scope`. Reads at most `most` rooms, however many the filter
    /// leaves out; the next page begins behind them.
    pub async fn list_rooms(
        &self,
        scope: &Scope,
        filter: RoomFilter,
        page: RoomPage,
        most: u32,
    ) -> Result<RoomList, StoreError> {
        let end = self.end_of_rooms(scope, filter, page, most).await?;
        let conditions =
            |query: &mut Statement| push_conditions(query, scope, filter, page.before, end);
        let window = RowWindow { skip: page.skip, limit: page.limit.saturating_add(1) };
        let wanted = window.skip.saturating_add(window.limit);
        let ranges = self.room_ranges(scope, conditions, wanted).await?;
        let part = |query: &mut Statement, range: &RoomRange| {
            query.push(
                "SELECT contact_id, agent_id, inbox, started_at, last_at, last_message_id, preview,
                        messages, unread FROM rooms WHERE ",
            );
            below(query, range.level, range.account);
            conditions(query);
        };
        let mut rows = self.first_of_ranges(&ranges, part, WITH_CONTACTS, window).await?;
        let more = truncate_page(&mut rows, page.limit);
        let mut count = sql("SELECT COUNT(*) AS total FROM (SELECT contact_id FROM rooms WHERE ");
        room_ranges::within(&mut count, scope);
        conditions(&mut count);
        count.push(" LIMIT ").push_value(i64::from(most)).push(") AS given");
        let total = count.fetch_one(self.reader()).await?;
        let total = Columns { table: "rooms", row: &total }.count("total")?;
        let rooms = self.listed_rooms(&rows).await?;
        let last = rooms.last().map(|room| RoomPlace {
            at: room.last_at,
            contact: room.room.contact.get(),
            agent: room.room.agent.get(),
        });
        Ok(RoomList { rooms, total, next: if more { last } else { end } })
    }

    /// Returns the place where a page must end: the last of the next `most` rooms. None if neither
    /// the filter nor an erasure can leave out rooms, or if there are fewer. The place lies behind
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
        let range =
            |query: &mut Statement| push_range(query, scope, filter.inbox, page.before, None);
        let ranges = self.room_ranges(scope, range, most).await?;
        let behind = |at| RoomPlace { at, contact: 0, agent: 0 };
        if ranges.len() > RANGES_AT_ONCE {
            let of_each = most.checked_div(u32::try_from(ranges.len()).unwrap_or(u32::MAX));
            let end = self.latest_of_organizations(scope, range, of_each.unwrap_or(0)).await?;
            return Ok(end.map(behind));
        }
        let part = |query: &mut Statement, one: &RoomRange| {
            query.push("SELECT contact_id, agent_id, last_at FROM rooms WHERE ");
            below(query, one.level, one.account);
            range(query);
        };
        let window = RowWindow { skip: most.saturating_sub(1), limit: 1 };
        let rows = self.first_of_ranges(&ranges, part, Enclosure::default(), window).await?;
        let at = rows.first().map(|row| Columns { table: "rooms", row }.time("last_at"));
        Ok(at.transpose()?.map(behind))
    }

    /// Builds the listed rooms. A room without a stored preview gets one from its latest message.
    async fn listed_rooms(&self, rows: &[Row]) -> Result<Vec<ListedRoom>, StoreError> {
        let mut missing = Vec::new();
        for row in rows {
            let columns = Columns { table: "rooms", row };
            if columns.optional_text("preview")?.is_none() {
                missing.push(MessageId(columns.uuid("last_message_id")?));
            }
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
            let last_message = MessageId(columns.uuid("last_message_id")?);
            let begins = columns.optional_text("preview")?;
            let begins = begins.or_else(|| previews.remove(&last_message));
            rooms.push(ListedRoom {
                room: room(&columns)?,
                name: columns.optional_text("name")?,
                handle: columns.word("address")?,
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

const WITH_CONTACTS: Enclosure = Enclosure {
    before: "SELECT walked.*, contacts.name, contacts.address FROM (",
    after: ") AS walked CROSS JOIN contacts WHERE contacts.id = walked.contact_id",
};

/// Appends the conditions of a list.
fn push_conditions(
    query: &mut Statement,
    scope: &Scope,
    filter: RoomFilter,
    before: Option<RoomPlace>,
    until: Option<RoomPlace>,
) {
    permitted(query, scope);
    query.push(PRESENT_ROOM);
    push_range(query, scope, filter.inbox, before, until);
    if filter.unread {
        query.push(" AND unread > 0");
    }
}

/// Appends the range of the index behind `before` and not behind `until`, spelled with the columns
/// that the index has.
fn push_range(
    query: &mut Statement,
    scope: &Scope,
    inbox: Inbox,
    before: Option<RoomPlace>,
    until: Option<RoomPlace>,
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
