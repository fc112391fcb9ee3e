//! The threads of a room. Table `thread_keys` has a row for each Message-ID seen in the room: of a
//! message itself, or named by a message.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::entry::Arrived;
use crate::domain::contact::ContactChange;
use crate::domain::id::{AccountId, ContactId, MessageId, ThreadId};
use crate::domain::thread::ThreadKey;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Value;

/// The threads of new messages, and the keys by which later messages find them.
pub struct Threads {
    /// In the order of the messages.
    pub found: Vec<ThreadId>,
    /// The new rows of `thread_keys`.
    new: BTreeMap<(ContactId, AccountId, ThreadKey), New>,
}

impl Threads {
    /// Finds or begins the thread of each message. Messages of one room see each other, in their
    /// order. The caller has locked the contacts, so no other gateway adds messages to these rooms.
    pub(in crate::store) async fn find(
        tx: &mut Transaction,
        arrived: &[&Arrived],
        met: &[(ContactId, ContactChange)],
    ) -> Result<Self, StoreError> {
        let mut asked = BTreeSet::new();
        for (one, (contact, _)) in arrived.iter().zip(met) {
            asked.extend(one.thread.all().map(|key| (*contact, one.agent, key)));
        }
        let mut known = known(tx, &asked).await?;
        let mut threads = Self { found: Vec::with_capacity(arrived.len()), new: BTreeMap::new() };
        for (one, (contact, _)) in arrived.iter().zip(met) {
            let room = known.entry((*contact, one.agent)).or_default();
            let mut new: BTreeSet<ThreadKey> =
                one.thread.all().filter(|key| !room.contains_key(key)).collect();
            // Its own key is deleted with it, not with a reply that arrived before.
            new.extend(one.thread.own);
            let thread = one.thread.join(one.id, room);
            threads.found.push(thread);
            for key in new {
                let thread = room.get(&key).copied().unwrap_or(thread);
                threads.new.insert((*contact, one.agent, key), (thread, one.id, one.organization));
            }
        }
        Ok(threads)
    }

    /// Writes the new keys with the commit, after the messages.
    pub(in crate::store) fn keep(self, tx: &mut Transaction) {
        tx.later(many(
            "INSERT INTO thread_keys (contact_id, agent_id, key, thread_id, message_id,
                 organization_id) {rows}
             ON CONFLICT (contact_id, agent_id, key, organization_id)
                 DO UPDATE SET message_id = excluded.message_id",
            self.new.into_iter().map(row).collect(),
        ));
    }
}

/// The thread of a key, the message with which the key is deleted, and their organization.
type New = (ThreadId, MessageId, AccountId);

fn row(
    ((contact, agent, key), (thread, message, organization)): (
        (ContactId, AccountId, ThreadKey),
        New,
    ),
) -> Vec<Value> {
    vec![
        contact.get().into(),
        agent.into(),
        key.0.as_slice().into(),
        thread.0.into(),
        message.0.into(),
        organization.into(),
    ]
}

type KnownThreads = HashMap<(ContactId, AccountId), HashMap<ThreadKey, ThreadId>>;

async fn known(
    tx: &mut Transaction,
    asked: &BTreeSet<(ContactId, AccountId, ThreadKey)>,
) -> Result<KnownThreads, StoreError> {
    let rows = asked.iter().map(|(contact, agent, key)| {
        vec![contact.get().into(), (*agent).into(), key.0.as_slice().into()]
    });
    let found = many(
        "WITH given (contact, agent, name) AS ({rows})
         SELECT contact_id, agent_id, key, thread_id FROM given CROSS JOIN thread_keys
         WHERE contact_id = given.contact AND agent_id = given.agent AND key = given.name",
        rows.collect(),
    )
    .fetch_all(tx.on())
    .await?;
    let mut known = KnownThreads::new();
    for row in &found {
        let columns = Columns { table: "thread_keys", row };
        let key = <[u8; 16]>::try_from(columns.bytes("key")?);
        let key = key.map_err(|_| columns.corrupt("a key is not 16 bytes"))?;
        let room = (columns.contact("contact_id")?, columns.account("agent_id")?);
        let thread = ThreadId(columns.uuid("thread_id")?);
        known.entry(room).or_default().insert(ThreadKey(key), thread);
    }
    Ok(known)
}
