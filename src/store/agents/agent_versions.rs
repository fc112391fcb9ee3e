//! Versions: earlier configurations of an Agent, kept to restore them. Changes queue with the
//! changes of the Agent's configurations.

use super::config_rows::{QUEUE, text};
use crate::domain::agent_config::{AgentVersion, Config, VersionId};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, sql};
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit::{self, Note};

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versioned {
    Done,
    Missing,
    /// The Agent has as many versions made or named by hand as it may.
    Full,
}

impl Base {
    /// Returns up to `limit` versions of an Agent older than `before`, the newest first, with their
    /// snapshots only if `with_data`.
    pub async fn agent_versions(
        &self,
        agent: AccountId,
        before: Option<VersionId>,
        limit: u32,
        with_data: bool,
    ) -> Result<Vec<AgentVersion>, StoreError> {
        let query = if with_data {
            "SELECT version_id, title, automatic, created_at, snapshot FROM agent_versions
             WHERE agent_id = $1 AND version_id < $2 ORDER BY version_id DESC LIMIT $3"
        } else {
            "SELECT version_id, title, automatic, created_at, NULL AS snapshot FROM agent_versions
             WHERE agent_id = $1 AND version_id < $2 ORDER BY version_id DESC LIMIT $3"
        };
        let rows = sql(query)
            .bind(agent)
            .bind(before.map_or(i64::MAX, VersionId::get))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(version).collect()
    }

    /// Returns a version with its snapshot.
    pub async fn agent_version(
        &self,
        agent: AccountId,
        id: VersionId,
    ) -> Result<Option<AgentVersion>, StoreError> {
        let row = sql("SELECT version_id, title, automatic, created_at, snapshot
             FROM agent_versions WHERE agent_id = $1 AND version_id = $2")
        .bind(agent)
        .bind(id.get())
        .fetch_optional(self.reader())
        .await?;
        row.as_ref().map(version).transpose()
    }

    /// Keeps a configuration as a version with this title. Returns None if the Agent has `most`
    /// versions made or named by hand.
    pub async fn keep_agent_version(
        &self,
        agent: AccountId,
        (title, snapshot): (&str, &Config),
        most: u32,
        act: Act<'_>,
    ) -> Result<Option<VersionId>, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, QUEUE, agent.get()).await?;
            accounts::passed(&mut tx, agent).await?;
            if kept_by_hand(&mut tx, agent).await? >= u64::from(most) {
                return Ok(None);
            }
            let id = next(&mut tx, agent, act.at).await?;
            insert(&mut tx, (agent, id), (title, snapshot), false, act.at).await?;
            let changes = [Change::made("title", title)];
            self.note_version(&mut tx, (agent, id), (Deed::VersionCreated, &changes), act).await?;
            tx.commit().await?;
            Ok(Some(id))
        })
    }

    /// Replaces the snapshot of a version.
    pub async fn replace_agent_version(
        &self,
        agent: AccountId,
        id: VersionId,
        snapshot: &Config,
        act: Act<'_>,
    ) -> Result<Versioned, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, QUEUE, agent.get()).await?;
            accounts::passed(&mut tx, agent).await?;
            let kept = text(snapshot);
            let changed = sql("UPDATE agent_versions SET snapshot = $3
             WHERE agent_id = $1 AND version_id = $2 AND snapshot <> $3")
            .bind(agent)
            .bind(id.get())
            .bind(kept)
            .execute(tx.on())
            .await?;
            if changed == 0 {
                let there = title_of(&mut tx, agent, id).await?.is_some();
                return Ok(if there { Versioned::Done } else { Versioned::Missing });
            }
            self.note_version(&mut tx, (agent, id), (Deed::VersionReplaced, &[]), act).await?;
            tx.commit().await?;
            Ok(Versioned::Done)
        })
    }

    /// Renames a version. An automatic version then counts as made by hand.
    pub async fn rename_agent_version(
        &self,
        agent: AccountId,
        (id, title): (VersionId, &str),
        most: u32,
        act: Act<'_>,
    ) -> Result<Versioned, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, QUEUE, agent.get()).await?;
            accounts::passed(&mut tx, agent).await?;
            let Some((before, automatic)) = title_of(&mut tx, agent, id).await? else {
                return Ok(Versioned::Missing);
            };
            if before == title {
                return Ok(Versioned::Done);
            }
            if automatic && kept_by_hand(&mut tx, agent).await? >= u64::from(most) {
                return Ok(Versioned::Full);
            }
            sql("UPDATE agent_versions SET title = $3, automatic = 0
             WHERE agent_id = $1 AND version_id = $2")
            .bind(agent)
            .bind(id.get())
            .bind(title)
            .execute(tx.on())
            .await?;
            let changes = [Change::new("title", Some(before), Some(title))];
            self.note_version(&mut tx, (agent, id), (Deed::VersionRenamed, &changes), act).await?;
            tx.commit().await?;
            Ok(Versioned::Done)
        })
    }

    /// Deletes a version. Returns whether it existed.
    pub async fn delete_agent_version(
        &self,
        agent: AccountId,
        id: VersionId,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, QUEUE, agent.get()).await?;
            accounts::passed(&mut tx, agent).await?;
            let Some((title, _)) = title_of(&mut tx, agent, id).await? else { return Ok(false) };
            sql("DELETE FROM agent_versions WHERE agent_id = $1 AND version_id = $2")
                .bind(agent)
                .bind(id.get())
                .execute(tx.on())
                .await?;
            let changes = [Change::gone("title", title)];
            self.note_version(&mut tx, (agent, id), (Deed::VersionDeleted, &changes), act).await?;
            tx.commit().await?;
            Ok(true)
        })
    }

    async fn note_version(
        &self,
        tx: &mut Transaction,
        (account, id): (AccountId, VersionId),
        (deed, changes): (Deed, &[Change]),
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let note = Note { account, deed, object: id.to_string(), changes };
        audit::note(tx, self.mint(), act, note).await
    }
}

/// Keeps a configuration that is about to be replaced. Deletes the oldest ones beyond `most`.
pub async fn keep_automatic(
    tx: &mut Transaction,
    agent: AccountId,
    snapshot: &Config,
    most: u32,
    now: Timestamp,
) -> Result<VersionId, StoreError> {
    let id = next(tx, agent, now).await?;
    insert(tx, (agent, id), (&id.automatic_title(), snapshot), true, now).await?;
    sql("DELETE FROM agent_versions WHERE agent_id = $1 AND version_id IN (
             SELECT version_id FROM agent_versions WHERE agent_id = $1 AND automatic = 1
             ORDER BY version_id DESC LIMIT 1000 OFFSET $2)")
    .bind(agent)
    .bind(i64::from(most))
    .execute(tx.on())
    .await?;
    Ok(id)
}

/// Returns the id for a new version: the present millisecond, or one more than the newest id.
async fn next(
    tx: &mut Transaction,
    agent: AccountId,
    now: Timestamp,
) -> Result<VersionId, StoreError> {
    let row = sql("SELECT version_id FROM agent_versions WHERE agent_id = $1
         ORDER BY version_id DESC LIMIT 1")
    .bind(agent)
    .fetch_optional(tx.on())
    .await?;
    let newest =
        row.map(|row| Columns { table: "agent_versions", row: &row }.integer("version_id"));
    let millis = newest.transpose()?.map_or(1, |newest| newest.saturating_add(1)).max(now.millis());
    VersionId::new(millis).ok_or_else(|| StoreError::Corrupt {
        table: "agent_versions",
        detail: format!("no version is called {millis}"),
    })
}

async fn insert(
    tx: &mut Transaction,
    (agent, id): (AccountId, VersionId),
    (title, snapshot): (&str, &Config),
    automatic: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    sql("INSERT INTO agent_versions (agent_id, version_id, title, snapshot, automatic, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)")
    .bind(agent)
    .bind(id.get())
    .bind(title)
    .bind(text(snapshot))
    .bind(i64::from(automatic))
    .bind(now)
    .execute(tx.on())
    .await?;
    Ok(())
}

async fn kept_by_hand(tx: &mut Transaction, agent: AccountId) -> Result<u64, StoreError> {
    let row = sql("SELECT COUNT(*) AS kept FROM agent_versions
         WHERE agent_id = $1 AND automatic = 0")
    .bind(agent)
    .fetch_one(tx.on())
    .await?;
    Columns { table: "agent_versions", row: &row }.count("kept")
}

/// Returns the title of a version, and whether it is automatic.
async fn title_of(
    tx: &mut Transaction,
    agent: AccountId,
    id: VersionId,
) -> Result<Option<(String, bool)>, StoreError> {
    let row = sql("SELECT title, automatic FROM agent_versions
         WHERE agent_id = $1 AND version_id = $2")
    .bind(agent)
    .bind(id.get())
    .fetch_optional(tx.on())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let columns = Columns { table: "agent_versions", row: &row };
    Ok(Some((columns.text("title")?, columns.flag("automatic")?)))
}

fn version(row: &Row) -> Result<AgentVersion, StoreError> {
    let columns = Columns { table: "agent_versions", row };
    let id = columns.integer("version_id")?;
    Ok(AgentVersion {
        id: VersionId::new(id).ok_or_else(|| columns.corrupt(format!("version_id is {id}")))?,
        title: columns.text("title")?,
        automatic: columns.flag("automatic")?,
        created_at: columns.time("created_at")?,
        snapshot: columns.optional_json("snapshot")?,
    })
}
