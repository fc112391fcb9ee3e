//! The computers of Agents.

use serde_json::{Map, Value as Json};
use uuid::Uuid;

use super::app_records;
use super::audited_commit::audit_note;
use crate::domain::account::Account;
use crate::domain::app::AppRecord;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::computer::{Computer, ComputerState, Configuration, Job};
use crate::domain::id::{AccountId, KeyId};
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};
use crate::store::tenancy::{accounts, keys};

/// New values for a record, except its state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ComputerChange {
    /// `Some(None)` removes the name.
    pub name: Option<Option<String>>,
    pub config: Option<Configuration>,
    /// Names of changed fields for the audit log; never values.
    pub changed: Vec<String>,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum ComputerOutcome {
    Done(Box<Computer>),
    /// The configuration has another revision: this one.
    Stale(i64),
    /// The Agent has no record.
    Missing,
}

/// Secrets that are released to the worker that `job` provisioned, as they were read.
#[derive(Clone, Copy, Debug)]
pub struct Release<'a> {
    pub agent: AccountId,
    /// The key that asks.
    pub key: KeyId,
    pub job: Uuid,
    /// The revision of the computer's configuration.
    pub revision: i64,
    pub apps: &'a [AppRecord],
}

/// The result of `record_release`; only `Recorded` writes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseNote {
    Recorded,
    /// The computer is not provisioned by this job any more.
    NoWorker,
    /// The key may not have secrets any more.
    NoRight,
    /// The configuration or an app was changed or removed since it was read.
    Changed,
}

impl Base {
    pub async fn computer(&self, agent: AccountId) -> Result<Option<Computer>, StoreError> {
        let row = select_of(agent).fetch_optional(self.reader()).await?;
        row.as_ref().map(computer).transpose()
    }

    /// Returns up to `limit` computers in `scope` behind this Agent, in the order of Agent ids.
    pub async fn list_computers(
        &self,
        scope: &Scope,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<Vec<Computer>, StoreError> {
        let mut query = sql(SELECT);
        within(&mut query, scope);
        query.push(" AND agent_id > ").push_value(after.map_or(0, AccountId::get));
        query.push(" ORDER BY agent_id LIMIT ").push_value(i64::from(limit));
        query.fetch_all(self.reader()).await?.iter().map(computer).collect()
    }

    /// Creates the record of an Agent's computer. Returns false if there is one. Its first revision
    /// is the time in milliseconds, so that it shares no revision with a removed record.
    pub async fn create_computer(
        &self,
        agent: &Account,
        change: &ComputerChange,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent.id).await?;
            let new = Computer {
                name: change.name.clone().flatten(),
                config: change.config.clone().unwrap_or_default(),
                ..new_computer(agent.id, ComputerState::Created, act.at)
            };
            if !insert(&mut tx, agent, &new).await? {
                return Ok(false);
            }
            let changes: Vec<Change> =
                change.changed.iter().map(|field| Change::made("config", field)).collect();
            let note = audit_note(agent.id, Deed::ComputerCreated, &agent.id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(true)
        })
    }

    /// Changes the given fields of a record if its configuration has this revision. A new
    /// configuration raises the revision.
    pub async fn change_computer(
        &self,
        agent: AccountId,
        revision: i64,
        change: &ComputerChange,
        act: Act<'_>,
    ) -> Result<ComputerOutcome, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent).await?;
            let Some(known) = lock(&mut tx, agent).await? else {
                return Ok(ComputerOutcome::Missing);
            };
            if known.revision != revision {
                return Ok(ComputerOutcome::Stale(known.revision));
            }
            let mut new = known.clone();
            if let Some(name) = &change.name {
                new.name.clone_from(name);
            }
            if let Some(config) = &change.config
                && !change.changed.is_empty()
            {
                new.config = config.clone();
                new.revision = known.revision.saturating_add(1);
            }
            if new == known {
                return Ok(ComputerOutcome::Done(Box::new(known)));
            }
            new.updated_at = act.at;
            update(&mut tx, &new).await?;
            let mut changes: Vec<Change> = Vec::new();
            if new.name != known.name {
                changes.push(Change::new("name", known.name.as_ref(), new.name.as_ref()));
            }
            if new.revision != known.revision {
                changes.push(Change::new("revision", Some(known.revision), Some(new.revision)));
                changes.extend(change.changed.iter().map(|field| Change::made("config", field)));
            }
            let note = audit_note(agent, Deed::ComputerUpdated, &agent, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(ComputerOutcome::Done(Box::new(new)))
        })
    }

    /// Provisions an Agent's computer, and creates a missing record. Returns the computer, and
    /// whether anything changed.
    pub async fn provision_computer(
        &self,
        agent: &Account,
        act: Act<'_>,
    ) -> Result<(Computer, bool), StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent.id).await?;
            let job = Job { id: self.mint().uuid(), at: act.at };
            let state = ComputerState::Provisioned;
            let new = Computer { job: Some(job), ..new_computer(agent.id, state, act.at) };
            let inserted = insert(&mut tx, agent, &new).await?;
            // A removal may have committed after the insertion met the record.
            let Some(mut known) = lock(&mut tx, agent.id).await? else {
                return Err(StoreError::Conflict(None));
            };
            if !inserted && known.state == state {
                return Ok((known, false));
            }
            let before = (!inserted).then_some(known.state);
            (known.state, known.job, known.updated_at) = (state, Some(job), act.at);
            update(&mut tx, &known).await?;
            let changes = [Change::new("state", before, Some(state))];
            let note = audit_note(agent.id, Deed::ComputerProvisioned, &agent.id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok((known, true))
        })
    }

    /// Deprovisions an Agent's computer; `wipe` also deletes its configuration. Returns the
    /// computer, if there is one, and whether anything changed.
    pub async fn deprovision_computer(
        &self,
        agent: AccountId,
        wipe: bool,
        act: Act<'_>,
    ) -> Result<Option<(Computer, bool)>, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent).await?;
            let Some(known) = lock(&mut tx, agent).await? else { return Ok(None) };
            let mut new = known.clone();
            let mut changes = Vec::new();
            if known.state != ComputerState::Deprovisioned {
                let job = Job { id: self.mint().uuid(), at: act.at };
                (new.state, new.job) = (ComputerState::Deprovisioned, Some(job));
                changes.push(Change::new("state", Some(known.state), Some(new.state)));
            }
            if wipe && known.config != Configuration::default() {
                new.config = Configuration::default();
                new.revision = known.revision.saturating_add(1);
                changes.push(Change::new("revision", Some(known.revision), Some(new.revision)));
            }
            if changes.is_empty() {
                return Ok(Some((known, false)));
            }
            new.updated_at = act.at;
            update(&mut tx, &new).await?;
            let note = audit_note(agent, Deed::ComputerDeprovisioned, &agent, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(Some((new, true)))
        })
    }

    /// Writes the audit entry of a release, if all that is released is still as it was read. `names`
    /// has the names of the secrets; never values.
    pub async fn record_release(
        &self,
        release: Release<'_>,
        names: &[Change],
        act: Act<'_>,
    ) -> Result<ReleaseNote, StoreError> {
        let agent = release.agent;
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent).await?;
            let known = lock(&mut tx, agent).await?;
            let known = known.filter(|known| known.is_provisioned_by(release.job));
            let Some(known) = known else { return Ok(ReleaseNote::NoWorker) };
            if !keys::may_have_secrets(&mut tx, release.key, act.at, &self.offer).await? {
                return Ok(ReleaseNote::NoRight);
            }
            let mut same = known.revision == release.revision;
            for app in release.apps {
                same = same && app_records::is_current(&mut tx, app).await?;
            }
            if !same {
                return Ok(ReleaseNote::Changed);
            }
            let note = audit_note(agent, Deed::SecretsReleased, &agent, names);
            self.commit_audited(tx, act, note).await?;
            Ok(ReleaseNote::Recorded)
        })
    }

    /// Removes the record of an Agent's computer. Returns whether there was one.
    pub async fn remove_computer(
        &self,
        agent: AccountId,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent).await?;
            let gone = sql("DELETE FROM computers WHERE agent_id = $1").bind(agent);
            if gone.execute(tx.on()).await? == 0 {
                return Ok(false);
            }
            let note = audit_note(agent, Deed::ComputerRemoved, &agent, &[]);
            self.commit_audited(tx, act, note).await?;
            Ok(true)
        })
    }
}

const SELECT: &str = "SELECT agent_id, name, state, created_at, updated_at, job_id, job_at,
                             config, secrets, revision FROM computers WHERE ";

fn select_of(agent: AccountId) -> Statement {
    let mut query = sql(SELECT);
    query.push("agent_id = ").push_value(agent);
    query
}

/// Returns a record without name and configuration, as it begins.
fn new_computer(agent: AccountId, state: ComputerState, at: Timestamp) -> Computer {
    Computer {
        agent,
        name: None,
        state,
        created_at: at,
        updated_at: at,
        job: None,
        config: Configuration::default(),
        revision: at.millis(),
    }
}

/// Locks the record until the transaction ends.
async fn lock(tx: &mut Transaction, agent: AccountId) -> Result<Option<Computer>, StoreError> {
    let row = select_of(agent).locking("FOR UPDATE").fetch_optional(tx.on()).await?;
    row.as_ref().map(computer).transpose()
}

/// Inserts a record; returns false if the Agent has one.
async fn insert(tx: &mut Transaction, agent: &Account, new: &Computer) -> Result<bool, StoreError> {
    let statement = sql("INSERT INTO computers (agent_id, name, state, created_at, updated_at,
             job_id, job_at, config, secrets, revision, partner_id, reseller_id, organization_id)
         VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (agent_id) DO NOTHING");
    let inserted = bind(statement, new)
        .bind(agent.lineage.partner)
        .bind(agent.lineage.reseller)
        .bind(agent.lineage.organization)
        .execute(tx.on())
        .await?;
    Ok(inserted > 0)
}

async fn update(tx: &mut Transaction, new: &Computer) -> Result<(), StoreError> {
    let statement = sql("UPDATE computers SET name = $2, state = $3, updated_at = $4, job_id = $5,
             job_at = $6, config = $7, secrets = $8, revision = $9
         WHERE agent_id = $1");
    bind(statement, new).execute(tx.on()).await.map(drop)
}

/// Binds the columns of a record but the time of its creation.
fn bind(statement: Statement, new: &Computer) -> Statement {
    statement
        .bind(new.agent)
        .bind(new.name.clone())
        .bind(new.state.as_str())
        .bind(new.updated_at)
        .bind(new.job.map(|job| job.id))
        .bind(new.job.map(|job| job.at.millis()))
        .bind(Json::Object(new.config.authored.clone()).to_string())
        .bind(new.config.sealed.as_deref())
        .bind(new.revision)
}

fn computer(row: &Row) -> Result<Computer, StoreError> {
    let columns = Columns { table: "computers", row };
    let job: Option<Uuid> = columns.optional_uuid("job_id")?;
    let done = columns.optional_time("job_at")?;
    Ok(Computer {
        agent: columns.account("agent_id")?,
        name: columns.optional_text("name")?,
        state: columns.word("state")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
        job: job.zip(done).map(|(id, at)| Job { id, at }),
        config: Configuration {
            authored: columns.json::<Map<String, Json>>("config")?,
            sealed: columns.optional_bytes("secrets")?,
        },
        revision: columns.integer("revision")?,
    })
}
