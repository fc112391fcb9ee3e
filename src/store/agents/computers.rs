//! The computers of Agents.

use serde_json::{Map, Value as Json};
use uuid::Uuid;

use crate::domain::account::Account;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::computer::{Computer, ComputerState, Configuration, Job};
use crate::domain::id::AccountId;
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::within;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, Statement, sql};
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit::{self, Note};

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
pub enum ChangedComputer {
    Done(Box<Computer>),
    /// The configuration has another revision: this one.
    Stale(i64),
    /// The Agent has no record.
    Missing,
}

impl Base {
    pub async fn computer(&self, agent: AccountId) -> Result<Option<Computer>, StoreError> {
        find(self.reader(), agent).await
    }

    /// Returns up to `limit` computers in `scope` behind this Agent, in the order of Agent ids.
    pub async fn list_computers(
        &self,
        scope: &Scope,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<Vec<Computer>, StoreError> {
        let mut query = select("");
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
            if !insert(&mut tx, agent, (ComputerState::Created, None), change, act).await? {
                return Ok(false);
            }
            let changes: Vec<Change> =
                change.changed.iter().map(|field| Change::made("config", field)).collect();
            self.note_computer(&mut tx, agent.id, (Deed::ComputerCreated, &changes), act).await?;
            tx.commit().await?;
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
    ) -> Result<ChangedComputer, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, agent).await?;
            let Some(known) = lock(&mut tx, agent).await? else {
                return Ok(ChangedComputer::Missing);
            };
            if known.revision != revision {
                return Ok(ChangedComputer::Stale(known.revision));
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
                return Ok(ChangedComputer::Done(Box::new(known)));
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
            self.note_computer(&mut tx, agent, (Deed::ComputerUpdated, &changes), act).await?;
            tx.commit().await?;
            Ok(ChangedComputer::Done(Box::new(new)))
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
            let (state, nothing) = (ComputerState::Provisioned, ComputerChange::default());
            let made = insert(&mut tx, agent, (state, Some(job)), &nothing, act).await?;
            // A removal may have committed after the insertion met the record.
            let Some(mut known) = lock(&mut tx, agent.id).await? else {
                return Err(StoreError::Conflict(None));
            };
            if !made && known.state == state {
                return Ok((known, false));
            }
            let before = (!made).then_some(known.state);
            (known.state, known.job, known.updated_at) = (state, Some(job), act.at);
            update(&mut tx, &known).await?;
            let changes = [Change::new("state", before, Some(state))];
            self.note_computer(&mut tx, agent.id, (Deed::ComputerProvisioned, &changes), act)
                .await?;
            tx.commit().await?;
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
            self.note_computer(&mut tx, agent, (Deed::ComputerDeprovisioned, &changes), act)
                .await?;
            tx.commit().await?;
            Ok(Some((new, true)))
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
            self.note_computer(&mut tx, agent, (Deed::ComputerRemoved, &[]), act).await?;
            tx.commit().await?;
            Ok(true)
        })
    }

    async fn note_computer(
        &self,
        tx: &mut Transaction,
        agent: AccountId,
        (deed, changes): (Deed, &[Change]),
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let note = Note { account: agent, deed, object: agent.to_string(), changes };
        audit::note(tx, self.mint(), act, note).await
    }
}

fn select(condition: &'static str) -> Statement {
    let mut query = sql("SELECT agent_id, name, state, created_at, updated_at, job_id, job_at,
                                config, secrets, revision FROM computers WHERE ");
    query.push(condition);
    query
}

async fn find(on: Connection<'_>, agent: AccountId) -> Result<Option<Computer>, StoreError> {
    let row = select("agent_id = $1").bind(agent).fetch_optional(on).await?;
    row.as_ref().map(computer).transpose()
}

/// Locks the record until the transaction ends.
async fn lock(tx: &mut Transaction, agent: AccountId) -> Result<Option<Computer>, StoreError> {
    let query = select("agent_id = $1").bind(agent).locking("FOR UPDATE");
    query.fetch_optional(tx.on()).await?.as_ref().map(computer).transpose()
}

async fn insert(
    tx: &mut Transaction,
    agent: &Account,
    (state, job): (ComputerState, Option<Job>),
    change: &ComputerChange,
    act: Act<'_>,
) -> Result<bool, StoreError> {
    let config = change.config.clone().unwrap_or_default();
    let made =
        sql("INSERT INTO computers (agent_id, partner_id, reseller_id, organization_id, name,
                        state, created_at, updated_at, job_id, job_at, config, secrets, revision)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, $10, $11, $12)
         ON CONFLICT (agent_id) DO NOTHING")
        .bind(agent.id)
        .bind(agent.lineage.partner)
        .bind(agent.lineage.reseller)
        .bind(agent.lineage.organization)
        .bind(change.name.clone().flatten())
        .bind(state.as_str())
        .bind(act.at)
        .bind(job.map(|job| job.id))
        .bind(job.map(|job| job.at.millis()))
        .bind(Json::Object(config.authored).to_string())
        .bind(config.sealed.as_deref())
        .bind(act.at.millis())
        .execute(tx.on())
        .await?;
    Ok(made > 0)
}

async fn update(tx: &mut Transaction, new: &Computer) -> Result<(), StoreError> {
    sql("UPDATE computers SET name = $2, state = $3, updated_at = $4, job_id = $5, job_at = $6,
             config = $7, secrets = $8, revision = $9
         WHERE agent_id = $1")
    .bind(new.agent)
    .bind(new.name.clone())
    .bind(new.state.as_str())
    .bind(new.updated_at)
    .bind(new.job.map(|job| job.id))
    .bind(new.job.map(|job| job.at.millis()))
    .bind(Json::Object(new.config.authored.clone()).to_string())
    .bind(new.config.sealed.as_deref())
    .bind(new.revision)
    .execute(tx.on())
    .await
    .map(drop)
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
