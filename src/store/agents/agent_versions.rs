//! Versions: earlier configurations of an Agent, kept to restore them. Changes queue with the
//! changes of the Agent's configurations.

use super::audited_commit::audit_note;
use super::config_rows::{config_text, lock_agent};
use crate::domain::agent_config::{AgentVersion, Config, VersionId};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Statement, sql};

/// A version that is made by hand.
#[derive(Clone, Copy, Debug)]
pub struct NewVersion<'v> {
    pub title: &'v str,
    pub snapshot: &'v Config,
}

/// The new title of a version.
#[derive(Clone, Copy, Debug)]
pub struct VersionTitle<'v> {
    pub id: VersionId,
    pub title: &'v str,
}

/// The result of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionOutcome {
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
        let mut query = select(agent, with_data);
        query.push(" AND version_id < ").push_value(before.map_or(i64::MAX, VersionId::get));
        query.push(" ORDER BY version_id DESC LIMIT ").push_value(i64::from(limit));
        query.fetch_all(self.reader()).await?.iter().map(version).collect()
    }

    /// Returns a version with its snapshot.
    pub async fn agent_version(
        &self,
        agent: AccountId,
        id: VersionId,
    ) -> Result<Option<AgentVersion>, StoreError> {
        find(self.reader(), agent, id, true).await
    }

    /// Inserts a version. Returns None if the Agent has `most` versions made or named by hand.
    pub async fn insert_agent_version(
        &self,
        agent: AccountId,
        new: NewVersion<'_>,
        most: u32,
        act: Act<'_>,
    ) -> Result<Option<VersionId>, StoreError> {
        transact!(self, async |tx| {
            lock_agent(&mut tx, agent).await?;
            if count_made_by_hand(&mut tx, agent).await? >= u64::from(most) {
                return Ok(None);
            }
            let id = insert(&mut tx, agent, Some(new.title), new.snapshot, act.at).await?;
            let changes = [Change::made("title", new.title)];
            let note = audit_note(agent, Deed::VersionCreated, &id, &changes);
            self.commit_audited(tx, act, note).await?;
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
    ) -> Result<VersionOutcome, StoreError> {
        transact!(self, async |tx| {
            lock_agent(&mut tx, agent).await?;
            let changed = sql("UPDATE agent_versions SET snapshot = $3
             WHERE agent_id = $1 AND version_id = $2 AND snapshot <> $3")
            .bind(agent)
            .bind(id.get())
            .bind(config_text(snapshot))
            .execute(tx.on())
            .await?;
            if changed == 0 {
                let exists = find(tx.on(), agent, id, false).await?.is_some();
                return Ok(if exists { VersionOutcome::Done } else { VersionOutcome::Missing });
            }
            self.commit_audited(tx, act, audit_note(agent, Deed::VersionReplaced, &id, &[]))
                .await?;
            Ok(VersionOutcome::Done)
        })
    }

    /// Renames a version. An automatic version then counts as made by hand.
    pub async fn rename_agent_version(
        &self,
        agent: AccountId,
        VersionTitle { id, title }: VersionTitle<'_>,
        most: u32,
        act: Act<'_>,
    ) -> Result<VersionOutcome, StoreError> {
        transact!(self, async |tx| {
            lock_agent(&mut tx, agent).await?;
            let Some(before) = find(tx.on(), agent, id, false).await? else {
                return Ok(VersionOutcome::Missing);
            };
            if before.title == title {
                return Ok(VersionOutcome::Done);
            }
            if before.automatic && count_made_by_hand(&mut tx, agent).await? >= u64::from(most) {
                return Ok(VersionOutcome::Full);
            }
            sql("UPDATE agent_versions SET title = $3, automatic = 0
             WHERE agent_id = $1 AND version_id = $2")
            .bind(agent)
            .bind(id.get())
            .bind(title)
            .execute(tx.on())
            .await?;
            let changes = [Change::new("title", Some(before.title), Some(title))];
            let note = audit_note(agent, Deed::VersionRenamed, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(VersionOutcome::Done)
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
            lock_agent(&mut tx, agent).await?;
            let Some(found) = find(tx.on(), agent, id, false).await? else { return Ok(false) };
            sql("DELETE FROM agent_versions WHERE agent_id = $1 AND version_id = $2")
                .bind(agent)
                .bind(id.get())
                .execute(tx.on())
                .await?;
            let changes = [Change::gone("title", found.title)];
            let note = audit_note(agent, Deed::VersionDeleted, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(true)
        })
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
    let id = insert(tx, agent, None, snapshot, now).await?;
    sql("DELETE FROM agent_versions WHERE agent_id = $1 AND version_id IN (
             SELECT version_id FROM agent_versions WHERE agent_id = $1 AND automatic = 1
             ORDER BY version_id DESC LIMIT 1000 OFFSET $2)")
    .bind(agent)
    .bind(i64::from(most))
    .execute(tx.on())
    .await?;
    Ok(id)
}

/// Inserts a version, an automatic one if it has no title. Returns its id: the present millisecond,
/// or one more than the newest id if that is greater.
async fn insert(
    tx: &mut Transaction,
    agent: AccountId,
    title: Option<&str>,
    snapshot: &Config,
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
    let id = VersionId::new(millis).ok_or_else(|| StoreError::Corrupt {
        table: "agent_versions",
        detail: format!("no version is called {millis}"),
    })?;
    sql("INSERT INTO agent_versions (agent_id, version_id, title, snapshot, automatic, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)")
    .bind(agent)
    .bind(id.get())
    .bind(title.map_or_else(|| id.automatic_title(), ToOwned::to_owned))
    .bind(config_text(snapshot))
    .bind(i64::from(title.is_none()))
    .bind(now)
    .execute(tx.on())
    .await?;
    Ok(id)
}

async fn count_made_by_hand(tx: &mut Transaction, agent: AccountId) -> Result<u64, StoreError> {
    let row = sql("SELECT COUNT(*) AS versions FROM agent_versions
         WHERE agent_id = $1 AND automatic = 0")
    .bind(agent)
    .fetch_one(tx.on())
    .await?;
    Columns { table: "agent_versions", row: &row }.count("versions")
}

/// Selects the versions of an Agent, with their snapshots only if `with_data`.
fn select(agent: AccountId, with_data: bool) -> Statement {
    let mut query = sql("SELECT version_id, title, automatic, created_at, ");
    query.push(if with_data { "snapshot" } else { "NULL AS snapshot" });
    query.push(" FROM agent_versions WHERE agent_id = ").push_value(agent);
    query
}

async fn find(
    on: Connection<'_>,
    agent: AccountId,
    id: VersionId,
    with_data: bool,
) -> Result<Option<AgentVersion>, StoreError> {
    let mut query = select(agent, with_data);
    query.push(" AND version_id = ").push_value(id.get());
    query.fetch_optional(on).await?.as_ref().map(version).transpose()
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
