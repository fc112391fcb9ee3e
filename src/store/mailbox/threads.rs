//! The threads of a room. Table `thread_keys` has a row for each Message-ID seen in the room: of a
//! message itself, or named by a message.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::entry::FiledMessage;
use super::rooms::room;
use crate::domain::id::{AccountId, MessageId, ThreadId};
use crate::domain::room::Room;
use crate::domain::thread::ThreadKey;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Row;

/// The new rows of `thread_keys`, by which later messages find their threads.
pub type NewThreadKeys = BTreeMap<(Room, ThreadKey), KeyedThread>;

/// The thread that a key finds.
pub struct KeyedThread {
    thread: ThreadId,
    /// The message with which the key is deleted.
    message: MessageId,
    organization: AccountId,
}

/// Asks for the threads that these messages may join. The caller has locked the contacts, so no
/// other gateway adds messages to these rooms.
pub fn known(filed: &[FiledMessage<'_>]) -> Many {
    let mut wanted = BTreeSet::new();
    for one in filed {
        wanted.extend(one.message.thread.all().map(|key| (one.room(), key)));
    }
    let rows = wanted.into_iter().map(|(room, key)| {
        vec![room.contact.get().into(), room.agent.into(), key.0.as_slice().into()]
    });
    many(
        "WITH given (contact, agent, name) AS ({rows})
         SELECT contact_id, agent_id, key, thread_id FROM given CROSS JOIN thread_keys
         WHERE contact_id = given.contact AND agent_id = given.agent AND key = given.name",
        rows.collect(),
    )
}

/// Finds or begins the thread of each message, and returns the new keys. Messages of one room see
/// each other, in their order.
pub fn assign(known: &[Row], filed: &mut [FiledMessage<'_>]) -> Result<NewThreadKeys, StoreError> {
    let mut known = read(known)?;
    let mut new_keys = NewThreadKeys::new();
    for one in filed {
        let (room, message) = (one.room(), one.message);
        let threads = known.entry(room).or_default();
        let mut new: BTreeSet<ThreadKey> =
            message.thread.all().filter(|key| !threads.contains_key(key)).collect();
        // Its own key is deleted with it, not with a reply that arrived before.
        new.extend(message.thread.own);
        one.thread = message.thread.join(message.id, threads);
        for key in new {
            let thread = threads.get(&key).copied().unwrap_or(one.thread);
            let organization = message.organization;
            new_keys.insert((room, key), KeyedThread { thread, message: message.id, organization });
        }
    }
    Ok(new_keys)
}

/// Writes the new keys with the commit, after the messages.
pub fn insert_keys(tx: &mut Transaction, new: NewThreadKeys) {
    let rows = new.into_iter().map(|((room, key), new)| {
        vec![
            room.contact.get().into(),
            room.agent.into(),
            key.0.as_slice().into(),
            new.thread.0.into(),
            new.message.0.into(),
            new.organization.into(),
        ]
    });
    tx.later(many(
        "INSERT INTO thread_keys (contact_id, agent_id, key, thread_id, message_id,
             organization_id) {rows}
         ON CONFLICT (contact_id, agent_id, key, organization_id)
             DO UPDATE SET message_id = excluded.message_id",
        rows.collect(),
    ));
}

fn read(found: &[Row]) -> Result<HashMap<Room, HashMap<ThreadKey, ThreadId>>, StoreError> {
    let mut known: HashMap<Room, HashMap<ThreadKey, ThreadId>> = HashMap::new();
    for row in found {
        let columns = Columns { table: "thread_keys", row };
        let key = <[u8; 16]>::try_from(columns.bytes("key")?);
        let key = key.map_err(|_| columns.corrupt("a key is not 16 bytes"))?;
        let (room, thread) = (room(&columns)?, ThreadId(columns.uuid("thread_id")?));
        known.entry(room).or_default().insert(ThreadKey(key), thread);
    }
    Ok(known)
}
