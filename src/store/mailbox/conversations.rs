//! The messages of one room, of one thread, and of many threads at once.

use std::collections::{BTreeSet, HashMap};

use super::messages;
use super::presence::PRESENT_ROOM;
use super::room_ranges::{self, RoomPlace};
use super::rooms::{self, contains};
use crate::domain::clock::TimeRange;
use crate::domain::id::{MessageId, ThreadId};
use crate::domain::message::Message;
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{Cursor, Page, merged, within};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};

/// The room, the thread and the list position of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePlace {
    pub room: Room,
    pub thread: ThreadId,
    pub place: Cursor,
}

/// A message of a thread, by what it takes to read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlinedMessage {
    pub id: MessageId,
    /// Bytes of the original.
    pub size: u64,
    /// Bytes of the outcome, with the replies.
    pub outcome: u64,
}

const OUTCOME: &str = ", COALESCE((SELECT CAST(OCTET_LENGTH(facts) AS BIGINT) FROM outcomes
    WHERE message_id = messages.id AND organization_id = messages.organization_id), 0) AS outcome";

impl Base {
    /// Returns the place of this room in lists. None if it is not in `scope` or under erasure.
    pub async fn room_place(
        &self,
        scope: &Scope,
        room: Room,
    ) -> Result<Option<RoomPlace>, StoreError> {
        let mut query = sql("SELECT contact_id, agent_id, last_at FROM rooms
             WHERE contact_id = $1 AND agent_id = $2 AND ")
        .bind(room.contact.get())
        .bind(room.agent);
        within(&mut query, scope);
        query.push(PRESENT_ROOM);
        let row = query.fetch_optional(self.reader()).await?;
        row.map(|row| room_ranges::place(&Columns { table: "rooms", row: &row })).transpose()
    }

    /// Returns a page of the messages of a room in `scope`, or of one of its threads, newest first.
    pub async fn room_messages(
        &self,
        scope: &Scope,
        room: Room,
        thread: Option<ThreadId>,
        page: &Page,
    ) -> Result<Vec<Message>, StoreError> {
        if self.room_place(scope, room).await?.is_none() {
            return Ok(Vec::new());
        }
        let query = match thread {
            // A thread is in one room only.
            Some(thread) => {
                let ranges = ["thread_id <> id AND thread_id = ", "thread_id = id AND id = "];
                let part = |query: &mut Statement, range: &&str| {
                    query.push(messages::SELECT).push(range).push_value(thread.0);
                };
                merged(self.reader().is_postgres(), &ranges, part, page, TimeRange::default())
            }
            None => {
                let mut query = sql(messages::SELECT);
                query.push("contact_id = ").push_value(room.contact.get());
                query.push(" AND agent_id = ").push_value(room.agent);
                page.read(&mut query);
                query
            }
        };
        let rows = query.fetch_all(self.reader()).await?;
        let mut messages = messages::listed_messages(&rows, &self.repeats)?;
        messages.retain(|message| message.room() == room);
        Ok(page.newest_first(messages))
    }

    /// Returns those of these messages that are in the named room and in `scope`, without those
    /// under erasure.
    pub async fn find_messages(
        &self,
        scope: &Scope,
        named: &[(Room, MessageId)],
    ) -> Result<HashMap<(Room, MessageId), MessagePlace>, StoreError> {
        let distinct: BTreeSet<_> =
            named.iter().map(|(room, id)| (id.0, room.contact.get(), room.agent.get())).collect();
        let rows = many(
            "WITH given (message, contact, agent) AS ({rows})
             SELECT id, contact_id, at, thread_id AS thread, messages.partner_id,
                    messages.reseller_id, messages.organization_id, agent_id
             FROM given CROSS JOIN messages
             WHERE id = given.message AND contact_id = given.contact AND agent_id = given.agent
               AND NOT EXISTS (SELECT 1 FROM erasures
                               WHERE subject IN (messages.contact_id, messages.agent_id))",
            distinct
                .into_iter()
                .map(|(id, contact, agent)| vec![id.into(), contact.into(), agent.into()])
                .collect(),
        )
        .fetch_all(self.reader())
        .await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let columns = Columns { table: "messages", row };
            let room = rooms::room(&columns)?;
            if !contains(scope, &columns.lineage()?, room.agent) {
                continue;
            }
            let place = Cursor { at: columns.time("at")?, id: columns.uuid("id")? };
            let thread = ThreadId(columns.uuid("thread")?);
            found.insert((room, MessageId(place.id)), MessagePlace { room, thread, place });
        }
        Ok(found)
    }

    /// Returns the first `most` messages of each thread, the oldest first. The caller has found each
    /// thread in its scope.
    pub async fn outline_threads(
        &self,
        threads: &[MessagePlace],
        most: u32,
    ) -> Result<HashMap<ThreadId, Vec<OutlinedMessage>>, StoreError> {
        let mut outlines: HashMap<ThreadId, Vec<OutlinedMessage>> = HashMap::new();
        outlines.extend(threads.iter().map(|found| (found.thread, Vec::new())));
        if outlines.is_empty() {
            return Ok(outlines);
        }
        // The first message of a thread has the thread's id; the others are read up to the limit.
        let mut query = sql("SELECT thread_id AS thread, id, at, size");
        query.push(OUTCOME).push(" FROM messages WHERE thread_id = id AND id IN (");
        for (number, thread) in outlines.keys().enumerate() {
            query.push(if number > 0 { ", " } else { "" }).push_value(thread.0);
        }
        query.push(")").varying();
        for thread in outlines.keys() {
            query.push(
                " UNION ALL SELECT thread, id, at, size, outcome FROM (
                     SELECT thread_id AS thread, id, at, size",
            );
            query.push(OUTCOME).push(" FROM messages WHERE thread_id <> id AND thread_id = ");
            query.push_value(thread.0).push(" ORDER BY at, id LIMIT ");
            query.push_value(i64::from(most)).push(") AS given");
        }
        let mut rows = Vec::new();
        for row in query.fetch_all(self.reader()).await? {
            let columns = Columns { table: "messages", row: &row };
            let place = Cursor { at: columns.time("at")?, id: columns.uuid("id")? };
            let message = OutlinedMessage {
                id: MessageId(place.id),
                size: columns.count("size")?,
                outcome: columns.count("outcome")?,
            };
            rows.push((ThreadId(columns.uuid("thread")?), place, message));
        }
        rows.sort_unstable_by_key(|&(thread, place, _)| (thread, place));
        for (thread, _, message) in rows {
            outlines.entry(thread).or_default().push(message);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        outlines.values_mut().for_each(|outline| outline.truncate(most));
        Ok(outlines)
    }

    /// Returns those of these messages that are in `scope`, in no particular order.
    pub async fn messages(
        &self,
        scope: &Scope,
        ids: &[MessageId],
    ) -> Result<Vec<Message>, StoreError> {
        let rows = messages::by_ids(self.reader(), ids.iter().copied()).await?;
        let mut found = messages::listed_messages(&rows, &self.repeats)?;
        found.retain(|message| contains(scope, &message.lineage, message.agent));
        Ok(found)
    }
}
