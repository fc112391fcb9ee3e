//! What an account's own platform hands in: written as mail is, in the same groups, by the same
//! statements. It rests on less: its Agent must be active, and its request may have been carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::batch::{Entered, Written};
use crate::domain::account::{Account, AccountType, Lineage};
use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, ContactId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::{Digest, Received};
use crate::domain::scope::Scope;
use crate::domain::source::Inbox;
use crate::domain::thread::ThreadKeys;
use crate::store::base::page::within;
use crate::store::db::{Store, TRIES, Transaction};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::mailbox::contents::Kept;
use crate::store::mailbox::entry::{Arrived, Ready};
use crate::store::tenancy::once;

/// A message that was handed in, with its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Handed {
    pub record: IntakeRecord,
    pub message: NewReceived,
    /// As it was posted, without the names of targets.
    pub raw: Bytes,
    /// The request that may be carried out once, and whoever does so.
    pub once: Option<(Once, Uuid)>,
}

/// A message before it has its contact.
#[derive(Clone, Debug, PartialEq)]
pub struct NewReceived {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub agent_username: String,
    pub organization: AccountId,
    pub at: Timestamp,
    pub inbox: Inbox,
    pub thread: ThreadKeys,
    pub received: Received,
    /// SHA-256 of what was posted.
    pub digest: Digest,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Durable, in the room of this contact.
    Stored(ContactId),
    /// The Agent, or an account above it, is not active or not there; nothing was written.
    Inactive,
}

impl Store {
    /// Writes everything, or nothing; together with others that wait. A request that may be carried
    /// out once and was is `Repeated`.
    pub async fn receive(&self, handed: &Handed) -> Result<Receipt, StoreError> {
        let mut kept = Kept::default();
        let digest = handed.message.digest;
        let apart = self.blobs().is_some_and(|blobs| blobs.takes(&handed.raw));
        for _ in 0..TRIES {
            self.keep_raw(digest, &handed.raw, &mut kept).await?;
            let ready = Ready::handed(handed, kept.get(&digest).cloned(), apart)?;
            match self.intakes.ask(ready).await? {
                Written::Done(entered) => {
                    let stored = entered.into_iter().find_map(|entered| match entered {
                        Entered::Stored(contact) => Some(Receipt::Stored(contact)),
                        Entered::Recorded | Entered::Again(_) => None,
                    });
                    return stored.ok_or_else(|| StoreError::Corrupt {
                        table: "messages",
                        detail: format!("{} was written and is not there", handed.message.id),
                    });
                }
                Written::Stale => return Ok(Receipt::Inactive),
                Written::Repeated => return Err(StoreError::Repeated),
                Written::Unkept => {}
            }
        }
        Err(StoreError::Conflict(Arc::new(sqlx::Error::RowNotFound)))
    }

    /// Up to `limit` Agents in `scope` of this username, which others may have, too.
    pub async fn agents_called(
        &self,
        scope: &Scope,
        username: &str,
        limit: u32,
    ) -> Result<Vec<Account>, StoreError> {
        let mut query =
            crate::store::tenancy::accounts::select("AND username = $1 AND kind = $2 AND ")
                .bind(username)
                .bind(AccountType::Agent.as_str());
        within(&mut query, scope);
        query.push(" ORDER BY id LIMIT ").push_value(i64::from(limit));
        let rows = query.fetch_all(self.reader()).await?;
        rows.iter().map(crate::store::tenancy::accounts::account).collect()
    }
}

/// Of the Agents that something is handed in for, those that are active with all above them. Their
/// gates are passed: they stay so until the transaction ends.
pub async fn active(
    tx: &mut Transaction,
    arrived: &[&Arrived],
) -> Result<BTreeSet<AccountId>, StoreError> {
    let agents = arrived.iter().filter(|one| one.decided.is_none()).map(|one| one.agent);
    let agents: BTreeSet<AccountId> = agents.collect();
    let found = many(
        "WITH given (agent) AS ({rows})
         SELECT me.id AS agent,
                (SELECT MIN(CASE WHEN deleted_at IS NULL THEN active ELSE 0 END)
                 FROM accounts AS above
                 WHERE above.id IN (me.partner_id, me.reseller_id, me.organization_id, me.id))
                    AS active
         FROM given CROSS JOIN accounts AS me WHERE me.id = given.agent",
        agents.into_iter().map(|agent| vec![agent.into()]).collect(),
    )
    .fetch_all(tx.on())
    .await?;
    let mut active = BTreeSet::new();
    for row in &found {
        let columns = Columns { table: "accounts", row };
        if columns.flag("active")? {
            active.insert(columns.account("agent")?);
        }
    }
    Ok(active)
}

/// The places in the group of requests that others have carried out. Those of the rest are
/// remembered, in the order of their digests.
pub async fn repeated(
    tx: &mut Transaction,
    group: &[Ready],
    stale: &[bool],
) -> Result<BTreeSet<usize>, StoreError> {
    let mut requests = BTreeMap::new();
    for (place, (ready, stale)) in group.iter().zip(stale).enumerate() {
        let once = ready.arrived().find_map(|one| one.once).filter(|_| !stale);
        if let Some((once, holder)) = once {
            requests.insert((once.digest, place), (once, holder, ready.now));
        }
    }
    let mut repeated = BTreeSet::new();
    for ((_, place), (once, holder, now)) in requests {
        if !once::remember(tx, &once, holder, now, None).await? {
            repeated.insert(place);
        }
    }
    Ok(repeated)
}
