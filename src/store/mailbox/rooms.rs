//! Rooms: one row per contact and Agent, so that a list of rooms reads one row per room.
//!
//! Every transaction that adds, deletes or marks messages updates the rows of their rooms. After
//! it, a row equals the result of a query over `messages` (unread messages only up to `COUNTED`). A
//! transaction locks the row before it counts, so that its count includes the work of earlier
//! transactions. Rooms are locked in the order of contact and Agent.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use super::contacts::LAST_SEEN;
use super::entry::FiledMessage;
use crate::domain::account::{AccountType, Lineage};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::Cursor;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Row, Value, sql};

/// A message that a transaction has deleted, and that its room still counts.
#[derive(Clone, Copy, Debug)]
pub struct DeletedMessage {
    pub room: Room,
    pub place: Cursor,
}

/// The row of a room, locked.
struct LockedRoom {
    messages: u64,
    unread: u64,
    started: Timestamp,
    latest: Uuid,
    read: Cursor,
    lineage: Lineage,
}

impl Base {
    /// Marks each of these rooms as read up to a message, and never moves the mark back. Leaves out
    /// rooms that are missing or not in `scope`. Returns the number of rooms changed. Uses one
    /// transaction per room, so that mail does not wait until all are counted: after an error, some
    /// are marked. Writes no audit entry, because neither rights nor content change.
    pub async fn mark_read(
        &self,
        scope: &Scope,
        marks: &[(Room, Cursor)],
    ) -> Result<u64, StoreError> {
        let mut wanted: BTreeMap<Room, Cursor> = BTreeMap::new();
        for (room, cursor) in marks {
            let mark = wanted.entry(*room).or_insert(*cursor);
            *mark = (*cursor).max(*mark);
        }
        let mut changed = 0;
        for (room, mark) in wanted {
            changed += transact!(self, async |tx| {
                let locked = lock(&mut tx, [room].iter()).await?;
                let locked = locked.get(&room);
                let locked = locked.filter(|locked| contains(scope, &locked.lineage, room.agent));
                if locked.is_none_or(|locked| locked.read >= mark) {
                    return Ok(0);
                }
                let changed = sql("UPDATE rooms SET read_at = $3, read_id = $4
                           WHERE contact_id = $1 AND agent_id = $2")
                .bind(room.contact.get())
                .bind(room.agent)
                .bind(mark.at)
                .bind(mark.id)
                .execute(tx.on())
                .await?;
                recount(&mut tx, [room].iter()).await?;
                tx.commit().await?;
                Ok(changed)
            })?;
        }
        Ok(changed)
    }
}

/// Whether a row of this Agent lies in the scope.
pub fn contains(scope: &Scope, lineage: &Lineage, agent: AccountId) -> bool {
    let below = match scope.level() {
        AccountType::Agent => agent == scope.root(),
        level => lineage.at(level) == Some(scope.root()),
    };
    below && scope.permitted().is_none_or(|permitted| permitted.contains(&agent))
}

type NewOfRooms<'f> = BTreeMap<Room, Vec<&'f FiledMessage<'f>>>;

fn by_room<'f>(filed: &'f [FiledMessage<'f>]) -> NewOfRooms<'f> {
    let mut rooms = NewOfRooms::new();
    for one in filed {
        rooms.entry(one.room()).or_default().push(one);
    }
    rooms
}

/// Adds new messages to their rooms, and locks these; the caller holds the contacts locked. Tells
/// [`added`] what it has written.
pub fn add_messages(filed: &[FiledMessage<'_>]) -> Many {
    many(
        "INSERT INTO rooms (contact_id, agent_id, partner_id, reseller_id, organization_id, inbox,
             started_at, last_at, last_message_id, preview, messages, unread, read_at, read_id,
             session_id, session_at, session_messages)
         {rows}
         ON CONFLICT (contact_id, agent_id, organization_id) DO UPDATE SET
             inbox = CASE WHEN (excluded.last_at, excluded.last_message_id)
                             > (rooms.last_at, rooms.last_message_id)
                          THEN excluded.inbox ELSE rooms.inbox END,
             preview = CASE WHEN (excluded.last_at, excluded.last_message_id)
                               > (rooms.last_at, rooms.last_message_id)
                            THEN excluded.preview ELSE rooms.preview END,
             last_message_id = CASE WHEN (excluded.last_at, excluded.last_message_id)
                                       > (rooms.last_at, rooms.last_message_id)
                                    THEN excluded.last_message_id ELSE rooms.last_message_id END,
             last_at = CASE WHEN excluded.last_at > rooms.last_at
                            THEN excluded.last_at ELSE rooms.last_at END,
             started_at = CASE WHEN excluded.started_at < rooms.started_at
                               THEN excluded.started_at ELSE rooms.started_at END,
             messages = rooms.messages + excluded.messages,
             unread = rooms.unread + excluded.unread,
             session_id = excluded.session_id,
             session_at = CASE WHEN excluded.session_id = rooms.session_id
                               THEN rooms.session_at ELSE excluded.session_at END,
             session_messages = CASE WHEN excluded.session_id = rooms.session_id
                                     THEN rooms.session_messages + excluded.session_messages
                                     ELSE excluded.session_messages END
         RETURNING contact_id, agent_id, messages, read_at",
        by_room(filed).values().filter_map(|new| new_row(new)).collect(),
    )
}

/// Corrects the rooms of messages that are older than what was read. Returns the rooms that begin
/// with these messages.
pub async fn added(
    tx: &mut Transaction,
    filed: &[FiledMessage<'_>],
    written: &[Row],
) -> Result<HashSet<Room>, StoreError> {
    let rooms = by_room(filed);
    let (mut begun, mut overtaken) = (HashSet::new(), Vec::new());
    for row in written {
        let columns = Columns { table: "rooms", row };
        let room = room(&columns)?;
        let new = rooms.get(&room).map_or(&[][..], Vec::as_slice);
        if columns.count("messages")? == count(new.len()) {
            begun.insert(room);
        }
        // A message before the mark of the room: another gateway's clock is behind.
        let read = columns.time("read_at")?;
        if new.iter().any(|one| one.message.at <= read) {
            overtaken.push(room);
        }
    }
    if !overtaken.is_empty() {
        tx.write_now().await?;
        recount(tx, overtaken.iter()).await?;
    }
    Ok(begun)
}

/// Returns the row of a room with exactly these messages; None without messages.
fn new_row(new: &[&FiledMessage<'_>]) -> Option<Vec<Value>> {
    let latest = new.iter().max_by_key(|one| (one.message.at, one.message.id))?;
    let first = new.iter().map(|one| one.message.at).min()?;
    let count = stored(count(new.len()));
    let message = latest.message;
    Some(vec![
        latest.contact.get().into(),
        message.agent.into(),
        message.lineage.partner.into(),
        message.lineage.reseller.into(),
        message.lineage.organization.into(),
        message.inbox.as_str().into(),
        first.into(),
        message.at.into(),
        message.id.0.into(),
        message.preview.as_str().into(),
        count.into(),
        count.into(),
        // Nothing read: a place before all messages.
        (-1).into(),
        message.id.0.into(),
        latest.session.0.into(),
        first.into(),
        count.into(),
    ])
}

fn count(messages: usize) -> u64 {
    u64::try_from(messages).unwrap_or(u64::MAX)
}

/// Removes deleted messages from their rooms. Deletes empty rooms and their sessions. The caller
/// has called `lock_contacts`, because contacts are locked before rooms.
pub async fn remove_messages(
    tx: &mut Transaction,
    deleted: &[DeletedMessage],
) -> Result<(), StoreError> {
    let mut rooms: BTreeMap<Room, Vec<Cursor>> = BTreeMap::new();
    for one in deleted {
        rooms.entry(one.room).or_default().push(one.place);
    }
    save_last_seen(tx, deleted).await?;
    let locked = lock(tx, rooms.keys()).await?;
    let (mut empty, mut fewer, mut uncounted) = (Vec::new(), Vec::new(), Vec::new());
    let (mut without_latest, mut without_first) = (Vec::new(), Vec::new());
    for (room, places) in &rooms {
        let Some(locked) = locked.get(room) else { continue };
        let messages = locked.messages.saturating_sub(count(places.len()));
        if messages == 0 {
            empty.push(key(room));
            continue;
        }
        let unread = count(places.iter().filter(|place| **place > locked.read).count());
        // The count is a lower bound.
        if unread > 0 && locked.unread >= COUNTED {
            uncounted.push(*room);
        }
        let unread = locked.unread.saturating_sub(unread);
        fewer.push([key(room), vec![stored(messages).into(), stored(unread).into()]].concat());
        if places.iter().any(|place| place.id == locked.latest) {
            without_latest.push(key(room));
        }
        if places.iter().any(|place| place.at <= locked.started) {
            without_first.push(key(room));
        }
    }
    many(
        "WITH given (contact, agent) AS ({rows})
         DELETE FROM rooms WHERE (contact_id, agent_id) IN (SELECT contact, agent FROM given)",
        empty.clone(),
    )
    .execute(tx.on())
    .await?;
    many(
        "WITH given (contact, agent) AS ({rows})
         DELETE FROM sessions WHERE (contact_id, agent_id) IN (SELECT contact, agent FROM given)",
        empty,
    )
    .execute(tx.on())
    .await?;
    many(
        "WITH given (contact, agent, messages, unread) AS ({rows})
         UPDATE rooms SET messages = given.messages, unread = given.unread FROM given
         WHERE contact_id = given.contact AND agent_id = given.agent",
        fewer,
    )
    .execute(tx.on())
    .await?;
    recount(tx, uncounted.iter()).await?;
    set_latest(tx, without_latest).await?;
    set_first(tx, without_first).await
}

/// Locks the contacts of rooms whose latest message is one of these, in the same order as a commit:
/// after contents, before rooms.
pub async fn lock_contacts(tx: &mut Transaction, messages: &[Value]) -> Result<(), StoreError> {
    if !tx.has_concurrent_writers() {
        return Ok(());
    }
    many(
        "WITH given (message) AS ({rows})
         SELECT contacts.id FROM given CROSS JOIN messages CROSS JOIN rooms CROSS JOIN contacts
         WHERE messages.id = given.message AND rooms.contact_id = messages.contact_id
           AND rooms.agent_id = messages.agent_id AND rooms.last_message_id = messages.id
           AND contacts.id = rooms.contact_id",
        messages.iter().map(|id| vec![id.clone()]).collect(),
    )
    .locking("ORDER BY contacts.organization_id, contacts.address FOR NO KEY UPDATE OF contacts")
    .fetch_all(tx.on())
    .await
    .map(drop)
}

/// Stores the time of the last message in the contacts of rooms whose latest message is deleted.
async fn save_last_seen(
    tx: &mut Transaction,
    deleted: &[DeletedMessage],
) -> Result<(), StoreError> {
    let message = |one: &DeletedMessage| [key(&one.room), vec![one.place.id.into()]].concat();
    many(
        format!(
            "WITH given (contact, agent, message) AS ({{rows}})
             UPDATE contacts SET last_seen = {LAST_SEEN} WHERE id IN (
                 SELECT given.contact FROM given CROSS JOIN rooms
                 WHERE rooms.contact_id = given.contact AND rooms.agent_id = given.agent
                   AND rooms.last_message_id = given.message)"
        ),
        deleted.iter().map(message).collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// Makes the oldest message left the first of its room. Deletes sessions that ended before it.
async fn set_first(tx: &mut Transaction, rooms: Vec<Vec<Value>>) -> Result<(), StoreError> {
    many(
        "WITH given (contact, agent) AS ({rows}),
         oldest (contact, agent, at) AS (
             SELECT contact, agent, (SELECT at FROM messages
                 WHERE contact_id = given.contact AND agent_id = given.agent
                 ORDER BY at, id LIMIT 1)
             FROM given)
         UPDATE rooms SET started_at = oldest.at
         FROM oldest
         WHERE contact_id = oldest.contact AND agent_id = oldest.agent AND oldest.at IS NOT NULL",
        rooms.clone(),
    )
    .execute(tx.on())
    .await?;
    many(
        "WITH given (contact, agent) AS ({rows})
         DELETE FROM sessions WHERE id IN (
             SELECT sessions.id FROM given CROSS JOIN rooms CROSS JOIN sessions
             WHERE rooms.contact_id = given.contact AND rooms.agent_id = given.agent
               AND sessions.contact_id = given.contact AND sessions.agent_id = given.agent
               AND sessions.ended_at < rooms.started_at)",
        rooms,
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// Makes the latest message left the latest of its room.
async fn set_latest(tx: &mut Transaction, rooms: Vec<Vec<Value>>) -> Result<(), StoreError> {
    many(
        "WITH given (contact, agent) AS ({rows}),
         latest (contact, agent, message) AS (
             SELECT contact, agent, (SELECT id FROM messages
                 WHERE contact_id = given.contact AND agent_id = given.agent
                 ORDER BY at DESC, id DESC LIMIT 1)
             FROM given)
         UPDATE rooms SET inbox = messages.inbox, last_at = messages.at,
                          last_message_id = messages.id, preview = NULL
         FROM latest CROSS JOIN messages
         WHERE rooms.contact_id = latest.contact AND rooms.agent_id = latest.agent
           AND messages.id = latest.message",
        rooms,
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// Unread messages are counted up to this number; a row with it or more is a lower bound.
const COUNTED: u64 = 1000;

/// Counts the unread messages of each room again: those after the place up to which the room was
/// read. The caller holds the rooms locked.
async fn recount(
    tx: &mut Transaction,
    rooms: impl Iterator<Item = &Room>,
) -> Result<(), StoreError> {
    many(
        "WITH given (contact, agent) AS ({rows})
         UPDATE rooms SET unread = (
             SELECT COUNT(*) FROM (
                 SELECT id FROM messages
                 WHERE messages.contact_id = rooms.contact_id
                   AND messages.agent_id = rooms.agent_id
                   AND (messages.at, messages.id) > (rooms.read_at, rooms.read_id)
                 LIMIT $1) AS walked)
         FROM given WHERE contact_id = given.contact AND agent_id = given.agent",
        rooms.map(key).collect(),
    )
    .bind(stored(COUNTED))
    .execute(tx.on())
    .await
    .map(drop)
}

/// Locks these rooms until the transaction ends, in key order, and returns their rows.
async fn lock(
    tx: &mut Transaction,
    rooms: impl Iterator<Item = &Room>,
) -> Result<HashMap<Room, LockedRoom>, StoreError> {
    let found = many(
        "WITH given (contact, agent) AS ({rows})
         SELECT contact_id, agent_id, rooms.partner_id, rooms.reseller_id, rooms.organization_id,
                messages, unread, started_at, last_message_id, read_at, read_id
         FROM given CROSS JOIN rooms
         WHERE contact_id = given.contact AND agent_id = given.agent",
        rooms.map(key).collect(),
    )
    .locking("ORDER BY contact_id, agent_id FOR NO KEY UPDATE OF rooms")
    .fetch_all(tx.on())
    .await?;
    let locked = |row| {
        let columns = Columns { table: "rooms", row };
        let locked = LockedRoom {
            messages: columns.count("messages")?,
            unread: columns.count("unread")?,
            started: columns.time("started_at")?,
            latest: columns.uuid("last_message_id")?,
            read: Cursor { at: columns.time("read_at")?, id: columns.uuid("read_id")? },
            lineage: columns.lineage()?,
        };
        Ok((room(&columns)?, locked))
    };
    found.iter().map(locked).collect()
}

fn key(room: &Room) -> Vec<Value> {
    vec![room.contact.get().into(), room.agent.into()]
}

pub fn room(columns: &Columns<'_>) -> Result<Room, StoreError> {
    let (contact, agent) = (columns.contact("contact_id")?, columns.account("agent_id")?);
    Ok(Room { contact, agent })
}
