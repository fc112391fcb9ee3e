//! Templates of configurations, and the Agents linked with them. A reseller or a partner owns a
//! template; accounts below read and apply it. `domain/template.rs` decides what applying writes.

use std::collections::BTreeMap;

use super::schema;
use super::{AgentError, Agents};
use crate::domain::account::Account;
use crate::domain::agent_config::{AgentConfigs, Config, merged};
use crate::domain::fault::{Fault, join};
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{Approved, Content, Head, Integration, Link, Plan, Template, owners};
use crate::store::{
    ApplyOutcome, NewTemplate, TemplateApplication, TemplateChange, TemplateDeletion,
    TemplateOutcome,
};

/// Attempts at one change before it fails with `Busy`.
const ATTEMPTS: u32 = 5;

/// A change of a template; absent fields stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateUpdate {
    pub name: Option<String>,
    pub enabled: Option<bool>,
    /// Fields of the configuration; null removes one, absent fields stay.
    pub config: Option<Config>,
    /// Replaces all that were there.
    pub fields: Option<BTreeMap<String, bool>>,
    pub integrations: Option<Vec<Integration>>,
    /// The revision that the template must have.
    pub revision: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct AppliedTemplate {
    pub template: Template,
    pub configs: AgentConfigs,
    pub plan: Plan,
}

impl Agents {
    /// Creates a template of this account: a draft, which cannot be applied until it is enabled.
    pub async fn create_template(
        &self,
        owner: AccountId,
        name: &str,
        update: &TemplateUpdate,
    ) -> Result<Template, AgentError> {
        let content = self.content(&Content::default(), update)?;
        let most = self.rules.templates.max_per_account;
        let new = NewTemplate { name, content: &content };
        let made = self.store.insert_template(owner, new, most, self.act()).await?;
        made.ok_or(AgentError::TooManyTemplates { most })
    }

    /// Lists the templates that an account owns, and the enabled ones of accounts above.
    pub async fn templates(&self, account: &Account) -> Result<Vec<Head>, AgentError> {
        let mut found = self.store.templates(owners(&account.lineage)).await?;
        found.retain(|head| is_shown(head, account));
        Ok(found)
    }

    /// Returns one of [`Agents::templates`], or fails with `NoTemplate`.
    pub async fn template(
        &self,
        account: &Account,
        id: TemplateId,
    ) -> Result<Template, AgentError> {
        let found = self.store.template(owners(&account.lineage), id).await?;
        found.filter(|found| is_shown(&found.head, account)).ok_or(AgentError::NoTemplate)
    }

    /// Returns the owner of a template, even if it is a draft by now. Fails with `NotLinked` unless
    /// the Agent is linked with it.
    pub async fn owner_of_link(
        &self,
        agent: &Account,
        id: TemplateId,
    ) -> Result<AccountId, AgentError> {
        let link = self.store.template_link(agent.id).await?;
        if link.is_none_or(|link| link.template != id) {
            return Err(AgentError::NotLinked);
        }
        let found = self.store.template(owners(&agent.lineage), id).await?;
        found.map(|found| found.head.account).ok_or(AgentError::NotLinked)
    }

    pub async fn template_link(&self, agent: AccountId) -> Result<Option<Link>, AgentError> {
        Ok(self.store.template_link(agent).await?)
    }

    /// Changes a template of this account. Linked Agents keep their configuration until a
    /// migration; locks apply at once. Disabling the template ends its migration.
    pub async fn update_template(
        &self,
        owner: &Account,
        id: TemplateId,
        update: &TemplateUpdate,
    ) -> Result<Template, AgentError> {
        for _ in 0..ATTEMPTS {
            let before = self.own_template(owner, id).await?;
            let revision = before.head.revision;
            if let Some(wanted) = update.revision.filter(|wanted| *wanted != revision) {
                return Err(AgentError::Stale { what: "the template", revision, wanted });
            }
            let content = self.content(&before.content, update)?;
            let (name, enabled) = (update.name.as_deref(), update.enabled);
            let change = TemplateChange { name, enabled, content: &content, revision };
            match self.store.update_template(owner.id, id, &change, self.act()).await? {
                TemplateOutcome::Done(template) => return Ok(*template),
                TemplateOutcome::Moved => {}
                TemplateOutcome::Missing => return Err(AgentError::NoTemplate),
            }
        }
        Err(AgentError::Busy("template"))
    }

    /// Deletes a template of this account. Without `detach_all`, fails with `InUse` while Agents
    /// are linked with it.
    pub async fn delete_template(
        &self,
        owner: &Account,
        id: TemplateId,
        detach_all: bool,
    ) -> Result<(), AgentError> {
        self.own_template(owner, id).await?;
        match self.store.delete_template(owner.id, id, detach_all, self.act()).await? {
            TemplateDeletion::Done => Ok(()),
            TemplateDeletion::Missing => Err(AgentError::NoTemplate),
            TemplateDeletion::Linked => Err(AgentError::InUse),
        }
    }

    /// Applies a template to one Agent. Staging takes the template's fields, but keeps those that
    /// the customer changed since the last time and that are not `approved`.
    pub async fn apply_template(
        &self,
        agent: AccountId,
        id: TemplateId,
        approved: &Approved,
    ) -> Result<AppliedTemplate, AgentError> {
        let most = self.rules().max_config_bytes;
        let application = TemplateApplication { template: id, approved, max_config_bytes: most };
        match self.store.apply_template(agent, application, self.act()).await? {
            ApplyOutcome::Done(done) => {
                let (configs, template, plan) = *done;
                Ok(AppliedTemplate { template, configs, plan })
            }
            ApplyOutcome::NoTemplate => Err(AgentError::NoTemplate),
            ApplyOutcome::Disabled => Err(AgentError::Draft),
            ApplyOutcome::LinkedWith(other) => Err(AgentError::LinkedWith(other)),
            ApplyOutcome::NotInstalled(apps) => Err(AgentError::NotInstalled(apps)),
            ApplyOutcome::TooLarge(length) => Err(AgentError::TooLarge { length, most }),
        }
    }

    /// Removes the link between an Agent and a template. The configuration stays, unlocked.
    pub async fn detach_template(
        &self,
        agent: AccountId,
        id: TemplateId,
    ) -> Result<(), AgentError> {
        let is_detached = self.store.detach_template(agent, id, self.act()).await?;
        is_detached.then_some(()).ok_or(AgentError::NotLinked)
    }

    /// Returns a template that this account owns. Fails with `TemplateOf` if an account above owns
    /// it.
    pub(super) async fn own_template(
        &self,
        owner: &Account,
        id: TemplateId,
    ) -> Result<Template, AgentError> {
        let found = self.template(owner, id).await?;
        match found.head.account {
            account if account == owner.id => Ok(found),
            account => Err(AgentError::TemplateOf(account)),
        }
    }

    /// Returns the content after a change.
    fn content(&self, before: &Content, update: &TemplateUpdate) -> Result<Content, AgentError> {
        let mut content = before.clone();
        if let Some(config) = &update.config {
            self.check(config, "/config")?;
            // Nothing checks that each Agent which gets the template may hand work there.
            if schema::delegate(config).is_some() {
                let detail = "belongs to each Agent and cannot be in a template: leave it out";
                return Err(invalid("/config/computerDelegateAccountId", detail));
            }
            content.config = merged(&before.config, config);
            self.check_size(&content.config, "/config")?;
        }
        if let Some(fields) = &update.fields {
            content.fields.clone_from(fields);
        }
        if let Some(integrations) = &update.integrations {
            content.integrations.clone_from(integrations);
        }
        let mut locked = content.fields.iter().filter(|(_, locked)| **locked);
        // An Agent could never set a locked field that the template lacks, not even to be
        // published.
        match locked.find(|(name, _)| !content.config.contains_key(*name)) {
            None => Ok(content),
            Some((name, _)) => {
                let detail = "is locked, but config does not have it: set it there, or unlock it";
                Err(invalid(&join("/fields", name), detail))
            }
        }
    }
}

/// Only its owner sees a draft.
fn is_shown(head: &Head, account: &Account) -> bool {
    head.enabled || head.account == account.id
}

fn invalid(at: &str, detail: &str) -> AgentError {
    AgentError::Invalid(vec![Fault::new(at, detail)])
}
