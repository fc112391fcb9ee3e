//! Locks of templates on fields of the Agents linked with them.

use std::collections::BTreeMap;

use crate::domain::agent_config::{AgentConfigs, Config, ConfigKind};
use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template as rule;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// The fields that a template locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockedFields {
    pub template: TemplateId,
    pub name: String,
    pub fields: Vec<String>,
}

/// Returns the locks that forbid this change, or None. Locks the row of the template until the
/// transaction ends, so that its locks do not change meanwhile.
pub async fn locked(
    tx: &mut Transaction,
    agent: AccountId,
    before: Option<&AgentConfigs>,
    kind: ConfigKind,
    config: &Config,
) -> Result<Option<LockedFields>, StoreError> {
    let Some(before) = before else { return Ok(None) };
    let row = sql("SELECT templates.id AS id, templates.name AS name, templates.fields AS fields,
                template_links.applied AS applied, templates.deleted_at AS deleted_at
         FROM template_links JOIN templates ON templates.id = template_links.template_id
         WHERE template_links.agent_id = $1")
    .bind(agent)
    .locking("FOR SHARE OF templates")
    .fetch_optional(tx.on())
    .await?;
    let Some(row) = row else { return Ok(None) };
    let columns = Columns { table: "template_links", row: &row };
    if columns.optional_time("deleted_at")?.is_some() {
        return Ok(None);
    }
    let fields: BTreeMap<String, bool> = columns.json("fields")?;
    let applied: Config = columns.json("applied")?;
    let (old, staged) = (&before.of(kind).config, &before.staging.config);
    let fields = rule::locked(&fields, &applied, staged, old, config);
    if fields.is_empty() {
        return Ok(None);
    }
    let template = TemplateId(columns.uuid("id")?);
    Ok(Some(LockedFields { template, name: columns.text("name")?, fields }))
}
