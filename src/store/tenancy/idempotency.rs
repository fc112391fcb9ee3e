//! Requests with an Idempotency-Key (contract §4). A change and its key are committed in one
//! transaction (`audit::note`): only one of several equal requests is carried out, even if gateways
//! crash, and on any number of gateways.

use uuid::Uuid;

use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, retry_conflicts, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// A remembered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedRequest {
    /// The request, as in [`Once`].
    pub request: Vec<u8>,
    /// The encrypted answer. None until it is kept, and forever if the gateway ended before that.
    pub answer: Option<Vec<u8>>,
}

/// Remembers a request for `holder`, which may repeat this call. Returns false if another holder
/// has the key and it has not expired.
pub async fn remember(
    tx: &mut Transaction,
    once: &Once,
    holder: Uuid,
    now: Timestamp,
    answer: Option<&[u8]>,
) -> Result<bool, StoreError> {
    // On PostgreSQL this waits for a transaction that is inserting the same key.
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
    /// Returns the remembered request with this digest, unless it has expired.
    pub async fn remembered_request(
        &self,
        digest: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<RememberedRequest>, StoreError> {
        let row = sql("SELECT request, answer FROM idempotency_keys
                       WHERE digest = $1 AND expires_at > $2")
        .bind(digest.as_slice())
        .bind(now)
        .fetch_optional(self.reader())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let columns = Columns { table: "idempotency_keys", row: &row };
        let (request, answer) = (columns.bytes("request")?, columns.optional_bytes("answer")?);
        Ok(Some(RememberedRequest { request, answer }))
    }

    /// Keeps the encrypted answer for `holder`; None records only that the request was carried out.
    /// Returns false, and keeps nothing, if another holder has the key.
    pub async fn keep_answer(
        &self,
        once: &Once,
        holder: Uuid,
        now: Timestamp,
        answer: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        transact!(self, async |tx| {
            let kept = remember(&mut tx, once, holder, now, answer).await?;
            tx.commit().await?;
            Ok(kept)
        })
    }

    /// Deletes up to `limit` expired requests. Returns None if another gateway is deleting.
    pub async fn forget_requests(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Option<u64>, StoreError> {
        let expired = || {
            // Skips keys that a transaction is renewing.
            sql("DELETE FROM idempotency_keys WHERE digest IN (
                     SELECT digest FROM idempotency_keys WHERE expires_at <= $1
                     ORDER BY expires_at LIMIT $2)")
            .on_postgres(
                "WITH gone AS MATERIALIZED (
                     SELECT digest FROM idempotency_keys WHERE expires_at <= $1
                     ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
                 DELETE FROM idempotency_keys WHERE digest IN (SELECT digest FROM gone)",
            )
        };
        retry_conflicts!(self.delete_past(expired(), now, limit))
    }
}
