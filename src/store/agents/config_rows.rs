//! Rows of Agents' configurations, and the lock for changes of an Agent.

use crate::domain::account::Account;
use crate::domain::agent_config::{AgentConfig, AgentConfigs, Config, ConfigId, ConfigKind};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, sql};
use crate::store::tenancy::accounts;

/// Takes the queue for configurations, versions, template link and removals of apps of one Agent,
/// then passes the gates of its accounts. Returns the Agent; None if it was deleted.
pub async fn lock_agent(
    tx: &mut Transaction,
    agent: AccountId,
) -> Result<Option<Account>, StoreError> {
    gates::take_turn(tx, "agent configurations", agent.get()).await?;
    accounts::passed(tx, agent).await
}

impl Base {
    /// Returns the configurations found; without any, inserts both rows without content, so that
    /// their ids never change once returned.
    pub(in crate::store) async fn ensure_configs(
        &self,
        tx: &mut Transaction,
        agent: AccountId,
        found: Option<AgentConfigs>,
        now: Timestamp,
    ) -> Result<AgentConfigs, StoreError> {
        if let Some(configs) = found {
            return Ok(configs);
        }
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

/// Writes a configuration into its row, which `ensure_configs` has made.
pub async fn write_config(
    tx: &mut Transaction,
    agent: AccountId,
    written: &AgentConfig,
) -> Result<(), StoreError> {
    sql("UPDATE agent_configs SET config = $3, revision = $4, updated_at = $5
         WHERE agent_id = $1 AND kind = $2")
    .bind(agent)
    .bind(written.kind.as_str())
    .bind(config_text(&written.config))
    .bind(written.revision)
    .bind(written.updated_at)
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Returns a configuration as the database stores it.
pub fn config_text(config: &Config) -> String {
    serde_json::to_string(config).unwrap_or_default()
}

/// Returns both configurations; None without rows. Fails with `Corrupt` if there is only one.
pub async fn find_configs(
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
