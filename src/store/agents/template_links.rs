//! Links of Agents with templates, and the fields that a template wrote. A change of a link queues
//! with the changes of the Agent's configurations, so that the state it was decided from stays.

use std::collections::BTreeSet;

use super::app_records::not_installed;
use super::audited_commit::audit_note;
use super::config_rows::{config_text, find_configs, lock_agent, write_config};
use super::template_rows;
use crate::domain::agent_config::{AgentConfig, AgentConfigs, Config};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{self as rule, Approved, Extent, Link, Plan, Template};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, sql};

/// How a template is applied to an Agent.
#[derive(Clone, Copy, Debug)]
pub struct TemplateApplication<'a> {
    pub template: TemplateId,
    /// Fields that are overwritten although the customer has changed them.
    pub approved: &'a Approved,
    /// Most bytes of the new configuration.
    pub max_config_bytes: usize,
}

/// The result of applying a template.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplyOutcome {
    /// Applied; the Agent is linked with the template.
    Done(Box<(AgentConfigs, Template, Plan)>),
    /// No account above the Agent has this template, or the Agent was deleted.
    NoTemplate,
    /// The template is a draft.
    Disabled,
    /// The Agent is linked with another template.
    LinkedWith(TemplateId),
    /// The configuration would have this many bytes.
    TooLarge(usize),
    /// The configuration would assign these apps, which the Agent has not installed.
    NotInstalled(Vec<String>),
}

impl Base {
    /// Applies a template to an Agent's staging, and links the Agent. Fields that the customer has
    /// changed since the last time stay, except the approved ones.
    pub async fn apply_template(
        &self,
        agent: AccountId,
        application: TemplateApplication<'_>,
        act: Act<'_>,
    ) -> Result<ApplyOutcome, StoreError> {
        transact!(self, async |tx| {
            let Some(account) = lock_agent(&mut tx, agent).await? else {
                return Ok(ApplyOutcome::NoTemplate);
            };
            let id = application.template;
            // Locked until the link is committed.
            let row = template_rows::select(id, rule::owners(&account.lineage))
                .locking("FOR SHARE")
                .fetch_optional(tx.on())
                .await?;
            let Some(row) = row else { return Ok(ApplyOutcome::NoTemplate) };
            let template = template_rows::template(&row)?;
            if !template.head.enabled {
                return Ok(ApplyOutcome::Disabled);
            }
            let link = link_of(tx.on(), agent).await?;
            if let Some(link) = &link
                && link.template != id
            {
                return Ok(ApplyOutcome::LinkedWith(link.template));
            }
            let extent = Extent { sections: None, approved: application.approved.clone() };
            let configs = find_configs(tx.on(), agent).await?;
            let plan = plan_of(configs.as_ref(), link.as_ref(), &template.content.config, &extent);
            let bytes = config_text(&plan.config).len();
            if bytes > application.max_config_bytes {
                return Ok(ApplyOutcome::TooLarge(bytes));
            }
            let missing = missing_apps(&mut tx, agent, &plan).await?;
            if !missing.is_empty() {
                return Ok(ApplyOutcome::NotInstalled(missing));
            }
            let new = Link {
                agent,
                template: id,
                applied: plan.applied.clone(),
                revision: template.head.revision,
                linked_at: link.as_ref().map_or(act.at, |link| link.linked_at),
            };
            if let Some(configs) = configs.as_ref().filter(|_| link.as_ref() == Some(&new))
                && plan.changed.is_empty()
            {
                return Ok(ApplyOutcome::Done(Box::new((configs.clone(), template, plan))));
            }
            let configs = self.ensure_configs(&mut tx, agent, configs, act.at).await?;
            let configs = stage_plan(&mut tx, agent, configs, &plan, act.at).await?;
            put_link(&mut tx, &new).await?;
            let changes = plan_changes(id, &plan);
            let note = audit_note(agent, Deed::TemplateApplied, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(ApplyOutcome::Done(Box::new((configs, template, plan))))
        })
    }

    /// Removes the link between an Agent and a template. The configuration stays, and nothing in it
    /// is locked any more. Returns whether there was a link.
    pub async fn detach_template(
        &self,
        agent: AccountId,
        id: TemplateId,
        act: Act<'_>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            let account = lock_agent(&mut tx, agent).await?;
            let link = link_of(tx.on(), agent).await?;
            if account.is_none() || link.is_none_or(|link| link.template != id) {
                return Ok(false);
            }
            sql("DELETE FROM template_links WHERE agent_id = $1")
                .bind(agent)
                .execute(tx.on())
                .await?;
            let changes = [Change::gone("template", id)];
            let note = audit_note(agent, Deed::TemplateDetached, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(true)
        })
    }

    /// Returns the link of an Agent, unless its template was deleted.
    pub async fn template_link(&self, agent: AccountId) -> Result<Option<Link>, StoreError> {
        link_of(self.reader(), agent).await
    }

    /// Returns up to `limit` links with a template behind `after`, in the order of Agent ids.
    pub async fn template_links(
        &self,
        id: TemplateId,
        after: i64,
        limit: u32,
    ) -> Result<Vec<Link>, StoreError> {
        links(self.reader(), id, after, limit).await
    }

    /// Returns the `agents` that are linked with this template.
    pub async fn linked_with_template(
        &self,
        id: TemplateId,
        agents: &BTreeSet<AccountId>,
    ) -> Result<BTreeSet<AccountId>, StoreError> {
        let rows = many(
            "WITH given (agent) AS ({rows}) SELECT agent_id FROM template_links
             WHERE template_id = $1 AND agent_id IN (SELECT agent FROM given)",
            agents.iter().map(|agent| vec![(*agent).into()]).collect(),
        )
        .bind(id.0)
        .fetch_all(self.reader())
        .await?;
        let agent = |row: &Row| Columns { table: "template_links", row }.account("agent_id");
        rows.iter().map(agent).collect()
    }
}

/// Writes the plan to an Agent's staging, if it changes anything or staging was never set.
pub async fn stage_plan(
    tx: &mut Transaction,
    agent: AccountId,
    configs: AgentConfigs,
    plan: &Plan,
    now: Timestamp,
) -> Result<AgentConfigs, StoreError> {
    if configs.staging.is_set() && plan.changed.is_empty() {
        return Ok(configs);
    }
    let staging = AgentConfig {
        config: plan.config.clone(),
        revision: configs.staging.revision.saturating_add(1),
        updated_at: now,
        ..configs.staging
    };
    write_config(tx, agent, &staging).await?;
    Ok(AgentConfigs { staging, ..configs })
}

/// Returns the changes of a plan for the audit log: names of fields, no values.
pub fn plan_changes(template: TemplateId, plan: &Plan) -> Vec<Change> {
    let fields = plan.changed.iter().map(|field| Change::made("changed", field));
    [Change::made("template", template)].into_iter().chain(fields).collect()
}

/// Plans the effect of a template on an Agent. Staging that was never set begins as a copy of live.
pub fn plan_of(
    configs: Option<&AgentConfigs>,
    link: Option<&Link>,
    template: &Config,
    extent: &Extent,
) -> Plan {
    let staged = configs.map(AgentConfigs::base).cloned().unwrap_or_default();
    rule::plan(&staged, link.map(|link| &link.applied), template, extent)
}

/// Returns the apps that a plan assigns but the Agent has not installed. A plan that does not
/// change the apps is not checked.
pub async fn missing_apps(
    tx: &mut Transaction,
    agent: AccountId,
    plan: &Plan,
) -> Result<Vec<String>, StoreError> {
    match plan.changed.iter().any(|field| field == "apps") {
        true => not_installed(tx, agent, &plan.config).await,
        false => Ok(Vec::new()),
    }
}

/// Returns up to `limit` links with a template behind `after`, in the order of Agent ids.
pub async fn links(
    on: Connection<'_>,
    id: TemplateId,
    after: i64,
    limit: u32,
) -> Result<Vec<Link>, StoreError> {
    let rows = sql("SELECT agent_id, template_id, applied, revision, linked_at
         FROM template_links WHERE template_id = $1 AND agent_id > $2
         ORDER BY agent_id LIMIT $3")
    .bind(id.0)
    .bind(after)
    .bind(i64::from(limit))
    .fetch_all(on)
    .await?;
    rows.iter().map(link).collect()
}

/// Returns the link of an Agent, unless its template was deleted.
pub async fn link_of(on: Connection<'_>, agent: AccountId) -> Result<Option<Link>, StoreError> {
    let row = sql("SELECT agent_id, template_id, applied, revision, linked_at FROM template_links
         WHERE agent_id = $1
           AND (SELECT deleted_at FROM templates WHERE id = template_links.template_id) IS NULL")
    .bind(agent)
    .fetch_optional(on)
    .await?;
    row.as_ref().map(link).transpose()
}

/// Writes a link, replacing any other link of the Agent.
pub async fn put_link(tx: &mut Transaction, link: &Link) -> Result<(), StoreError> {
    sql("INSERT INTO template_links (agent_id, template_id, applied, revision, linked_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent_id) DO UPDATE SET template_id = excluded.template_id,
             applied = excluded.applied, revision = excluded.revision,
             linked_at = excluded.linked_at")
    .bind(link.agent)
    .bind(link.template.0)
    .bind(config_text(&link.applied))
    .bind(link.revision)
    .bind(link.linked_at)
    .execute(tx.on())
    .await?;
    Ok(())
}

fn link(row: &Row) -> Result<Link, StoreError> {
    let columns = Columns { table: "template_links", row };
    Ok(Link {
        agent: columns.account("agent_id")?,
        template: TemplateId(columns.uuid("template_id")?),
        applied: columns.json("applied")?,
        revision: columns.integer("revision")?,
        linked_at: columns.time("linked_at")?,
    })
}
