//! Rows of templates.

use crate::domain::id::{AccountId, TemplateId};
use crate::domain::template::{Content, Head, Integration, Template};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};

/// Selects a template that one of these accounts owns.
pub fn select(id: TemplateId, owners: [Option<AccountId>; 2]) -> Statement {
    let [one, other] = owners;
    sql("SELECT id, account_id, name, enabled, config, fields, integrations, revision,
                created_at, updated_at
         FROM templates WHERE id = $1 AND account_id IN ($2, $3) AND deleted_at IS NULL")
    .bind(id.0)
    .bind(one)
    .bind(other)
}

/// Returns a template of this account. Locks its row: a transaction that applies it waits.
pub async fn lock_own(
    tx: &mut Transaction,
    account: AccountId,
    id: TemplateId,
) -> Result<Option<Template>, StoreError> {
    let query = select(id, [Some(account), None]).locking("FOR UPDATE");
    query.fetch_optional(tx.on()).await?.as_ref().map(template).transpose()
}

pub fn head(row: &Row) -> Result<Head, StoreError> {
    let columns = Columns { table: "templates", row };
    Ok(Head {
        id: TemplateId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        name: columns.text("name")?,
        enabled: columns.flag("enabled")?,
        revision: columns.integer("revision")?,
        created_at: columns.time("created_at")?,
        updated_at: columns.time("updated_at")?,
    })
}

pub fn template(row: &Row) -> Result<Template, StoreError> {
    let columns = Columns { table: "templates", row };
    let pairs: Vec<(String, String)> = columns.json("integrations")?;
    let pair = |(slug, version)| Integration { slug, version };
    let content = Content {
        config: columns.json("config")?,
        fields: columns.json("fields")?,
        integrations: pairs.into_iter().map(pair).collect(),
    };
    Ok(Template { head: head(row)?, content })
}
