//! Links of Agents with templates, and the fields that a template wrote. A change of a link queues
//! with the changes of the Agent's configurations, so that the state it was decided from stays.

use std::collections::BTreeSet;

use super::app_records::not_installed;
use super::config_rows::{self, QUEUE, text};
use super::template_rows::template;
use crate::domain::account::Account;
use crate::domain::agent_config::{AgentConfig, AgentConfigs, Config};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{self as rule, Approved, Extent, Link, Plan, Template};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row, sql};
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit::{self, Note};

/// The result of applying a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// Applied; the Agent is linked with the template.
    Done(Box<(AgentConfigs, Template, Plan)>),
    /// No account above the Agent has this template.
    NoTemplate,
    /// The template is a draft.
    Disabled,
    /// The Agent is linked with another template.
    LinkedWith(TemplateId),
    /// The configuration would have this many bytes.
    TooLarge(usize),
    /// The configuration would assign these apps, which the Agent has not installed.
    NotInstalled(Vec<String>),
    /// The Agent was deleted.
    NoAgent,
}

impl Base {
    /// Applies a template to an Agent's staging, which may have `most` bytes, and links the Agent.
    /// Fields that the customer has changed since the last time stay, except the `approved` ones.
    pub async fn apply_template(
        &self,
        agent: AccountId,
        id: TemplateId,
        (approved, most): (&Approved, usize),
        act: Act<'_>,
    ) -> Result<Applied, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, QUEUE, agent.get()).await?;
            let Some(account) = accounts::passed(&mut tx, agent).await? else {
                return Ok(Applied::NoAgent);
            };
            let Some(found) = above(&mut tx, &account, id).await? else {
                return Ok(Applied::NoTemplate);
            };
            if !found.head.enabled {
                return Ok(Applied::Disabled);
            }
            let link = link(tx.on(), agent).await?;
            if let Some(link) = &link
                && link.template != id
            {
                return Ok(Applied::LinkedWith(link.template));
            }
            let extent = Extent { sections: None, approved: approved.clone() };
            let configs = config_rows::configs(tx.on(), agent).await?;
            let plan = planned(configs.as_ref(), link.as_ref(), &found.content.config, &extent);
            if length(&plan.config) > most {
                return Ok(Applied::TooLarge(length(&plan.config)));
            }
            let lacks = lacks(&mut tx, agent, &plan).await?;
            if !lacks.is_empty() {
                return Ok(Applied::NotInstalled(lacks));
            }
            let new = Link {
                agent,
                template: id,
                applied: plan.applied.clone(),
                revision: found.head.revision,
                linked_at: link.as_ref().map_or(act.at, |link| link.linked_at),
            };
            if let Some(configs) = configs.as_ref().filter(|_| link.as_ref() == Some(&new))
                && plan.changed.is_empty()
            {
                return Ok(Applied::Done(Box::new((configs.clone(), found, plan))));
            }
            let configs = self.stage_plan(&mut tx, agent, (configs, &plan), act.at).await?;
            put(&mut tx, &new).await?;
            let first = Change::made("template", id);
            let deed = Deed::TemplateApplied;
            self.note_plan(&mut tx, agent, (deed, first, &plan), act).await?;
            tx.commit().await?;
            Ok(Applied::Done(Box::new((configs, found, plan))))
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
            gates::take_turn(&mut tx, QUEUE, agent.get()).await?;
            let account = accounts::passed(&mut tx, agent).await?;
            let link = link(tx.on(), agent).await?;
            if account.is_none() || link.is_none_or(|link| link.template != id) {
                return Ok(false);
            }
            sql("DELETE FROM template_links WHERE agent_id = $1")
                .bind(agent)
                .execute(tx.on())
                .await?;
            let (deed, changes) = (Deed::TemplateDetached, [Change::gone("template", id)]);
            let note = Note { account: agent, deed, object: id.to_string(), changes: &changes };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(true)
        })
    }

    /// Returns the link of an Agent.
    pub async fn template_link(&self, agent: AccountId) -> Result<Option<Link>, StoreError> {
        link(self.reader(), agent).await
    }

    /// Returns up to `limit` links with a template behind `after`, in the order of Agent ids.
    pub async fn template_links(
        &self,
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
        .fetch_all(self.reader())
        .await?;
        rows.iter().map(linked).collect()
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

    /// Writes the plan to an Agent's staging, if it changes anything or staging was never set.
    pub(in crate::store) async fn stage_plan(
        &self,
        tx: &mut Transaction,
        agent: AccountId,
        (configs, plan): (Option<AgentConfigs>, &Plan),
        now: Timestamp,
    ) -> Result<AgentConfigs, StoreError> {
        let mut configs = match configs {
            Some(configs) => configs,
            None => self.begin_configs(tx, agent, now).await?,
        };
        if configs.staging.is_set() && plan.changed.is_empty() {
            return Ok(configs);
        }
        let staging = AgentConfig {
            config: plan.config.clone(),
            revision: configs.staging.revision.saturating_add(1),
            updated_at: now,
            ..configs.staging
        };
        config_rows::write(tx, agent, &staging).await?;
        configs.staging = staging;
        Ok(configs)
    }

    /// Writes the audit entry for a plan: names of fields, no values.
    pub(in crate::store) async fn note_plan(
        &self,
        tx: &mut Transaction,
        agent: AccountId,
        (deed, first, plan): (Deed, Change, &Plan),
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let object = first.after.clone().unwrap_or_default();
        let named = plan.changed.iter().map(|field| Change::made("changed", field));
        let changes: Vec<Change> = [first].into_iter().chain(named).collect();
        let note = Note { account: agent, deed, object, changes: &changes };
        audit::note(tx, self.mint(), act, note).await
    }
}

/// Plans the effect of a template on an Agent. Staging that was never set begins as a copy of live.
pub fn planned(
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
pub async fn lacks(
    tx: &mut Transaction,
    agent: AccountId,
    plan: &Plan,
) -> Result<Vec<String>, StoreError> {
    match plan.changed.iter().any(|field| field == "apps") {
        true => not_installed(tx, agent, &plan.config).await,
        false => Ok(Vec::new()),
    }
}

/// Returns the bytes of a configuration as stored.
pub fn length(config: &Config) -> usize {
    text(config).len()
}

/// Returns the first Agent behind `after` that is linked with a template.
pub async fn next(
    on: Connection<'_>,
    id: TemplateId,
    after: i64,
) -> Result<Option<AccountId>, StoreError> {
    let row = sql("SELECT agent_id FROM template_links WHERE template_id = $1 AND agent_id > $2
         ORDER BY agent_id LIMIT 1")
    .bind(id.0)
    .bind(after)
    .fetch_optional(on)
    .await?;
    row.map(|row| Columns { table: "template_links", row: &row }.account("agent_id")).transpose()
}

/// Returns the link of an Agent, unless its template was deleted.
pub async fn link(on: Connection<'_>, agent: AccountId) -> Result<Option<Link>, StoreError> {
    let row = sql("SELECT agent_id, template_id, applied, revision, linked_at FROM template_links
         WHERE agent_id = $1
           AND (SELECT deleted_at FROM templates WHERE id = template_links.template_id) IS NULL")
    .bind(agent)
    .fetch_optional(on)
    .await?;
    row.as_ref().map(linked).transpose()
}

/// Writes a link, replacing any other link of the Agent.
pub async fn put(tx: &mut Transaction, link: &Link) -> Result<(), StoreError> {
    sql("INSERT INTO template_links (agent_id, template_id, applied, revision, linked_at)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent_id) DO UPDATE SET template_id = excluded.template_id,
             applied = excluded.applied, revision = excluded.revision,
             linked_at = excluded.linked_at")
    .bind(link.agent)
    .bind(link.template.0)
    .bind(text(&link.applied))
    .bind(link.revision)
    .bind(link.linked_at)
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Returns a template that an account above the Agent owns. Locks it until the link is committed.
async fn above(
    tx: &mut Transaction,
    agent: &Account,
    id: TemplateId,
) -> Result<Option<Template>, StoreError> {
    let [one, other] = rule::owners(&agent.lineage);
    let row = sql("SELECT id, account_id, name, enabled, config, fields, integrations, revision,
                created_at, updated_at
         FROM templates WHERE id = $1 AND account_id IN ($2, $3) AND deleted_at IS NULL")
    .bind(id.0)
    .bind(one)
    .bind(other)
    .locking("FOR SHARE")
    .fetch_optional(tx.on())
    .await?;
    row.as_ref().map(template).transpose()
}

fn linked(row: &Row) -> Result<Link, StoreError> {
    let columns = Columns { table: "template_links", row };
    Ok(Link {
        agent: columns.account("agent_id")?,
        template: TemplateId(columns.uuid("template_id")?),
        applied: columns.json("applied")?,
        revision: columns.integer("revision")?,
        linked_at: columns.time("linked_at")?,
    })
}
