//! Rows of app records, for `agents/app_records.rs` and for new accounts.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::domain::app::AppRecord;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppRecordInsertion {
    Inserted,
    /// The account has a record of this app, version and use.
    Exists,
    /// The account has as many records of this use as it may.
    TooMany,
}

/// Inserts a row. The caller holds the queue of the account's apps, so that the count is right, and
/// must drop the transaction unless the result is `Inserted`.
pub async fn insert(
    tx: &mut Transaction,
    new: &AppRecord,
    most: u64,
) -> Result<AppRecordInsertion, StoreError> {
    let row = sql("SELECT COUNT(*) AS kept FROM app_records WHERE account_id = $1 AND kind = $2")
        .bind(new.account)
        .bind(new.of.as_str())
        .fetch_one(tx.on())
        .await?;
    let full = Columns { table: "app_records", row: &row }.count("kept")? >= most;
    // A duplicate is reported as `Exists`, even without room for another.
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
        (0, _) => AppRecordInsertion::Exists,
        (_, true) => AppRecordInsertion::TooMany,
        (_, false) => AppRecordInsertion::Inserted,
    })
}

/// Returns the names of secrets as JSON.
pub fn names(secrets: &BTreeSet<String>) -> String {
    secrets.iter().map(|name| Value::from(name.as_str())).collect::<Value>().to_string()
}
