//! Requests that are carried out once (contract §4, `Idempotency-Key`): whoever changes something
//! remembers its request in the same transaction (`audit::note`), so that of the same requests one
//! is carried out, whatever dies in between and on however many gateways.

use uuid::Uuid;

use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, settled};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};

/// A request that was carried out, and is remembered still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// What was asked for, as in [`Once`].
    pub request: Vec<u8>,
    /// What was answered, encrypted; absent while it is carried out, and where whoever did it ended
    /// before it could be kept.
    pub answer: Option<Vec<u8>>,
}

/// Remembers a request as the doing of `holder`, which may do so again; answers false where another
/// one holds it, and is not past.
pub async fn remember(
    tx: &mut Transaction,
    once: &Once,
    holder: Uuid,
    now: Timestamp,
    answer: Option<&[u8]>,
) -> Result<bool, StoreError> {
    // On PostgreSQL one that somebody is just remembering is waited for.
    let done = sql("INSERT INTO idempotency_keys (digest, request, holder, expires_at, answer)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (digest) DO UPDATE SET request = excluded.request, holder = excluded.holder,
             expires_at = excluded.expires_at, answer = excluded.answer
         WHERE idempotency_keys.holder = excluded.holder OR idempotency_keys.expires_at <= $6")
    .bind(once.digest.as_slice())
    .bind(once.request.as_slice())
    .bind(holder)
    .bind(once.until)
    .bind(answer)
    .bind(now)
    .execute(tx.on())
    .await?;
    Ok(done > 0)
}

impl Base {
    /// What is remembered of the request with this digest.
    pub async fn carried_out(
        &self,
        digest: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Done>, StoreError> {
        let row = sql("SELECT request, answer FROM idempotency_keys
                       WHERE digest = $1 AND expires_at > $2")
        .bind(digest.as_slice())
        .bind(now)
        .fetch_optional(self.reader())
        .await?;
        let done = row.map(|row| {
            let columns = Columns { table: "idempotency_keys", row: &row };
            let (request, answer) = (columns.bytes("request")?, columns.optional_bytes("answer")?);
            Ok(Done { request, answer })
        });
        done.transpose()
    }

    /// Keeps what `holder` was answered, encrypted, or only that it was carried out; nothing where
    /// another request is remembered.
    pub async fn keep_answer(
        &self,
        once: &Once,
        holder: Uuid,
        now: Timestamp,
        answer: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin().await?;
        let kept = remember(&mut tx, once, holder, now, answer).await?;
        tx.commit().await?;
        Ok(kept)
    }

    /// Forgets up to `limit` requests that are past; `None` while another gateway is deleting.
    pub async fn forget_requests(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        settled!(self.delete_past(past(), now, limit))
    }
}

/// One that is just remembered anew is left alone.
fn past() -> Statement {
    sql("DELETE FROM idempotency_keys WHERE digest IN (
             SELECT digest FROM idempotency_keys WHERE expires_at <= $1
             ORDER BY expires_at LIMIT $2)")
    .on_postgres(
        "WITH gone AS MATERIALIZED (
             SELECT digest FROM idempotency_keys WHERE expires_at <= $1
             ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
         DELETE FROM idempotency_keys WHERE digest IN (SELECT digest FROM gone)",
    )
}
