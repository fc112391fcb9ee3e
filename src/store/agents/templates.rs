//! Creating, changing and deleting templates. Applying a template locks its row until the link is
//! committed (`template_links.rs`), so that no Agent is linked with a deleted template.

use super::audited_commit::audit_note;
use super::config_rows::config_text;
use super::template_migrations;
use super::template_rows::{head, lock_own, select, template};
use crate::domain::agent_config::differing;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{Content, Head, Template};
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};
use crate::store::tenancy::accounts;

#[derive(Clone, Copy, Debug)]
pub struct NewTemplate<'c> {
    pub name: &'c str,
    pub content: &'c Content,
}

/// A change of a template; None keeps a field.
#[derive(Clone, Copy, Debug)]
pub struct TemplateChange<'c> {
    pub name: Option<&'c str>,
    pub enabled: Option<bool>,
    /// The whole content, decided from the content at `revision`.
    pub content: &'c Content,
    pub revision: i64,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum TemplateOutcome {
    Done(Box<Template>),
    /// The revision has changed; nothing was written.
    Moved,
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateDeletion {
    Done,
    Missing,
    /// Agents are linked with it; nothing was deleted.
    Linked,
}

impl Base {
    /// Creates a template of this account, as a draft. Returns None if the account has `most`.
    pub async fn insert_template(
        &self,
        account: AccountId,
        NewTemplate { name, content }: NewTemplate<'_>,
        most: u64,
        act: Act<'_>,
    ) -> Result<Option<Template>, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, "templates", account.get()).await?;
            let row = sql("SELECT COUNT(*) AS templates FROM templates
             WHERE account_id = $1 AND deleted_at IS NULL")
            .bind(account)
            .fetch_one(tx.on())
            .await?;
            if (Columns { table: "templates", row: &row }).count("templates")? >= most {
                return Ok(None);
            }
            let head = Head {
                id: TemplateId(self.mint().uuid()),
                account,
                name: name.to_owned(),
                enabled: false,
                revision: 1,
                created_at: act.at,
                updated_at: act.at,
            };
            let template = Template { head, content: content.clone() };
            let statement = sql("INSERT INTO templates (id, name, enabled, config, fields,
                     integrations, revision, created_at, updated_at, account_id)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9)");
            bind(statement, &template).bind(account).execute(tx.on()).await?;
            let changes = [Change::made("name", name)];
            let note = audit_note(account, Deed::TemplateCreated, &template.head.id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(Some(template))
        })
    }

    /// Returns the templates of these accounts without their contents, the oldest of each first.
    pub async fn templates(&self, owners: [Option<AccountId>; 2]) -> Result<Vec<Head>, StoreError> {
        let [one, other] = owners;
        let rows = sql("SELECT id, account_id, name, enabled, revision, created_at, updated_at
             FROM templates WHERE account_id IN ($1, $2) AND deleted_at IS NULL
             ORDER BY account_id, id")
        .bind(one)
        .bind(other)
        .fetch_all(self.reader())
        .await?;
        rows.iter().map(head).collect()
    }

    /// Returns a template of one of these accounts.
    pub async fn template(
        &self,
        owners: [Option<AccountId>; 2],
        id: TemplateId,
    ) -> Result<Option<Template>, StoreError> {
        let row = select(id, owners).fetch_optional(self.reader()).await?;
        row.as_ref().map(template).transpose()
    }

    /// Changes a template of this account. Its locks count at once; a migration changes the Agents.
    pub async fn update_template(
        &self,
        account: AccountId,
        id: TemplateId,
        change: &TemplateChange<'_>,
        act: Act<'_>,
    ) -> Result<TemplateOutcome, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, account).await?;
            let Some(before) = lock_own(&mut tx, account, id).await? else {
                return Ok(TemplateOutcome::Missing);
            };
            if before.head.revision != change.revision {
                return Ok(TemplateOutcome::Moved);
            }
            let (after, changes) = changed(&before, change);
            if changes.is_empty() {
                return Ok(TemplateOutcome::Done(Box::new(before)));
            }
            let after = Template { head: Head { updated_at: act.at, ..after.head }, ..after };
            let statement = sql("UPDATE templates SET name = $2, enabled = $3, config = $4,
                     fields = $5, integrations = $6, revision = $7, updated_at = $8
                 WHERE id = $1");
            bind(statement, &after).execute(tx.on()).await?;
            if !after.head.enabled {
                template_migrations::end(&mut tx, id, act.at).await?;
            }
            let note = audit_note(account, Deed::TemplateUpdated, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(TemplateOutcome::Done(Box::new(after)))
        })
    }

    /// Deletes a template of this account: nobody sees it any more, and it locks nothing.
    /// `detach_all` permits this while Agents are linked with it; they keep their configurations.
    pub async fn delete_template(
        &self,
        account: AccountId,
        id: TemplateId,
        detach_all: bool,
        act: Act<'_>,
    ) -> Result<TemplateDeletion, StoreError> {
        transact!(self, async |tx| {
            accounts::passed(&mut tx, account).await?;
            let Some(found) = lock_own(&mut tx, account, id).await? else {
                return Ok(TemplateDeletion::Missing);
            };
            // Not the whole link: damage in one must not keep the template.
            let linked = sql("SELECT agent_id FROM template_links WHERE template_id = $1 LIMIT 1");
            let is_linked = linked.bind(id.0).fetch_optional(tx.on()).await?.is_some();
            if is_linked && !detach_all {
                return Ok(TemplateDeletion::Linked);
            }
            sql("UPDATE templates SET deleted_at = $2 WHERE id = $1")
                .bind(id.0)
                .bind(act.at)
                .execute(tx.on())
                .await?;
            let mut changes = vec![Change::gone("name", &found.head.name)];
            changes.extend(is_linked.then(|| Change::made("detachAll", true)));
            let note = audit_note(account, Deed::TemplateDeleted, &id, &changes);
            self.commit_audited(tx, act, note).await?;
            Ok(TemplateDeletion::Done)
        })
    }
}

/// Returns the changed template, and the changes for the audit log: names of fields, no values.
fn changed(before: &Template, change: &TemplateChange<'_>) -> (Template, Vec<Change>) {
    let mut after = before.clone();
    let mut changes = Vec::new();
    if let Some(name) = change.name.filter(|name| *name != before.head.name) {
        changes.push(Change::new("name", Some(&before.head.name), Some(name)));
        name.clone_into(&mut after.head.name);
    }
    if let Some(enabled) = change.enabled.filter(|enabled| *enabled != before.head.enabled) {
        changes.push(Change::new("enabled", Some(before.head.enabled), Some(enabled)));
        after.head.enabled = enabled;
    }
    let (old, new) = (&before.content, change.content);
    let mut named = differing(&old.config, &new.config);
    named.extend((old.fields != new.fields).then(|| "fields".to_owned()));
    named.extend((old.integrations != new.integrations).then(|| "integrations".to_owned()));
    if !named.is_empty() {
        after.head.revision = before.head.revision.saturating_add(1);
        after.content = new.clone();
    }
    changes.extend(named.iter().map(|name| Change::made("changed", name)));
    (after, changes)
}

/// Binds the columns of a template but its account and the time of its creation.
fn bind(statement: Statement, template: &Template) -> Statement {
    let Template { head, content } = template;
    let integrations = content.integrations.iter().map(|one| (&one.slug, &one.version));
    let integrations: Vec<_> = integrations.collect();
    statement
        .bind(head.id.0)
        .bind(head.name.as_str())
        .bind(i64::from(head.enabled))
        .bind(config_text(&content.config))
        .bind(serde_json::to_string(&content.fields).unwrap_or_default())
        .bind(serde_json::to_string(&integrations).unwrap_or_default())
        .bind(head.revision)
        .bind(head.updated_at)
}
