//! Rows of what accounts keep of apps: an account may be made with some (`agents/app_records.rs`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::domain::app::AppRecord;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// What became of a new record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewRecord {
    Kept,
    /// The account has one of this app, version and use.
    Exists,
    /// It has as many of this use as it may.
    TooMany,
}

/// A new row, as far as there is room; whoever counts at the same time waits at the gate.
pub async fn insert(
    tx: &mut Transaction,
    new: &AppRecord,
    most: u64,
) -> Result<NewRecord, StoreError> {
    let row = sql("SELECT COUNT(*) AS kept FROM app_records WHERE account_id = $1 AND kind = $2")
        .bind(new.account)
        .bind(new.of.as_str())
        .fetch_one(tx.on())
        .await?;
    let full = Columns { table: "app_records", row: &row }.count("kept")? >= most;
    // A repetition is told that it is one, even where there is no room for another.
    let done = sql("INSERT INTO app_records (account_id, kind, app_id, version, settings,
                                secret_names, sealed, revision, created_at, updated_at)
                    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9) ON CONFLICT DO NOTHING")
    .bind(new.account)
    .bind(new.of.as_str())
    .bind(new.app.id())
    .bind(new.app.version())
    .bind(Value::Object(new.shown.clone()).to_string())
    .bind(names(&new.secrets))
    .bind(new.sealed.as_deref())
    .bind(new.revision)
    .bind(new.created_at)
    .execute(tx.on())
    .await?;
    Ok(match (done, full) {
        (0, _) => NewRecord::Exists,
        (_, true) => NewRecord::TooMany,
        (_, false) => NewRecord::Kept,
    })
}

/// The names of secrets, as they are kept.
pub fn names(secrets: &BTreeSet<String>) -> String {
    secrets.iter().map(|name| Value::from(name.as_str())).collect::<Value>().to_string()
}
