//! What Agents are configured to be. Whoever changes a configuration says which revisions it looked
//! at when it decided what to write: where one of them has moved, nothing is written, and it decides
//! again. The changes of one Agent queue, so that no two find the same revisions.

use serde_json::{Value, json};

use super::agent_versions::keep_automatic;
use super::app_records::not_installed;
use super::template_links::{Locked, locked};
use crate::domain::agent_config::{
    AgentConfig, AgentConfigs, Config, ConfigId, ConfigKind, Revisions, VersionId,
};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::event::EventName;
use crate::domain::id::AccountId;
use crate::store::db::{Store, Transaction, settled};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, sql};
use crate::store::events::announcements::announce_told;
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit::{self, Note};

/// What queues: configurations and versions of one Agent.
pub const QUEUE: &str = "agent configurations";

/// A change of one of an Agent's configurations.
#[derive(Clone, Debug)]
pub struct ConfigChange<'c> {
    /// The one that is written.
    pub kind: ConfigKind,
    pub config: &'c Config,
    /// What it was decided by.
    pub decided_by: Revisions,
    pub deed: Deed,
    /// For the audit log: names of fields, never their values.
    pub changes: &'c [Change],
    /// The event that tells of it, if one does, with its `data`; whoever writes adds the `revision`
    /// and, where something is to be kept, the `previousVersionId`.
    pub says: Option<(EventName, Config)>,
    /// Keeps what is replaced as an automatic version, if it was ever set, and so many of these.
    pub keep: Option<u32>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum Configured {
    /// Written; what was there before is this version, if it was kept.
    Done(Box<AgentConfigs>, Option<VersionId>),
    /// A revision is another one by now: nothing was written.
    Moved,
    /// There is no such account any more.
    Missing,
    /// A template that was applied to the Agent locks these fields: nothing was written.
    Locked(Locked),
    /// It assigns these apps, which the Agent has not installed: nothing was written.
    NotInstalled(Vec<String>),
}

impl Store {
    /// Both configurations of an Agent; `None` before the first change.
    pub async fn agent_configs(
        &self,
        agent: AccountId,
    ) -> Result<Option<AgentConfigs>, StoreError> {
        configs(self.reader(), agent).await
    }

    /// Writes one of an Agent's configurations, its event and its entry in the audit log.
    pub async fn configure_agent(
        &self,
        agent: AccountId,
        change: &ConfigChange<'_>,
        act: Act<'_>,
    ) -> Result<Configured, StoreError> {
        settled!(self.try_configure(agent, change, act))
    }

    async fn try_configure(
        &self,
        agent: AccountId,
        change: &ConfigChange<'_>,
        act: Act<'_>,
    ) -> Result<Configured, StoreError> {
        let mut tx = self.begin().await?;
        gates::queue(&mut tx, QUEUE, agent.get()).await?;
        let Some(account) = accounts::passed(&mut tx, agent).await? else {
            return Ok(Configured::Missing);
        };
        let before = configs(tx.on(), agent).await?;
        if before.as_ref().map_or_else(Revisions::default, AgentConfigs::revisions)
            != change.decided_by
        {
            return Ok(Configured::Moved);
        }
        if let Some(locked) = locked(&mut tx, agent, before.as_ref(), change).await? {
            return Ok(Configured::Locked(locked));
        }
        let old = before.as_ref().map(|configs| &configs.of(change.kind).config);
        if old.and_then(|old| old.get("apps")) != change.config.get("apps") {
            let missing = not_installed(&mut tx, agent, change.config).await?;
            if !missing.is_empty() {
                return Ok(Configured::NotInstalled(missing));
            }
        }
        let mut configs = match before {
            Some(configs) => configs,
            None => self.begin_configs(&mut tx, agent, act.at).await?,
        };
        let replaced = configs.of(change.kind).clone();
        let kept = match change.keep.filter(|_| replaced.is_set()) {
            Some(most) => {
                Some(keep_automatic(&mut tx, agent, &replaced.config, most, act.at).await?)
            }
            None => None,
        };
        let written = AgentConfig {
            config: change.config.clone(),
            revision: replaced.revision.saturating_add(1),
            updated_at: act.at,
            ..replaced
        };
        write(&mut tx, agent, &written).await?;
        let object = written.id.to_string();
        let note = Note { account: agent, deed: change.deed, object, changes: change.changes };
        audit::note(&mut tx, self.mint(), act, note).await?;
        if let Some((name, told)) = &change.says {
            let mut told = told.clone();
            told.insert("revision".to_owned(), written.revision.into());
            if change.keep.is_some() {
                told.insert("previousVersionId".to_owned(), json!(kept.map(VersionId::get)));
            }
            let (at, told) = ((act.at, account.lineage), Value::Object(told));
            announce_told(&mut tx, self.mint(), *name, at, told).await?;
        }
        match change.kind {
            ConfigKind::Staging => configs.staging = written,
            ConfigKind::Default => configs.live = written,
        }
        tx.commit().await?;
        Ok(Configured::Done(Box::new(configs), kept))
    }

    /// Makes both rows, of which nothing is set: an id that is answered once stays the same.
    pub(in crate::store) async fn begin_configs(
        &self,
        tx: &mut Transaction,
        agent: AccountId,
        now: Timestamp,
    ) -> Result<AgentConfigs, StoreError> {
        let make = |kind| AgentConfig {
            id: ConfigId(self.mint().uuid()),
            kind,
            config: Config::new(),
            revision: 0,
            updated_at: now,
        };
        let configs =
            AgentConfigs { staging: make(ConfigKind::Staging), live: make(ConfigKind::Default) };
        for one in [&configs.staging, &configs.live] {
            sql("INSERT INTO agent_configs (id, agent_id, kind, config, revision, updated_at)
                 VALUES ($1, $2, $3, '{}', 0, $4)")
            .bind(one.id.0)
            .bind(agent)
            .bind(one.kind.as_str())
            .bind(now)
            .execute(tx.on())
            .await?;
        }
        Ok(configs)
    }
}

pub async fn write(
    tx: &mut Transaction,
    agent: AccountId,
    written: &AgentConfig,
) -> Result<(), StoreError> {
    sql("UPDATE agent_configs SET config = $3, revision = $4, updated_at = $5
         WHERE agent_id = $1 AND kind = $2")
    .bind(agent)
    .bind(written.kind.as_str())
    .bind(text(&written.config))
    .bind(written.revision)
    .bind(written.updated_at)
    .execute(tx.on())
    .await?;
    Ok(())
}

/// A configuration as it is kept.
pub fn text(config: &Config) -> String {
    serde_json::to_string(config).unwrap_or_default()
}

pub async fn configs(
    on: Connection<'_>,
    agent: AccountId,
) -> Result<Option<AgentConfigs>, StoreError> {
    let rows = sql("SELECT id, kind, config, revision, updated_at FROM agent_configs
         WHERE agent_id = $1")
    .bind(agent)
    .fetch_all(on)
    .await?;
    let (mut staging, mut live) = (None, None);
    for one in rows.iter().map(config) {
        let one = one?;
        match one.kind {
            ConfigKind::Staging => staging = Some(one),
            ConfigKind::Default => live = Some(one),
        }
    }
    match (staging, live) {
        (Some(staging), Some(live)) => Ok(Some(AgentConfigs { staging, live })),
        (None, None) => Ok(None),
        _ => Err(StoreError::Corrupt {
            table: "agent_configs",
            detail: format!("Agent {agent} has one configuration, not both"),
        }),
    }
}

fn config(row: &Row) -> Result<AgentConfig, StoreError> {
    let columns = Columns { table: "agent_configs", row };
    Ok(AgentConfig {
        id: ConfigId(columns.uuid("id")?),
        kind: columns.word("kind")?,
        config: columns.json("config")?,
        revision: columns.integer("revision")?,
        updated_at: columns.time("updated_at")?,
    })
}
