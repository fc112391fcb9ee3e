//! Inbound policies and allowlists. Every change raises the version of the policy in the same
//! transaction, so that a message with a verdict by the old policy is decided again.

use super::accounts;
use super::audit::{self, Note};
use super::directory;
use crate::domain::account::Lineage;
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
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;
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
            let lineage = close(&mut tx, agent).await?;
            let changed =
                sql("UPDATE inbound_policies SET mode = $2 WHERE agent_id = $1 AND mode <> $2")
                    .bind(agent.get())
                    .bind(mode.as_str())
                    .execute(tx.on())
                    .await?;
            touch(&mut tx, agent, act.at).await?;
            // Setting the present mode must not empty the caches of all gateways.
            if changed > 0 {
                let before = match mode {
                    Mode::Open => Mode::Allowlist,
                    Mode::Allowlist => Mode::Open,
                };
                let changes = [Change::new("mode", Some(before), Some(mode))];
                let (deed, object) = (Deed::PolicyChanged, agent.to_string());
                let set = Note { account: agent, deed, object, changes: &changes };
                audit::note(&mut tx, self.mint(), act, set).await?;
                self.say_changed(&mut tx, (agent, lineage), act.at, (0, 0)).await?;
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
            let lineage = close(&mut tx, agent).await?;
            let mut added = Vec::new();
            for sender in senders {
                let done = sql("INSERT INTO allowed_senders (agent_id, address, note, added_at)
                 VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING")
                .bind(agent.get())
                .bind(sender.to_string())
                .bind(note)
                .bind(act.at)
                .execute(tx.on())
                .await?;
                if done > 0 {
                    added.push(sender.clone());
                }
            }
            let total = count(&mut tx, agent).await?;
            if total > most {
                return Ok(None);
            }
            if !added.is_empty() {
                touch(&mut tx, agent, act.at).await?;
                let changes = named(&added, Change::made);
                let (deed, object) = (Deed::SendersAllowed, agent.to_string());
                let allowed = Note { account: agent, deed, object, changes: &changes };
                audit::note(&mut tx, self.mint(), act, allowed).await?;
                let numbers = (added.len(), 0);
                self.say_changed(&mut tx, (agent, lineage), act.at, numbers).await?;
            }
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
            let lineage = close(&mut tx, agent).await?;
            let mut removed = Vec::new();
            for sender in senders {
                let done = sql("DELETE FROM allowed_senders WHERE agent_id = $1 AND address = $2")
                    .bind(agent.get())
                    .bind(sender.to_string())
                    .execute(tx.on())
                    .await?;
                if done > 0 {
                    removed.push(sender.clone());
                }
            }
            let total = count(&mut tx, agent).await?;
            if !removed.is_empty() {
                touch(&mut tx, agent, act.at).await?;
                let changes = named(&removed, Change::gone);
                let (deed, object) = (Deed::SendersRemoved, agent.to_string());
                let gone = Note { account: agent, deed, object, changes: &changes };
                audit::note(&mut tx, self.mint(), act, gone).await?;
                let numbers = (0, removed.len());
                self.say_changed(&mut tx, (agent, lineage), act.at, numbers).await?;
            }
            tx.commit().await?;
            Ok((removed, total))
        })
    }

    /// Announces the present policy, with the numbers of senders added and removed.
    async fn say_changed(
        &self,
        tx: &mut Transaction,
        (agent, lineage): (AccountId, Option<Lineage>),
        at: Timestamp,
        (added, removed): (usize, usize),
    ) -> Result<(), StoreError> {
        let Some(lineage) = lineage else { return Ok(()) };
        let row = sql("SELECT mode FROM inbound_policies WHERE agent_id = $1")
            .bind(agent.get())
            .fetch_one(tx.on())
            .await?;
        let mode: Mode = Columns { table: "inbound_policies", row: &row }.word("mode")?;
        let (account_id, mode) = (agent.into(), mode.as_str());
        let allowlist_count = count(tx, agent).await?;
        let data = PolicyData { account_id, mode, allowlist_count, added, removed };
        let name = EventName::AgentPolicyChanged;
        let event = AccountEvent { name, at, lineage, data: event_data(&data) };
        announce_account_event(tx, self.mint(), event).await
    }
}

/// Closes the gate of the Agent, and passes the gates of the accounts above it, whose destinations
/// get the event. Returns the lineage, or None if the Agent was deleted.
async fn close(tx: &mut Transaction, agent: AccountId) -> Result<Option<Lineage>, StoreError> {
    // Read before the gates: an account never moves.
    let Some(account) = accounts::find(tx, agent).await? else {
        gates::close_account(tx, agent).await?;
        return Ok(None);
    };
    let above: Vec<_> = account.lineage.ids().filter(|id| *id != agent).collect();
    gates::close_below(tx, agent, &above).await?;
    Ok(Some(account.lineage))
}

/// Returns changes for the first `NAMED` senders, and one with the number of the others.
fn named(senders: &[Address], change: fn(&str, String) -> Change) -> Vec<Change> {
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

async fn touch(tx: &mut Transaction, agent: AccountId, now: Timestamp) -> Result<(), StoreError> {
    sql("UPDATE inbound_policies SET version = version + 1, updated_at = $2 WHERE agent_id = $1")
        .bind(agent.get())
        .bind(now.millis())
        .execute(tx.on())
        .await?;
    Ok(())
}
