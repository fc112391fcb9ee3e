//! Repeats: the same message arriving again for the same Agent (contract §2, Repeats).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::intake::Commit;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::id::{AccountId, MessageId};
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Row;
use crate::store::mailbox::entry::Arrived;

type Key = (AccountId, [u8; 32]);

impl Base {
    /// Whether all messages of `commit`, if any, are repeats at its time. The commit decides anew.
    pub async fn arrived_before(&self, commit: &Commit) -> Result<bool, StoreError> {
        let accepted = || commit.intakes.iter().filter_map(|intake| intake.accepted.as_ref());
        let keys = accepted().flat_map(|one| {
            one.arrival_keys.iter().map(|key| vec![one.message.agent.into(), key.as_slice().into()])
        });
        let found = many(
            "WITH given (agent, key) AS ({rows})
             SELECT agent_id, arrivals.key AS key FROM given CROSS JOIN arrivals
             WHERE arrivals.agent_id = given.agent AND arrivals.key = given.key
               AND arrivals.expires_at > $1",
            keys.collect(),
        )
        .bind(self.mint().clock().steady_of(commit.now))
        .fetch_all(self.reader())
        .await?;
        let mut held = BTreeSet::new();
        for row in &found {
            let columns = Columns { table: "arrivals", row };
            held.insert((columns.account("agent_id")?, columns.digest("key")?.0));
        }
        let is_held =
            |agent, keys: &[[u8; 32]]| keys.iter().any(|key| held.contains(&(agent, *key)));
        Ok(accepted().all(|one| is_held(one.message.agent, &one.arrival_keys)))
    }
}

/// The first message with a key claims the key.
fn claims<'a>(arrived: &[&'a Arrived]) -> BTreeMap<Key, &'a Arrived> {
    let mut claims = BTreeMap::new();
    for one in arrived {
        for key in &one.keys {
            claims.entry((one.agent, *key)).or_insert(*one);
        }
    }
    claims
}

/// Remembers the arrivals. Waits for a commit that stores the same message at this moment.
pub fn remember(arrived: &[&Arrived], now: Timestamp, clock: &Clock) -> Many {
    // In steady time: setting the clock turns no repeat into a new message.
    let until = |one: &Arrived| clock.steady_of(one.remembered_until);
    // A key still remembered keeps its message; an expired key is taken over.
    let rows = claims(arrived).into_iter().map(|((agent, key), one)| {
        let until = until(one).into();
        vec![agent.into(), key.as_slice().into(), one.id.0.into(), until, one.organization.into()]
    });
    many(
        "INSERT INTO arrivals (agent_id, key, message_id, expires_at, organization_id) {rows}
         ON CONFLICT (agent_id, key, organization_id) DO UPDATE SET
            message_id = CASE WHEN arrivals.expires_at <= $1
                THEN excluded.message_id ELSE arrivals.message_id END,
            expires_at = CASE WHEN arrivals.expires_at <= $1
                THEN excluded.expires_at ELSE arrivals.expires_at END
         RETURNING agent_id, key, message_id",
        rows.collect(),
    )
    .bind(clock.steady_of(now))
}

/// Returns the earlier message of each repeat, by the keys as they are remembered; it may be of this
/// group.
pub fn earlier(
    tx: &mut Transaction,
    arrived: &[&Arrived],
    remembered: &[Row],
) -> Result<HashMap<MessageId, MessageId>, StoreError> {
    let mut holders: HashMap<Key, MessageId> = HashMap::with_capacity(remembered.len());
    for row in remembered {
        let columns = Columns { table: "arrivals", row };
        let key = (columns.account("agent_id")?, columns.digest("key")?.0);
        holders.insert(key, MessageId(columns.uuid("message_id")?));
    }
    let earlier = repeats(arrived, &holders);
    if earlier.is_empty() {
        return Ok(earlier);
    }
    // Keys that a repeat brought get the stored message, because the repeat is never stored.
    let moved = claims(arrived).into_iter().filter_map(|((agent, key), one)| {
        let holder = holders.get(&(agent, key))?;
        let there = earlier.get(&one.id).filter(|_| *holder == one.id)?;
        Some(vec![agent.into(), key.as_slice().into(), there.0.into()])
    });
    tx.later(many(
        "WITH given (agent, key, message) AS ({rows})
         UPDATE arrivals SET message_id = given.message FROM given
         WHERE arrivals.agent_id = given.agent AND arrivals.key = given.key",
        moved.collect(),
    ));
    Ok(earlier)
}

/// Returns the repeats and their earlier messages. Goes in the order of arrival, so that the holder
/// of a key within the group is settled before a repeat meets it.
fn repeats(
    arrived: &[&Arrived],
    holders: &HashMap<Key, MessageId>,
) -> HashMap<MessageId, MessageId> {
    let mut earlier: HashMap<MessageId, MessageId> = HashMap::new();
    for one in arrived {
        let mut held = one.keys.iter().filter_map(|key| holders.get(&(one.agent, *key)));
        if let Some(holder) = held.find(|holder| **holder != one.id) {
            let first = earlier.get(holder).copied().unwrap_or(*holder);
            earlier.insert(one.id, first);
        }
    }
    earlier
}
