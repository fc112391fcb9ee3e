//! API keys, by their hash.

use super::db::Store;
use super::error::StoreError;
use super::row::Columns;
use super::sql::{Row, sql};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::key::{Key, KeyHash};

impl Store {
    /// Keeps a new key's hash.
    pub async fn insert_key(&self, key: &Key, hash: KeyHash) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sql("INSERT INTO keys (id, account_id, hash, last_four, purpose, created_at)
             VALUES ($1, $2, $3, $4, $5, $6)")
        .bind(key.id.0)
        .bind(key.account.get())
        .bind(hash.0.as_slice())
        .bind(key.last_four.clone())
        .bind(key.purpose.clone())
        .bind(key.created_at.millis())
        .execute(tx.on())
        .await?;
        tx.commit().await
    }

    /// The key with this hash, unless it was revoked. The index compares hashes of guesses, so
    /// timing tells nothing about a key.
    pub async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<Key>, StoreError> {
        let row = sql("SELECT id, account_id, last_four, purpose, created_at, revoked_at FROM keys
             WHERE hash = $1 AND revoked_at IS NULL")
        .bind(hash.0.as_slice())
        .fetch_optional(self.reader())
        .await?;
        row.as_ref().map(key).transpose()
    }

    /// The keys of an account, oldest first, revoked ones too.
    pub async fn keys(&self, account: AccountId) -> Result<Vec<Key>, StoreError> {
        let rows =
            sql("SELECT id, account_id, last_four, purpose, created_at, revoked_at FROM keys
             WHERE account_id = $1 ORDER BY created_at, id")
            .bind(account.get())
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(key).collect()
    }

    /// Revokes a key; answers whether it was in force.
    pub async fn revoke_key(&self, id: KeyId, now: Timestamp) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let done = sql("UPDATE keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL")
            .bind(id.0)
            .bind(now.millis())
            .execute(tx.on())
            .await?;
        tx.commit().await?;
        Ok(done > 0)
    }
}

fn key(row: &Row) -> Result<Key, StoreError> {
    let columns = Columns { table: "keys", row };
    Ok(Key {
        id: KeyId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        purpose: columns.text("purpose")?,
        last_four: columns.text("last_four")?,
        created_at: columns.time("created_at")?,
        revoked_at: columns.optional_time("revoked_at")?,
    })
}
