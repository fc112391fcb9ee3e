//! Staging: drafting, publishing, and reverting to the live configuration.

use super::{AgentError, Agents, schema};
use crate::domain::agent_config::{
    AgentConfigs, Config, ConfigKind, Revisions, VersionId, differing, merged,
};
use crate::domain::audit::{Change, Deed};
use crate::domain::event::EventName;
use crate::domain::id::AccountId;
use crate::store::{ConfigChange, ConfigEvent, ConfigOutcome};

/// Attempts at one change before it fails with `Busy`.
const ATTEMPTS: u32 = 5;

#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    pub configs: AgentConfigs,
    /// The fields that differ now; empty if nothing changed.
    pub fields: Vec<String>,
    /// The version that keeps the replaced live configuration, if one was kept.
    pub previous: Option<VersionId>,
}

/// A change to write, decided from the configurations read before.
pub(super) struct Decision {
    pub kind: ConfigKind,
    pub config: Config,
    pub deed: Deed,
    /// Entries for the audit log beside the names of the fields.
    pub notes: Vec<Change>,
    pub event: Option<EventName>,
    /// The version that is restored.
    pub version: Option<VersionId>,
}

impl Decision {
    const fn new(kind: ConfigKind, config: Config, deed: Deed) -> Self {
        Self { kind, config, deed, notes: Vec::new(), event: None, version: None }
    }
}

impl Agents {
    /// Sets these fields of staging; null removes a field, absent fields stay. With a `revision`,
    /// fails with `Stale` unless staging has that revision.
    pub async fn stage(
        &self,
        agent: AccountId,
        fields: &Config,
        revision: Option<i64>,
    ) -> Result<Changed, AgentError> {
        self.check(fields, "")?;
        let decide = |configs: Option<&AgentConfigs>| {
            let staging = configs.map(|configs| &configs.staging);
            is_at(revision, staging.map_or(0, |staging| staging.revision), "staging")?;
            let base = configs.map(AgentConfigs::base);
            let config = merged(base.unwrap_or(&Config::new()), fields);
            self.check_size(&config, "")?;
            Ok(Decision::new(ConfigKind::Staging, config, Deed::AgentStaged))
        };
        self.change(agent, decide).await
    }

    /// Makes the staged configuration live, and keeps the replaced one as a version. With a
    /// `revision`, fails with `Stale` unless staging has that revision.
    pub async fn publish(
        &self,
        agent: AccountId,
        revision: Option<i64>,
    ) -> Result<Changed, AgentError> {
        let decide = |configs: Option<&AgentConfigs>| {
            let staging =
                configs.map(|configs| &configs.staging).filter(|staging| staging.is_set());
            let staging = staging.ok_or(AgentError::NothingStaged)?;
            is_at(revision, staging.revision, "staging")?;
            self.publishable(&staging.config)?;
            let config = staging.config.clone();
            let event = Some(EventName::AgentPublished);
            Ok(Decision {
                event,
                ..Decision::new(ConfigKind::Default, config, Deed::AgentPublished)
            })
        };
        self.change(agent, decide).await
    }

    /// Resets staging to the live configuration. With a `revision`, fails with `Stale` unless
    /// staging has that revision.
    pub async fn revert(
        &self,
        agent: AccountId,
        revision: Option<i64>,
    ) -> Result<Changed, AgentError> {
        let decide = |configs: Option<&AgentConfigs>| {
            let configs = configs.filter(|configs| configs.live.is_set());
            let configs = configs.ok_or(AgentError::NothingToRevertTo)?;
            is_at(revision, configs.staging.revision, "staging")?;
            let config = configs.live.config.clone();
            let event = Some(EventName::AgentReverted);
            Ok(Decision {
                event,
                ..Decision::new(ConfigKind::Staging, config, Deed::AgentReverted)
            })
        };
        self.change(agent, decide).await
    }

    /// Reads, decides, and writes unless the configurations changed meanwhile; then decides again,
    /// up to `ATTEMPTS` times. Writes nothing if no field differs.
    pub(super) async fn change(
        &self,
        agent: AccountId,
        decide: impl Fn(Option<&AgentConfigs>) -> Result<Decision, AgentError>,
    ) -> Result<Changed, AgentError> {
        for _ in 0..ATTEMPTS {
            let before = self.store.agent_configs(agent).await?;
            let decision = decide(before.as_ref())?;
            let nothing = Config::new();
            let written = before.as_ref().map(|configs| configs.of(decision.kind));
            let old = written.map_or(&nothing, |written| &written.config);
            let fields = differing(old, &decision.config);
            if let Some(configs) = &before
                && fields.is_empty()
                && configs.of(decision.kind).is_set()
            {
                return Ok(Changed { configs: configs.clone(), fields, previous: None });
            }
            match self.write(agent, before.as_ref(), &decision, &fields).await? {
                ConfigOutcome::Done(configs, previous) => {
                    return Ok(Changed { configs: *configs, fields, previous });
                }
                ConfigOutcome::Moved => {}
                ConfigOutcome::Missing => return Err(AgentError::NoConfig),
                ConfigOutcome::NotInstalled(apps) => return Err(AgentError::NotInstalled(apps)),
                ConfigOutcome::Locked(locked) => return Err(AgentError::Locked(locked)),
            }
        }
        Err(AgentError::Busy("configuration"))
    }

    /// Fails with `Incomplete` if a configuration cannot be published. An earlier version of this
    /// program may have accepted what is a fault now.
    pub(super) fn publishable(&self, config: &Config) -> Result<(), AgentError> {
        let mut faults = schema::faults(config, "", self.rules());
        faults.extend(schema::missing(config));
        if faults.is_empty() { Ok(()) } else { Err(AgentError::Incomplete(faults)) }
    }

    async fn write(
        &self,
        agent: AccountId,
        before: Option<&AgentConfigs>,
        decision: &Decision,
        fields: &[String],
    ) -> Result<ConfigOutcome, AgentError> {
        let named = fields.iter().map(|field| Change::made("changed", field));
        let changes: Vec<Change> = decision.notes.iter().cloned().chain(named).collect();
        let version = decision.version;
        let event = decision.event.map(|name| ConfigEvent { name, changed: fields, version });
        let replaces = decision.kind == ConfigKind::Default;
        let change = ConfigChange {
            kind: decision.kind,
            config: &decision.config,
            decided_by: before.map_or_else(Revisions::default, AgentConfigs::revisions),
            deed: decision.deed,
            changes: &changes,
            event,
            keep_automatic: replaces.then_some(self.rules().max_automatic_versions),
        };
        Ok(self.store.configure_agent(agent, &change, self.act()).await?)
    }
}

/// Fails with `Stale` if a change was made for another revision.
fn is_at(wanted: Option<i64>, revision: i64, what: &'static str) -> Result<(), AgentError> {
    match wanted.filter(|wanted| *wanted != revision) {
        None => Ok(()),
        Some(wanted) => Err(AgentError::Stale { what, revision, wanted }),
    }
}
