//! API keys, by their hash.

use super::audit::{self, Note};
use super::db::Store;
use super::error::StoreError;
use super::row::Columns;
use super::sql::{Row, Statement, sql};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, KeyId, MemberId};
use crate::domain::key::{Key, KeyHash};

impl Store {
    /// Keeps a new key's hash.
    pub async fn insert_key(
        &self,
        key: &Key,
        hash: KeyHash,
        act: Act<'_>,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        sql("INSERT INTO keys (id, account_id, member_id, hash, last_four, purpose, created_at,
                               expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
        .bind(key.id.0)
        .bind(key.account.get())
        .bind(key.member.map(MemberId::get))
        .bind(hash.0.as_slice())
        .bind(key.last_four.clone())
        .bind(key.purpose.clone())
        .bind(key.created_at.millis())
        .bind(key.expires_at.map(Timestamp::millis))
        .execute(tx.on())
        .await?;
        let changes =
            [Change::made("purpose", &key.purpose), Change::made("lastFour", &key.last_four)];
        let (account, object) = (key.account, key.id.to_string());
        let made = Note { account, deed: Deed::KeyCreated, object, changes: &changes };
        audit::note(&mut tx, self.mint(), act, made).await?;
        tx.commit().await
    }

    /// The key with this hash, unless it was revoked. The index compares hashes of guesses, so
    /// timing tells nothing about a key.
    pub async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<Key>, StoreError> {
        let row = select("WHERE hash = $1 AND revoked_at IS NULL")
            .bind(hash.0.as_slice())
            .fetch_optional(self.reader())
            .await?;
        row.as_ref().map(key).transpose()
    }

    /// The keys of an account, oldest first, revoked ones too.
    pub async fn keys(&self, account: AccountId) -> Result<Vec<Key>, StoreError> {
        let rows = select("WHERE account_id = $1 ORDER BY created_at, id")
            .bind(account.get())
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(key).collect()
    }

    /// Revokes a key; answers whether it was in force.
    pub async fn revoke_key(&self, id: KeyId, act: Act<'_>) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let row = sql("UPDATE keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL
                       RETURNING account_id")
        .bind(id.0)
        .bind(act.at)
        .fetch_optional(tx.on())
        .await?;
        let Some(row) = row else { return Ok(false) };
        let account = Columns { table: "keys", row: &row }.account("account_id")?;
        let revoked =
            Note { account, deed: Deed::KeyRevoked, object: id.to_string(), changes: &[] };
        audit::note(&mut tx, self.mint(), act, revoked).await?;
        tx.commit().await?;
        Ok(true)
    }
}

fn select(rest: &'static str) -> Statement {
    let mut query =
        sql("SELECT id, account_id, member_id, last_four, purpose, created_at, expires_at,
                                last_used_at, revoked_at FROM keys ");
    query.push(rest);
    query
}

fn key(row: &Row) -> Result<Key, StoreError> {
    let columns = Columns { table: "keys", row };
    Ok(Key {
        id: KeyId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        member: columns.optional_integer("member_id")?.and_then(MemberId::new),
        purpose: columns.text("purpose")?,
        last_four: columns.text("last_four")?,
        created_at: columns.time("created_at")?,
        expires_at: columns.optional_time("expires_at")?,
        last_used_at: columns.optional_time("last_used_at")?,
        revoked_at: columns.optional_time("revoked_at")?,
    })
}
