//! Versions: configurations kept to come back to.

use super::staging::Decision;
use super::{AgentError, Agents, Changed, schema};
use crate::domain::agent_config::{
    AgentConfigs, AgentVersion, Config, ConfigId, ConfigKind, VersionId, merged,
};
use crate::domain::audit::{Change, Deed};
use crate::domain::event::EventName;
use crate::domain::id::AccountId;
use crate::store::{NewVersion, VersionOutcome, VersionTitle};

/// A page of an Agent's versions, newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionPage {
    pub versions: Vec<AgentVersion>,
    /// The last version of this page, if older ones follow.
    pub next: Option<VersionId>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    pub version: VersionId,
    pub title: String,
    pub changed: Changed,
}

impl Agents {
    /// Returns both configurations if `id` is the live one's: versions are named by the live
    /// configuration.
    pub async fn live(&self, agent: AccountId, id: ConfigId) -> Result<AgentConfigs, AgentError> {
        let configs = self.store.agent_configs(agent).await?.ok_or(AgentError::NoConfig)?;
        if configs.live.id == id {
            return Ok(configs);
        }
        Err(match configs.staging.id == id {
            true => AgentError::StagedId { live: configs.live.id },
            false => AgentError::NoConfig,
        })
    }

    /// Returns up to `limit` versions older than `before`. With their data, as many as fit into a
    /// response, at least one.
    pub async fn versions(
        &self,
        agent: AccountId,
        before: Option<VersionId>,
        limit: u32,
        with_data: bool,
    ) -> Result<VersionPage, AgentError> {
        let limits = &self.rules.limits;
        let step = if with_data { limits.page_step } else { limit.saturating_add(1) };
        let (mut versions, mut octets, mut from) = (Vec::<AgentVersion>::new(), 0_usize, before);
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        loop {
            let found = self.store.agent_versions(agent, from, step, with_data).await?;
            let ended = found.len() < usize::try_from(step).unwrap_or(usize::MAX);
            from = found.last().map(|last| last.id);
            for one in found {
                let length = one.snapshot.as_ref().map_or(0, length);
                octets = octets.saturating_add(length);
                let full = versions.len() >= wanted || octets > limits.max_page_bytes;
                if full && !versions.is_empty() {
                    let next = versions.last().map(|last| last.id);
                    return Ok(VersionPage { versions, next });
                }
                versions.push(one);
            }
            if ended {
                return Ok(VersionPage { versions, next: None });
            }
        }
    }

    /// Keeps one of an Agent's configurations as a version with this title.
    pub async fn keep_version(
        &self,
        agent: AccountId,
        title: &str,
        source: ConfigKind,
    ) -> Result<VersionId, AgentError> {
        let configs = self.store.agent_configs(agent).await?;
        let kept = configs.as_ref().map(|configs| configs.of(source)).filter(|one| one.is_set());
        let kept = kept.ok_or(AgentError::NothingToKeep(source))?;
        let most = self.rules().max_versions;
        let new = NewVersion { title, snapshot: &kept.config };
        let made = self.store.insert_agent_version(agent, new, most, self.act()).await?;
        made.ok_or_else(|| self.full())
    }

    /// Replaces the data of a version with `snapshot`. `at` is its JSON Pointer in the request.
    pub async fn replace_version(
        &self,
        agent: AccountId,
        id: VersionId,
        snapshot: &Config,
        at: &str,
    ) -> Result<(), AgentError> {
        self.check(snapshot, at)?;
        // Null means no value, as in a change.
        let snapshot = merged(&Config::new(), snapshot);
        self.check_size(&snapshot, at)?;
        let done = self.store.replace_agent_version(agent, id, &snapshot, self.act()).await?;
        self.versioned(done)
    }

    pub async fn rename_version(
        &self,
        agent: AccountId,
        id: VersionId,
        title: &str,
    ) -> Result<(), AgentError> {
        let most = self.rules().max_versions;
        let new = VersionTitle { id, title };
        let done = self.store.rename_agent_version(agent, new, most, self.act()).await?;
        self.versioned(done)
    }

    /// Deletes a version. Its data is lost unless it is staged or live as well.
    pub async fn delete_version(&self, agent: AccountId, id: VersionId) -> Result<(), AgentError> {
        let is_deleted = self.store.delete_agent_version(agent, id, self.act()).await?;
        is_deleted.then_some(()).ok_or(AgentError::NoConfig)
    }

    /// Restores a version to staging or live. Restoring to live publishes: the event is sent, and
    /// the replaced configuration is kept.
    pub async fn restore_version(
        &self,
        agent: AccountId,
        id: VersionId,
        target: ConfigKind,
    ) -> Result<Restored, AgentError> {
        let found = self.store.agent_version(agent, id).await?.ok_or(AgentError::NoConfig)?;
        let snapshot = found.snapshot.unwrap_or_default();
        // A version with faults is not restored to staging either.
        let faults = schema::faults(&snapshot, "", self.rules());
        if !faults.is_empty() {
            return Err(AgentError::Incomplete(faults));
        }
        let live = target == ConfigKind::Default;
        if live {
            self.publishable(&snapshot)?;
        }
        let decide = |_: Option<&AgentConfigs>| {
            Ok(Decision {
                kind: target,
                config: snapshot.clone(),
                deed: Deed::VersionRestored,
                notes: vec![Change::made("version", id), Change::made("target", target)],
                event: live.then_some(EventName::AgentPublished),
                version: Some(id),
            })
        };
        let changed = self.change(agent, decide).await?;
        Ok(Restored { version: id, title: found.title, changed })
    }

    fn versioned(&self, done: VersionOutcome) -> Result<(), AgentError> {
        match done {
            VersionOutcome::Done => Ok(()),
            VersionOutcome::Missing => Err(AgentError::NoConfig),
            VersionOutcome::Full => Err(self.full()),
        }
    }

    fn full(&self) -> AgentError {
        AgentError::TooManyVersions { most: self.rules().max_versions }
    }
}

pub(super) fn length(config: &Config) -> usize {
    serde_json::to_string(config).map_or(usize::MAX, |text| text.len())
}
