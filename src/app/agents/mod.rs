//! Configurations of Agents: staging (drafts), live (in force), and kept versions.
//!
//! `http` calls this room. `schema.rs` alone defines the fields. A change is decided from the
//! configurations read before, and written only if their revisions are unchanged
//! (`store/agents/configurations.rs`); otherwise it is decided again, a few times, and then fails
//! with `Busy`. Nothing is kept in memory. Nothing here knows what a configuration does: its
//! consumers read the live one.

mod error;
pub mod schema;
mod staging;
mod template_migrations;
mod templates;
mod versions;

use std::sync::Arc;

pub use self::error::AgentError;
pub use self::staging::Changed;
pub use self::template_migrations::{AgentPage, Forecast, MigrationTargets};
pub use self::templates::{AppliedTemplate, TemplateUpdate};
pub use self::versions::{Restored, VersionPage};
use crate::domain::agent_config::{AgentConfig, AgentConfigs, Config, ConfigId};
use crate::domain::audit::Actor;
use crate::domain::fault::Fault;
use crate::domain::id::{AccountId, Mint};
use crate::rules::{AccessRules, AgentRules};
use crate::store::Store;

#[derive(Clone, Debug)]
pub struct Agents {
    store: Store,
    mint: Mint,
    rules: Arc<AccessRules>,
    actor: Actor,
}

done_by!(Agents, mint.clock());

impl Agents {
    pub const fn new(store: Store, mint: Mint, rules: Arc<AccessRules>) -> Self {
        Self { store, mint, rules, actor: Actor::OPERATOR }
    }

    fn rules(&self) -> &AgentRules {
        &self.rules.agents
    }

    /// Both configurations of an Agent; `None` before the first change.
    pub async fn configs(&self, agent: AccountId) -> Result<Option<AgentConfigs>, AgentError> {
        Ok(self.store.agent_configs(agent).await?)
    }

    /// Returns the configuration with this id. Fails with `NothingPublished` if it was never set,
    /// and with `NoConfig` if the Agent has none with this id.
    pub async fn config(&self, agent: AccountId, id: ConfigId) -> Result<AgentConfig, AgentError> {
        let configs = self.store.agent_configs(agent).await?;
        let both = configs.map(|configs| [configs.staging, configs.live]);
        let found = both.into_iter().flatten().find(|one| one.id == id);
        match found {
            Some(found) if found.is_set() => Ok(found),
            Some(_) => Err(AgentError::NothingPublished),
            None => Err(AgentError::NoConfig),
        }
    }

    /// Fails with the faults of the fields. `at` is their JSON Pointer in the request.
    fn check(&self, fields: &Config, at: &str) -> Result<(), AgentError> {
        let faults = schema::faults(fields, at, self.rules());
        if faults.is_empty() { Ok(()) } else { Err(AgentError::Invalid(faults)) }
    }

    /// Fails if a whole configuration is too long as JSON.
    fn check_size(&self, config: &Config, at: &str) -> Result<(), AgentError> {
        let most = self.rules().max_config_bytes;
        let length = versions::length(config);
        if length <= most {
            return Ok(());
        }
        let detail = AgentError::TooLarge { length, most }.to_string();
        Err(AgentError::Invalid(vec![Fault::new(at, detail)]))
    }
}
