//! Migrations of templates to all linked Agents: the forecast, and the task that carries them out.
//! Each Agent has its own short transaction; any gateway may do it.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::sleep;

use super::versions::length;
use super::{AgentError, Agents};
use crate::domain::account::Account;
use crate::domain::agent_config::AgentConfigs;
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{Extent, Link, Migration, plan};
use crate::store::{MigrationOutcome, MigrationScope, StoreError, TemplateProgress, TemplateStep};
use crate::wire::{Number, Revision};

/// Templates read by one statement.
const PAGE: u32 = 100;

/// The Agents that a migration changes, and how far it does.
#[derive(Clone, Copy, Debug)]
pub struct MigrationTargets<'m> {
    pub extent: &'m Extent,
    /// None for all linked Agents.
    pub agents: Option<&'m BTreeSet<AccountId>>,
}

/// A page of Agents, by their ids.
#[derive(Clone, Copy, Debug)]
pub struct AgentPage {
    pub after: Option<AccountId>,
    pub limit: u32,
}

/// The forecast of a migration, page by page, in the order of the Agents' ids.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Forecast {
    /// Always true.
    dry_run: bool,
    /// Revision of the template.
    revision: Revision,
    /// Agents by id, smallest first.
    agents: Vec<AgentForecast>,
    /// The next page begins after this Agent; null on the last page.
    next: Option<Number>,
}

/// The forecast for one Agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct AgentForecast {
    /// The Agent.
    account_id: Number,
    /// Fields that would change.
    changed: Vec<String>,
    /// Fields that the customer changed and that would stay.
    overrides: Vec<String>,
    /// Whether the configuration would be too large, so that the Agent would stay unchanged.
    too_large: bool,
}

impl Agents {
    /// Forecasts a migration for up to `limit` Agents with ids above `after`. Long configurations
    /// make the page shorter. Changes nothing.
    pub async fn forecast_migration(
        &self,
        owner: &Account,
        id: TemplateId,
        wanted: &MigrationTargets<'_>,
        page: AgentPage,
    ) -> Result<Forecast, AgentError> {
        let template = self.own_template(owner, id).await?;
        self.check_linked(id, wanted.agents).await?;
        let (config, revision) = (&template.content.config, Revision(template.head.revision));
        let limits = &self.rules.limits;
        let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
        let mut from = page.after.map_or(0, AccountId::get);
        let (mut agents, mut octets) = (Vec::<AgentForecast>::new(), 0_usize);
        loop {
            let (links, last) = self.some_links(id, wanted.agents, from, limits.page_step).await?;
            for link in &links {
                let configs = self.store.agent_configs(link.agent).await?;
                let staged = configs.as_ref().map(AgentConfigs::base).cloned().unwrap_or_default();
                // Bounds the bytes read; the response is shorter.
                let read = length(&staged).saturating_add(length(&link.applied));
                octets = octets.saturating_add(read);
                let full = agents.len() >= limit || octets > limits.max_page_bytes;
                if full && !agents.is_empty() {
                    let next = agents.last().map(|last| last.account_id);
                    return Ok(Forecast { dry_run: true, revision, agents, next });
                }
                let plan = plan(&staged, Some(&link.applied), config, wanted.extent);
                agents.push(AgentForecast {
                    account_id: link.agent.into(),
                    too_large: self.check_size(&plan.config, "").is_err(),
                    changed: plan.changed,
                    overrides: plan.overrides,
                });
            }
            match last {
                Some(last) => from = last.get(),
                None => return Ok(Forecast { dry_run: true, revision, agents, next: None }),
            }
        }
    }

    /// Returns up to `step` links with Agents whose ids are above `from`, and the last id if more
    /// may follow.
    async fn some_links(
        &self,
        id: TemplateId,
        targets: Option<&BTreeSet<AccountId>>,
        from: i64,
        step: u32,
    ) -> Result<(Vec<Link>, Option<AccountId>), AgentError> {
        let most = usize::try_from(step).unwrap_or(usize::MAX);
        let Some(targets) = targets else {
            let links = self.store.template_links(id, from, step).await?;
            let last = links.last().filter(|_| links.len() >= most).map(|last| last.agent);
            return Ok((links, last));
        };
        let few = targets.iter().copied().filter(|agent| agent.get() > from).take(most);
        let few: Vec<AccountId> = few.collect();
        let mut links = Vec::new();
        for agent in &few {
            links
                .extend(self.store.template_link(*agent).await?.filter(|link| link.template == id));
        }
        Ok((links, few.last().copied().filter(|_| few.len() >= most)))
    }

    /// Requests a migration of all linked Agents, or of `targets`. The task of a gateway carries it
    /// out, with the template as it is now.
    pub async fn ask_migration(
        &self,
        owner: &Account,
        id: TemplateId,
        wanted: &MigrationTargets<'_>,
    ) -> Result<Migration, AgentError> {
        self.own_template(owner, id).await?;
        self.check_linked(id, wanted.agents).await?;
        let scope = MigrationScope { extent: wanted.extent, targets: wanted.agents };
        match self.store.ask_migration(owner.id, id, scope, self.act()).await? {
            MigrationOutcome::Done(migration) => Ok(*migration),
            MigrationOutcome::Missing => Err(AgentError::NoTemplate),
            MigrationOutcome::Disabled => Err(AgentError::Draft),
            MigrationOutcome::UnderWay => Err(AgentError::MigrationUnderWay),
        }
    }

    pub async fn migration(&self, id: TemplateId) -> Result<Option<Migration>, AgentError> {
        Ok(self.store.template_migration(id).await?)
    }

    /// Fails with `TargetNotLinked` if one of these Agents is not linked with the template.
    async fn check_linked(
        &self,
        id: TemplateId,
        targets: Option<&BTreeSet<AccountId>>,
    ) -> Result<(), AgentError> {
        let Some(targets) = targets else { return Ok(()) };
        let linked = self.store.linked_with_template(id, targets).await?;
        match targets.difference(&linked).next() {
            None => Ok(()),
            Some(agent) => Err(AgentError::TargetNotLinked(*agent)),
        }
    }

    /// Continues migrations, and the clean-up of deleted templates, until `stop`. Stopping rolls
    /// back the open transaction; the next server continues there.
    pub async fn migrate(self, stop: impl Future<Output = ()> + Send) {
        let rules = self.rules.templates;
        let rounds = async {
            loop {
                match self.migration_round().await {
                    Ok(true) => sleep(rules.pause()).await,
                    Ok(false) => sleep(rules.look()).await,
                    Err(error) => {
                        warn(&error, None);
                        sleep(rules.look()).await;
                    }
                }
            }
        };
        tokio::select! {
            () = pin!(rounds) => {}
            () = stop => {}
        }
    }

    /// Runs one transaction for each template that has work. Returns whether any did something.
    pub async fn migration_round(&self) -> Result<bool, StoreError> {
        let rules = self.rules.templates;
        let (mut after, mut done) = (None, false);
        loop {
            let some = self.store.templates_with_work(after, PAGE).await?;
            let Some(last) = some.last().copied() else { return Ok(done) };
            for id in some {
                let step = TemplateStep {
                    max_config_bytes: self.rules().max_config_bytes,
                    links_at_once: rules.links_at_once,
                    now: self.mint.clock().now(),
                };
                match self.store.work_on_template(id, step).await {
                    Ok(progress) => done |= progress != TemplateProgress::Held,
                    // A failure holds up no other template.
                    Err(error) => warn(&error, Some(id)),
                }
                sleep(rules.pause()).await;
            }
            after = Some(last);
        }
    }
}

fn warn(error: &StoreError, template: Option<TemplateId>) {
    let error = error as &(dyn std::error::Error + 'static);
    let template = template.map(tracing::field::display);
    tracing::warn!(error, template.id = template, "a template migration failed: trying again");
}
