//! Migrations: applying a template, as it was at the request, to all Agents linked with it, or to
//! some. There may be very many, so each transaction changes one Agent, in the order of their ids.
//! The progress is a row: any gateway continues after any crash, and nothing is done twice. One
//! gateway works at a time. The links of deleted templates are removed in the same way.

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};
use uuid::Uuid;

use super::config_rows::{self, QUEUE, text};
use super::template_links::{lacks, length, link, next, planned, put};
use super::template_rows;
use crate::domain::agent_config::Config;
use crate::domain::audit::{Act, Actor, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{Approved, Extent, Link, Migration, Tally};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Connection, Row, sql};
use crate::store::tenancy::accounts;

/// The result of a request for a migration.
#[derive(Clone, Debug, PartialEq)]
pub enum MigrationRequest {
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
pub enum Working {
    /// Nothing is left to do.
    Done,
    /// There may be more to do.
    More,
    /// Another gateway is working.
    Held,
}

impl Base {
    /// Requests a migration of the Agents linked with a template of this account: of all, or of
    /// `targets`. [`Self::work_on_template`] carries it out.
    pub async fn ask_migration(
        &self,
        account: AccountId,
        id: TemplateId,
        (extent, targets): (&Extent, Option<&BTreeSet<AccountId>>),
        act: Act<'_>,
    ) -> Result<MigrationRequest, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, account).await?;
            let Some(found) = template_rows::own(&mut tx, account, id).await? else {
                return Ok(MigrationRequest::Missing);
            };
            if !found.head.enabled {
                return Ok(MigrationRequest::Disabled);
            }
            let last = migration_of(tx.on(), id).await?;
            if last.is_some_and(|(last, _)| last.finished_at.is_none()) {
                return Ok(MigrationRequest::UnderWay);
            }
            let asked = Migration {
                revision: found.head.revision,
                extent: extent.clone(),
                targets: targets.map(|targets| targets.iter().copied().collect()),
                asked_at: act.at,
                finished_at: None,
                tally: Tally::default(),
            };
            begin(&mut tx, id, (&asked, &found.content.config)).await?;
            let changes = [Change::made("revision", asked.revision)];
            let deed = Deed::TemplateMigrationAsked;
            self.note_template(&mut tx, &found.head, (deed, &changes), act).await?;
            tx.commit().await?;
            Ok(MigrationRequest::Done(Box::new(asked)))
        })
    }

    /// Returns the last migration of a template, if there was one.
    pub async fn template_migration(
        &self,
        id: TemplateId,
    ) -> Result<Option<Migration>, StoreError> {
        Ok(migration_of(self.reader(), id).await?.map(|(migration, _)| migration))
    }

    /// Returns up to `limit` templates behind `after` with a migration under way, or deleted.
    pub async fn templates_with_work(
        &self,
        after: Option<TemplateId>,
        limit: u32,
    ) -> Result<Vec<TemplateId>, StoreError> {
        let after = after.map_or(Uuid::nil(), |id| id.0);
        let mut found = BTreeSet::new();
        for text in [
            "SELECT template_id FROM template_migrations
             WHERE finished_at IS NULL AND template_id > $1 ORDER BY template_id LIMIT $2",
            "SELECT id AS template_id FROM templates
             WHERE deleted_at IS NOT NULL AND id > $1 ORDER BY id LIMIT $2",
        ] {
            let query = sql(text).bind(after).bind(i64::from(limit));
            for row in query.fetch_all(self.reader()).await? {
                found.insert(TemplateId(
                    Columns { table: "templates", row: &row }.uuid("template_id")?,
                ));
            }
        }
        Ok(found.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    /// Migrates the next Agent, whose staging may have `most` bytes. Of a deleted template removes
    /// up to `rows` links, and finally the template. Skips the work if another gateway is at it.
    pub async fn work_on_template(
        &self,
        id: TemplateId,
        (most, rows): (usize, u32),
        now: Timestamp,
    ) -> Result<Working, StoreError> {
        transact!(self, async |tx| {
            if !gates::try_alone(&mut tx, "template migrations").await? {
                return Ok(Working::Held);
            }
            let row = sql("SELECT deleted_at FROM templates WHERE id = $1")
                .bind(id.0)
                .fetch_optional(tx.on())
                .await?;
            let Some(row) = row else { return Ok(Working::Done) };
            let deleted = Columns { table: "templates", row: &row }.optional_time("deleted_at")?;
            let working = match deleted {
                Some(_) => remove_some(&mut tx, id, rows).await?,
                None => self.migrate_one(&mut tx, id, most, now).await?,
            };
            tx.commit().await?;
            Ok(working)
        })
    }

    async fn migrate_one(
        &self,
        tx: &mut Transaction,
        id: TemplateId,
        most: usize,
        now: Timestamp,
    ) -> Result<Working, StoreError> {
        let Some((migration, reached)) = migration_of(tx.on(), id).await? else {
            return Ok(Working::Done);
        };
        if migration.finished_at.is_some() {
            return Ok(Working::Done);
        }
        let agent = match &migration.targets {
            None => next(tx.on(), id, reached.after).await?,
            Some(all) => all.iter().copied().find(|agent| agent.get() > reached.after),
        };
        let Some(agent) = agent else {
            end(tx, id, now).await?;
            return Ok(Working::Done);
        };
        gates::take_turn(tx, QUEUE, agent.get()).await?;
        let account = accounts::passed(tx, agent).await?;
        let mut tally = migration.tally.clone();
        let found = link(tx.on(), agent).await?.filter(|link| link.template == id);
        // Passes over Agents that were detached or deleted since.
        if let Some(link) = found
            && account.is_some()
        {
            let asked = (&migration, &reached.config);
            self.migrate(tx, (link, asked), (most, &mut tally), now).await?;
        }
        let done =
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
            .bind(migration.asked_at)
            .bind(migration.revision)
            .execute(tx.on())
            .await?;
        if done == 0 {
            // The migration was ended or replaced meanwhile: this transaction must not commit.
            return Err(StoreError::Conflict(None));
        }
        Ok(Working::More)
    }

    /// Applies the template to one Agent.
    async fn migrate(
        &self,
        tx: &mut Transaction,
        (link, (migration, template)): (Link, (&Migration, &Config)),
        (most, tally): (usize, &mut Tally),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let agent = link.agent;
        tally.examined += 1;
        // A newer revision was applied meanwhile, and stays.
        if link.revision > migration.revision {
            return Ok(());
        }
        let configs = config_rows::configs(tx.on(), agent).await?;
        let plan = planned(configs.as_ref(), Some(&link), template, &migration.extent);
        if length(&plan.config) > most || !lacks(tx, agent, &plan).await?.is_empty() {
            tally.failed += 1;
            tally.last_failed = Some(agent);
            return Ok(());
        }
        tally.overridden += u64::from(!plan.overrides.is_empty());
        let whole = migration.extent.sections.is_none();
        let revision = if whole { migration.revision } else { link.revision };
        let new = Link { applied: plan.applied.clone(), revision, ..link.clone() };
        if new != link {
            put(tx, &new).await?;
        }
        if plan.changed.is_empty() {
            return Ok(());
        }
        tally.changed += 1;
        self.stage_plan(tx, agent, (configs, &plan), now).await?;
        let first = Change::made("template", link.template);
        let deed = Deed::TemplateMigrated;
        self.note_plan(tx, agent, (deed, first, &plan), Actor::GATEWAY.at(now)).await
    }
}

/// The progress of a migration, and the configuration that it applies.
struct Reached {
    after: i64,
    config: Config,
}

async fn begin(
    tx: &mut Transaction,
    id: TemplateId,
    (asked, config): (&Migration, &Config),
) -> Result<(), StoreError> {
    let targets = asked
        .targets
        .as_ref()
        .map(|all| all.iter().map(|agent| Json::from(agent.get())).collect::<Json>().to_string());
    let sections = asked.extent.sections.as_ref().map(|names| json!(names).to_string());
    sql("INSERT INTO template_migrations (template_id, revision, config, sections, approved,
             targets, asked_at, finished_at, after_agent, examined, changed, overridden, failed,
             last_failed)
         VALUES ($1, $2, $3, $4, $5, $6, $7, NULL, 0, 0, 0, 0, 0, NULL)
         ON CONFLICT (template_id) DO UPDATE SET revision = excluded.revision,
             config = excluded.config, sections = excluded.sections, approved = excluded.approved,
             targets = excluded.targets, asked_at = excluded.asked_at, finished_at = NULL,
             after_agent = 0, examined = 0, changed = 0, overridden = 0, failed = 0,
             last_failed = NULL")
    .bind(id.0)
    .bind(asked.revision)
    .bind(text(config))
    .bind(sections)
    .bind(approved(&asked.extent.approved))
    .bind(targets)
    .bind(asked.asked_at)
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

/// Removes up to `rows` links with a deleted template; without links, the template itself.
async fn remove_some(
    tx: &mut Transaction,
    id: TemplateId,
    rows: u32,
) -> Result<Working, StoreError> {
    let gone = sql("DELETE FROM template_links WHERE agent_id IN (
             SELECT agent_id FROM template_links WHERE template_id = $1 ORDER BY agent_id LIMIT $2)")
    .bind(id.0)
    .bind(i64::from(rows))
    .execute(tx.on())
    .await?;
    if gone > 0 {
        return Ok(Working::More);
    }
    for text in [
        "DELETE FROM template_migrations WHERE template_id = $1",
        "DELETE FROM templates WHERE id = $1",
    ] {
        sql(text).bind(id.0).execute(tx.on()).await?;
    }
    Ok(Working::Done)
}

async fn migration_of(
    on: Connection<'_>,
    id: TemplateId,
) -> Result<Option<(Migration, Reached)>, StoreError> {
    let row = sql("SELECT revision, config, sections, approved, targets, asked_at, finished_at,
                after_agent, examined, changed, overridden, failed, last_failed
         FROM template_migrations WHERE template_id = $1")
    .bind(id.0)
    .fetch_optional(on)
    .await?;
    row.as_ref().map(migration).transpose()
}

fn migration(row: &Row) -> Result<(Migration, Reached), StoreError> {
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
    let after = columns.integer("after_agent")?;
    Ok((migration, Reached { after, config: columns.json("config")? }))
}

/// Returns the value as the database stores it: true, false, or names of fields.
fn approved(approved: &Approved) -> String {
    match approved {
        Approved::Nothing => Json::Bool(false),
        Approved::Everything => Json::Bool(true),
        Approved::Fields(names) => json!(names),
    }
    .to_string()
}
