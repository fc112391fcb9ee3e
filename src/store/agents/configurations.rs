//! Configurations of Agents. A change names the revisions from which it was decided. If one of them
//! has changed, nothing is written, and the caller decides again. The changes of one Agent queue,
//! so that no two find the same revisions.

use serde_json::Value;

use super::agent_versions::keep_automatic;
use super::app_records::not_installed;
use super::audited_commit::audit_note;
use super::config_rows::{find_configs, lock_agent, write_config};
use super::template_locks::{LockedFields, locked};
use crate::domain::agent_config::{
    AgentConfig, AgentConfigs, Config, ConfigKind, Revisions, VersionId,
};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::event::EventName;
use crate::domain::id::AccountId;
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::events::announcements::{AccountEvent, announce_account_event};
use crate::store::events::event_data::{ChangedConfig, PublishedData, event_data};
use crate::store::tenancy::audit;
use crate::wire::{CampaignId, Number};

#[derive(Clone, Debug)]
pub struct ConfigChange<'c> {
    /// The configuration to write.
    pub kind: ConfigKind,
    pub config: &'c Config,
    /// The revisions from which it was decided.
    pub decided_by: Revisions,
    pub deed: Deed,
    /// For the audit log: names of fields, never their values.
    pub changes: &'c [Change],
    pub event: Option<ConfigEvent<'c>>,
    /// Keeps at most this many replaced configurations, if they were set, as automatic versions.
    pub keep_automatic: Option<u32>,
}

/// The data of an event that the store does not know.
#[derive(Clone, Copy, Debug)]
pub struct ConfigEvent<'c> {
    /// `agent.published`, or `agent.reverted`.
    pub name: EventName,
    pub changed: &'c [String],
    pub version: Option<VersionId>,
}

impl ConfigEvent<'_> {
    /// Returns `data` of the event; `replaced` is the version with the replaced configuration.
    fn data(self, changed: ChangedConfig, replaced: Option<VersionId>) -> Value {
        if self.name != EventName::AgentPublished {
            return event_data(&changed);
        }
        event_data(&PublishedData {
            changed,
            version_id: self.version.map(Number::from),
            previous_version_id: replaced.map(Number::from),
        })
    }
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigOutcome {
    /// Written; the replaced configuration is this version, if it was kept.
    Done(Box<AgentConfigs>, Option<VersionId>),
    /// A revision has changed; nothing was written.
    Moved,
    /// The Agent was deleted.
    Missing,
    /// The Agent's template locks these fields; nothing was written.
    Locked(LockedFields),
    /// It assigns these apps, which the Agent has not installed; nothing was written.
    NotInstalled(Vec<String>),
}

impl Base {
    /// Returns both configurations of an Agent; None before the first change.
    pub async fn agent_configs(
        &self,
        agent: AccountId,
    ) -> Result<Option<AgentConfigs>, StoreError> {
        find_configs(self.reader(), agent).await
    }

    /// Writes a configuration with its event and its audit entry. Locks the Agent's queue, then
    /// passes the gates of the account and those above it.
    pub async fn configure_agent(
        &self,
        agent: AccountId,
        change: &ConfigChange<'_>,
        act: Act<'_>,
    ) -> Result<ConfigOutcome, StoreError> {
        transact!(self, async |tx| {
            let Some(account) = lock_agent(&mut tx, agent).await? else {
                return Ok(ConfigOutcome::Missing);
            };
            let before = find_configs(tx.on(), agent).await?;
            if before.as_ref().map_or_else(Revisions::default, AgentConfigs::revisions)
                != change.decided_by
            {
                return Ok(ConfigOutcome::Moved);
            }
            if let Some(locked) =
                locked(&mut tx, agent, before.as_ref(), change.kind, change.config).await?
            {
                return Ok(ConfigOutcome::Locked(locked));
            }
            let old = before.as_ref().map(|configs| &configs.of(change.kind).config);
            if old.and_then(|old| old.get("apps")) != change.config.get("apps") {
                let missing = not_installed(&mut tx, agent, change.config).await?;
                if !missing.is_empty() {
                    return Ok(ConfigOutcome::NotInstalled(missing));
                }
            }
            let mut configs = self.ensure_configs(&mut tx, agent, before, act.at).await?;
            let replaced = configs.of(change.kind).clone();
            let replaced_version = match change.keep_automatic.filter(|_| replaced.is_set()) {
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
            write_config(&mut tx, agent, &written).await?;
            let note = audit_note(agent, change.deed, &written.id, change.changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            if let Some(event) = change.event {
                let changed = ChangedConfig {
                    account_id: agent.into(),
                    campaign_id: CampaignId(configs.live.id),
                    revision: written.revision,
                    changed: event.changed.to_vec(),
                };
                let data = event.data(changed, replaced_version);
                let (at, lineage) = (act.at, account.lineage);
                let event = AccountEvent { name: event.name, at, lineage, data };
                announce_account_event(&mut tx, self.mint(), event).await?;
            }
            match change.kind {
                ConfigKind::Staging => configs.staging = written,
                ConfigKind::Default => configs.live = written,
            }
            tx.commit().await?;
            Ok(ConfigOutcome::Done(Box::new(configs), replaced_version))
        })
    }
}
