//! Migrations: applying a template, as it was at the request, to all Agents linked with it, or to
//! some. There may be very many, so each transaction changes one Agent, in the order of their ids.
//! The progress is a row: any gateway continues after any crash, and nothing is done twice. One
//! gateway works at a time. The links of deleted templates are removed in the same way.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::audited_commit::audit_note;
use super::config_rows::{config_text, find_configs, lock_agent};
use super::template_links::{
    link_of, links, missing_apps, plan_changes, plan_of, put_link, stage_plan,
};
use super::template_rows;
use crate::domain::agent_config::Config;
use crate::domain::audit::{Act, Actor, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{Approved, Extent, Link, Migration, Tally, Template};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Connection, Row, sql};
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit;

/// The part of a template that a migration applies, and to which of the linked Agents.
#[derive(Clone, Copy, Debug)]
pub struct MigrationScope<'m> {
    pub extent: &'m Extent,
    /// None means all linked Agents.
    pub targets: Option<&'m BTreeSet<AccountId>>,
}

/// Bounds and time of one step of the work on a template.
#[derive(Clone, Copy, Debug)]
pub struct TemplateStep {
    /// Most bytes of a new configuration.
    pub max_config_bytes: usize,
    /// Most links of a deleted template that are removed.
    pub links_at_once: u32,
    pub now: Timestamp,
}

/// The result of a request for a migration.
#[derive(Clone, Debug, PartialEq)]
pub enum MigrationOutcome {
    /// The migration was begun.
    Done(Box<Migration>),
    Missing,
    /// The template is a draft.
    Disabled,
    /// Another migration is under way.
    UnderWay,
}

/// Progress of the work on a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateProgress {
    /// Nothing is left to do.
    Done,
    /// There may be more to do.
    More,
    /// Another gateway is working.
    Held,
}

impl Base {
    /// Requests a migration of Agents linked with a template of this account.
    /// [`Self::work_on_template`] carries it out.
    pub async fn ask_migration(
        &self,
        account: AccountId,
        id: TemplateId,
        MigrationScope { extent, targets }: MigrationScope<'_>,
        act: Act<'_>,
    ) -> Result<MigrationOutcome, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, account).await?;
            let Some(template) = template_rows::lock_own(&mut tx, account, id).await? else {
                return Ok(MigrationOutcome::Missing);
            };
            if !template.head.enabled {
                return Ok(MigrationOutcome::Disabled);
            }
            let last = find(tx.on(), id).await?;
            if last.is_some_and(|last| last.migration.finished_at.is_none()) {
                return Ok(MigrationOutcome::UnderWay);
            }
            let migration = Migration {
                revision: template.head.revision,
                extent: extent.clone(),
                targets: targets.map(|targets| targets.iter().copied().collect()),
                asked_at: act.at,
                finished_at: None,
                tally: Tally::default(),
            };
            begin(&mut tx, &template, &migration).await?;
            let changes = [Change::made("revision", migration.revision)];
            let note = audit_note(account, Deed::TemplateMigrationAsked, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(MigrationOutcome::Done(Box::new(migration)))
        })
    }

    /// Returns the last migration of a template, if there was one.
    pub async fn template_migration(
        &self,
        id: TemplateId,
    ) -> Result<Option<Migration>, StoreError> {
        Ok(find(self.reader(), id).await?.map(|found| found.migration))
    }

    /// Returns up to `limit` templates behind `after` with a migration under way, or deleted.
    pub async fn templates_with_work(
        &self,
        after: Option<TemplateId>,
        limit: u32,
    ) -> Result<Vec<TemplateId>, StoreError> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let mut found = BTreeSet::new();
        for query in [
            "SELECT template_id FROM template_migrations
             WHERE finished_at IS NULL AND template_id > $1 ORDER BY template_id LIMIT $2",
            "SELECT id AS template_id FROM templates
             WHERE deleted_at IS NOT NULL AND id > $1 ORDER BY id LIMIT $2",
        ] {
            let query = sql(query).bind(after).bind(i64::from(limit));
            for row in query.fetch_all(self.reader()).await? {
                let id = Columns { table: "templates", row: &row }.uuid("template_id")?;
                found.insert(TemplateId(id));
            }
        }
        Ok(found.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    /// Migrates the next Agent; if the template was deleted, removes some links, and finally the
    /// template. Skips the work if another gateway is at it.
    pub async fn work_on_template(
        &self,
        id: TemplateId,
        step: TemplateStep,
    ) -> Result<TemplateProgress, StoreError> {
        transact!(self, async |tx| {
            if !gates::try_alone(&mut tx, "template migrations").await? {
                return Ok(TemplateProgress::Held);
            }
            let row = sql("SELECT deleted_at FROM templates WHERE id = $1")
                .bind(id.0)
                .fetch_optional(tx.on())
                .await?;
            let Some(row) = row else { return Ok(TemplateProgress::Done) };
            let deleted = Columns { table: "templates", row: &row }.optional_time("deleted_at")?;
            let progress = match deleted {
                Some(_) => remove_some(&mut tx, id, step.links_at_once).await?,
                None => self.migrate_next_agent(&mut tx, id, step).await?,
            };
            tx.commit().await?;
            Ok(progress)
        })
    }

    async fn migrate_next_agent(
        &self,
        tx: &mut Transaction,
        id: TemplateId,
        step: TemplateStep,
    ) -> Result<TemplateProgress, StoreError> {
        let found = find(tx.on(), id).await?;
        let Some(mut work) = found.filter(|work| work.migration.finished_at.is_none()) else {
            return Ok(TemplateProgress::Done);
        };
        let agent = match &work.migration.targets {
            None => links(tx.on(), id, work.after_agent, 1).await?.first().map(|link| link.agent),
            Some(all) => all.iter().copied().find(|agent| agent.get() > work.after_agent),
        };
        let Some(agent) = agent else {
            end(tx, id, step.now).await?;
            return Ok(TemplateProgress::Done);
        };
        let account = lock_agent(tx, agent).await?;
        let link = link_of(tx.on(), agent).await?.filter(|link| link.template == id);
        // Passes over Agents that were detached or deleted since.
        if let Some(link) = link
            && account.is_some()
        {
            self.migrate(tx, &link, &mut work, step).await?;
        }
        let tally = &work.migration.tally;
        let saved =
            sql("UPDATE template_migrations SET after_agent = $2, examined = $3, changed = $4,
                 overridden = $5, failed = $6, last_failed = $7
             WHERE template_id = $1 AND asked_at = $8 AND revision = $9 AND finished_at IS NULL")
            .bind(id.0)
            .bind(agent)
            .bind(stored(tally.examined))
            .bind(stored(tally.changed))
            .bind(stored(tally.overridden))
            .bind(stored(tally.failed))
            .bind(tally.last_failed)
            .bind(work.migration.asked_at)
            .bind(work.migration.revision)
            .execute(tx.on())
            .await?;
        if saved == 0 {
            // The migration was ended or replaced meanwhile: this transaction must not commit.
            return Err(StoreError::Conflict(None));
        }
        Ok(TemplateProgress::More)
    }

    /// Applies the template to one Agent, and counts the Agent.
    async fn migrate(
        &self,
        tx: &mut Transaction,
        link: &Link,
        work: &mut MigrationWork,
        step: TemplateStep,
    ) -> Result<(), StoreError> {
        let MigrationWork { migration, config, .. } = work;
        let (agent, tally) = (link.agent, &mut migration.tally);
        tally.examined += 1;
        // A newer revision was applied meanwhile, and stays.
        if link.revision > migration.revision {
            return Ok(());
        }
        let configs = find_configs(tx.on(), agent).await?;
        let plan = plan_of(configs.as_ref(), Some(link), config, &migration.extent);
        if config_text(&plan.config).len() > step.max_config_bytes
            || !missing_apps(tx, agent, &plan).await?.is_empty()
        {
            tally.failed += 1;
            tally.last_failed = Some(agent);
            return Ok(());
        }
        tally.overridden += u64::from(!plan.overrides.is_empty());
        let whole = migration.extent.sections.is_none();
        let revision = if whole { migration.revision } else { link.revision };
        let new = Link { applied: plan.applied.clone(), revision, ..link.clone() };
        if new != *link {
            put_link(tx, &new).await?;
        }
        if plan.changed.is_empty() {
            return Ok(());
        }
        tally.changed += 1;
        let configs = self.ensure_configs(tx, agent, configs, step.now).await?;
        stage_plan(tx, agent, configs, &plan, step.now).await?;
        let changes = plan_changes(link.template, &plan);
        let note = audit_note(agent, Deed::TemplateMigrated, &link.template, &changes);
        audit::note(tx, self.mint(), Actor::GATEWAY.at(step.now), note).await
    }
}

/// A migration, with the configuration that it applies, and its place among the Agents.
struct MigrationWork {
    migration: Migration,
    config: Config,
    after_agent: i64,
}

async fn begin(
    tx: &mut Transaction,
    template: &Template,
    migration: &Migration,
) -> Result<(), StoreError> {
    let Migration { extent, targets, .. } = migration;
    let targets = targets
        .as_ref()
        .map(|all| all.iter().map(|agent| Json::from(agent.get())).collect::<Json>().to_string());
    let approved = match &extent.approved {
        Approved::Nothing => Json::Bool(false),
        Approved::Everything => Json::Bool(true),
        Approved::Fields(names) => json!(names),
    };
    sql("INSERT INTO template_migrations (template_id, revision, config, sections, approved,
             targets, asked_at, finished_at, after_agent, examined, changed, overridden, failed,
             last_failed)
         VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, 0, 0, 0, 0, 0, NULL)
         ON CONFLICT (template_id) DO UPDATE SET revision = excluded.revision,
             config = excluded.config, sections = excluded.sections, approved = excluded.approved,
             targets = excluded.targets, asked_at = excluded.asked_at, finished_at = NULL,
             after_agent = 0, examined = 0, changed = 0, overridden = 0, failed = 0,
             last_failed = NULL")
    .bind(template.head.id.0)
    .bind(migration.revision)
    .bind(config_text(&template.content.config))
    .bind(extent.sections.as_ref().map(|names| json!(names).to_string()))
    .bind(approved.to_string())
    .bind(targets)
    .bind(migration.asked_at)
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Ends the migration of a template, if one is under way.
pub async fn end(tx: &mut Transaction, id: TemplateId, now: Timestamp) -> Result<(), StoreError> {
    sql("UPDATE template_migrations SET finished_at = $2
         WHERE template_id = $1 AND finished_at IS NULL")
    .bind(id.0)
    .bind(now)
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Removes up to `limit` links with a deleted template; without links, the template itself.
async fn remove_some(
    tx: &mut Transaction,
    id: TemplateId,
    limit: u32,
) -> Result<TemplateProgress, StoreError> {
    // The outer condition spares an Agent that another transaction is moving to another template.
    let gone = sql("DELETE FROM template_links WHERE template_id = $1 AND agent_id IN (
             SELECT agent_id FROM template_links WHERE template_id = $1 ORDER BY agent_id LIMIT $2)")
    .bind(id.0)
    .bind(i64::from(limit))
    .execute(tx.on())
    .await?;
    if gone > 0 {
        return Ok(TemplateProgress::More);
    }
    for text in [
        "DELETE FROM template_migrations WHERE template_id = $1",
        "DELETE FROM templates WHERE id = $1",
    ] {
        sql(text).bind(id.0).execute(tx.on()).await?;
    }
    Ok(TemplateProgress::Done)
}

async fn find(on: Connection<'_>, id: TemplateId) -> Result<Option<MigrationWork>, StoreError> {
    let row = sql("SELECT revision, config, sections, approved, targets, asked_at, finished_at,
                after_agent, examined, changed, overridden, failed, last_failed
         FROM template_migrations WHERE template_id = $1")
    .bind(id.0)
    .fetch_optional(on)
    .await?;
    row.as_ref().map(migration_work).transpose()
}

fn migration_work(row: &Row) -> Result<MigrationWork, StoreError> {
    let columns = Columns { table: "template_migrations", row };
    let targets: Option<Vec<i64>> = columns.optional_json("targets")?;
    let targets = targets.map(|all| all.into_iter().filter_map(AccountId::new).collect());
    let approved = match columns.json::<Json>("approved")? {
        Json::Bool(true) => Approved::Everything,
        Json::Bool(false) => Approved::Nothing,
        _ => Approved::Fields(columns.json("approved")?),
    };
    let tally = Tally {
        examined: columns.count("examined")?,
        changed: columns.count("changed")?,
        overridden: columns.count("overridden")?,
        failed: columns.count("failed")?,
        last_failed: columns.optional_account("last_failed")?,
    };
    let migration = Migration {
        revision: columns.integer("revision")?,
        extent: Extent { sections: columns.optional_json("sections")?, approved },
        targets,
        asked_at: columns.time("asked_at")?,
        finished_at: columns.optional_time("finished_at")?,
        tally,
    };
    let after_agent = columns.integer("after_agent")?;
    Ok(MigrationWork { migration, config: columns.json("config")?, after_agent })
}
