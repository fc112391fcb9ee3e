//! Inbound policies and allowlists. Every change raises the version of the policy in the same
//! transaction, so that a message with a verdict by the old policy is decided again. A change fails
//! with `NoAccount` if the Agent was deleted.

use std::collections::HashSet;

use super::accounts;
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::Account;
use crate::domain::address::Address;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::event::EventName;
use crate::domain::id::AccountId;
use crate::domain::policy::{AllowedSender, Mode, Policy};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Value, sql};
use crate::store::events::announcements::{AccountEvent, announce_account_event};
use crate::store::events::event_data::{PolicyData, event_data};

/// Senders named in one audit entry: a call may bring a thousand.
const NAMED: usize = 20;

impl Base {
    /// Returns the policy of an Agent; None for other accounts.
    pub async fn policy(&self, agent: AccountId) -> Result<Option<Policy>, StoreError> {
        let row = sql("SELECT mode, version, updated_at,
                    (SELECT COUNT(*) FROM allowed_senders WHERE agent_id = $1) AS allowed
             FROM inbound_policies WHERE agent_id = $1")
        .bind(agent.get())
        .fetch_optional(self.reader())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "inbound_policies", row: &row };
        Ok(Some(Policy {
            mode: columns.word("mode")?,
            allowlist_count: columns.count("allowed")?,
            version: columns.integer("version")?,
            updated_at: columns.time("updated_at")?,
        }))
    }

    pub async fn set_mode(
        &self,
        agent: AccountId,
        mode: Mode,
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        transact!(self, async |tx| {
            let agent = close(&mut tx, agent).await?;
            let changed =
                sql("UPDATE inbound_policies SET mode = $2 WHERE agent_id = $1 AND mode <> $2")
                    .bind(agent.id)
                    .bind(mode.as_str())
                    .execute(tx.on())
                    .await?;
            raise_version(&mut tx, agent.id, act.at).await?;
            // Setting the present mode must not empty the caches of all gateways.
            if changed > 0 {
                let before = match mode {
                    Mode::Open => Mode::Allowlist,
                    Mode::Allowlist => Mode::Open,
                };
                let changes = [Change::new("mode", Some(before), Some(mode))];
                let note = Note::new(agent.id, Deed::PolicyChanged, &agent.id, &changes);
                audit::note(&mut tx, self.mint(), act, note).await?;
                self.announce_policy(&mut tx, &agent, 0, 0, act.at).await?;
                directory::changed(&mut tx).await?;
            }
            tx.commit().await
        })
    }

    /// Returns a page of an Agent's allowlist behind `after`, in the order of addresses.
    pub async fn allowed_senders(
        &self,
        agent: AccountId,
        limit: u32,
        after: Option<&Address>,
    ) -> Result<Vec<AllowedSender>, StoreError> {
        let rows = sql("SELECT address, note, added_at FROM allowed_senders
             WHERE agent_id = $1 AND address > $2 ORDER BY address LIMIT $3")
        .bind(agent.get())
        .bind(after.map(Address::to_string).unwrap_or_default())
        .bind(i64::from(limit))
        .fetch_all(self.reader())
        .await?;
        rows.iter()
            .map(|row| {
                let columns = Columns { table: "allowed_senders", row };
                Ok(AllowedSender {
                    address: columns.address("address")?,
                    note: columns.optional_text("note")?,
                    added_at: columns.time("added_at")?,
                })
            })
            .collect()
    }

    /// Adds senders. Returns the new ones, and the length of the list. Returns None, and adds
    /// nothing, if the list would exceed `most`.
    pub async fn allow_senders(
        &self,
        agent: AccountId,
        senders: &[Address],
        note: Option<&str>,
        most: u64,
        act: Act<'_>,
    ) -> Result<Option<(Vec<Address>, u64)>, StoreError> {
        transact!(self, async |tx| {
            let agent = close(&mut tx, agent).await?;
            let rows = many(
                "WITH given (sender) AS ({rows})
                 INSERT INTO allowed_senders (agent_id, address, note, added_at)
                 SELECT $1, sender, $2, $3 FROM given WHERE 1 = 1
                 ON CONFLICT DO NOTHING RETURNING address",
                rows_of(senders),
            )
            .bind(agent.id)
            .bind(note)
            .bind(act.at)
            .fetch_all(tx.on())
            .await?;
            let added = changed_of(senders, &rows)?;
            let total = count(&mut tx, agent.id).await?;
            if total > most {
                return Ok(None);
            }
            self.record_senders(&mut tx, &agent, &added, &[], act).await?;
            tx.commit().await?;
            Ok(Some((added, total)))
        })
    }

    /// Removes senders. Returns those that were on the list, and the length of the list. After this
    /// no message of theirs is committed in `allowlist` mode.
    pub async fn remove_senders(
        &self,
        agent: AccountId,
        senders: &[Address],
        act: Act<'_>,
    ) -> Result<(Vec<Address>, u64), StoreError> {
        transact!(self, async |tx| {
            let agent = close(&mut tx, agent).await?;
            let rows = many(
                "DELETE FROM allowed_senders WHERE agent_id = $1 AND address IN ({rows})
                 RETURNING address",
                rows_of(senders),
            )
            .bind(agent.id)
            .fetch_all(tx.on())
            .await?;
            let removed = changed_of(senders, &rows)?;
            let total = count(&mut tx, agent.id).await?;
            self.record_senders(&mut tx, &agent, &[], &removed, act).await?;
            tx.commit().await?;
            Ok((removed, total))
        })
    }

    /// Raises the version, and writes the audit entry and the event, unless no sender was added or
    /// removed.
    async fn record_senders(
        &self,
        tx: &mut Transaction,
        agent: &Account,
        added: &[Address],
        removed: &[Address],
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let (deed, changes) = match (added, removed) {
            ([], []) => return Ok(()),
            (_, []) => (Deed::SendersAllowed, sender_changes(added, Change::made)),
            _ => (Deed::SendersRemoved, sender_changes(removed, Change::gone)),
        };
        raise_version(tx, agent.id, act.at).await?;
        audit::note(tx, self.mint(), act, Note::new(agent.id, deed, &agent.id, &changes)).await?;
        self.announce_policy(tx, agent, added.len(), removed.len(), act.at).await
    }

    /// Announces the present policy, with the numbers of senders added and removed.
    async fn announce_policy(
        &self,
        tx: &mut Transaction,
        agent: &Account,
        added: usize,
        removed: usize,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let Account { id, lineage, .. } = *agent;
        let row = sql("SELECT mode FROM inbound_policies WHERE agent_id = $1")
            .bind(id)
            .fetch_one(tx.on())
            .await?;
        let mode: Mode = Columns { table: "inbound_policies", row: &row }.word("mode")?;
        let (account_id, mode) = (id.into(), mode.as_str());
        let allowlist_count = count(tx, id).await?;
        let data = PolicyData { account_id, mode, allowlist_count, added, removed };
        let name = EventName::AgentPolicyChanged;
        let event = AccountEvent { name, at, lineage, data: event_data(&data) };
        announce_account_event(tx, self.mint(), event).await
    }
}

/// Closes the gate of the Agent, and passes the gates of the accounts above it, whose destinations
/// get the event.
async fn close(tx: &mut Transaction, id: AccountId) -> Result<Account, StoreError> {
    // Read before the gates: an account never moves.
    let found = accounts::find(tx, id).await?.ok_or(StoreError::NoAccount)?;
    let above: Vec<_> = found.lineage.ids().filter(|above| *above != id).collect();
    gates::close_below(tx, id, &above).await?;
    // A deletion may have passed meanwhile.
    accounts::find(tx, id).await?.ok_or(StoreError::NoAccount)
}

fn rows_of(senders: &[Address]) -> Vec<Vec<Value>> {
    senders.iter().map(|sender| vec![sender.to_string().into()]).collect()
}

/// Returns the senders of these rows, each once, in the order of `senders`.
fn changed_of(senders: &[Address], rows: &[Row]) -> Result<Vec<Address>, StoreError> {
    let address = |row| Columns { table: "allowed_senders", row }.text("address");
    let mut changed = rows.iter().map(address).collect::<Result<HashSet<_>, _>>()?;
    Ok(senders.iter().filter(|sender| changed.remove(&sender.to_string())).cloned().collect())
}

/// Returns changes for the first `NAMED` senders, and one with the number of the others.
fn sender_changes(senders: &[Address], change: fn(&str, String) -> Change) -> Vec<Change> {
    let more = senders.len().saturating_sub(NAMED);
    let first = senders.iter().take(NAMED).map(|one| change("email", one.to_string()));
    first.chain((more > 0).then(|| change("more", more.to_string()))).collect()
}

async fn count(tx: &mut Transaction, agent: AccountId) -> Result<u64, StoreError> {
    let row = sql("SELECT COUNT(*) AS allowed FROM allowed_senders WHERE agent_id = $1")
        .bind(agent.get())
        .fetch_one(tx.on())
        .await?;
    Columns { table: "allowed_senders", row: &row }.count("allowed")
}

async fn raise_version(
    tx: &mut Transaction,
    agent: AccountId,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql("UPDATE inbound_policies SET version = version + 1, updated_at = $2 WHERE agent_id = $1")
        .bind(agent)
        .bind(now)
        .execute(tx.on())
        .await
        .map(drop)
}
