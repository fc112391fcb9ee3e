//! The last attempts of each relay, without any content of the mail.

use std::time::Duration;

use super::relays::millis;
use crate::domain::id::{RelayAttemptId, RelayId};
use crate::domain::relay::RelayAttempt;
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, sql};

impl Base {
    /// Stores an attempt, unless its relay was removed, and keeps the last `most` of the relay.
    pub async fn insert_relay_attempt(
        &self,
        attempt: &RelayAttempt,
        most: u32,
    ) -> Result<(), StoreError> {
        transact!(self, async |tx| {
            sql("INSERT INTO relay_attempts (id, relay_id, account_id, at, outcome, status, millis, error)
             SELECT $1, id, $3, $4, $5, $6, $7, $8 FROM relays WHERE id = $2")
        .bind(attempt.id.0)
        .bind(attempt.relay.0)
        .bind(attempt.account)
        .bind(attempt.at)
        .bind(attempt.outcome.as_str())
        .bind(attempt.status.map(i64::from))
        .bind(millis(attempt.took))
        .bind(attempt.error.as_deref())
        .locking("FOR KEY SHARE")
        .execute(tx.on())
        .await?;
            sql("DELETE FROM relay_attempts WHERE relay_id = $1 AND id <= (
                 SELECT id FROM relay_attempts WHERE relay_id = $1
                 ORDER BY id DESC LIMIT 1 OFFSET $2)")
            .bind(attempt.relay.0)
            .bind(i64::from(most))
            .execute(tx.on())
            .await?;
            tx.commit().await
        })
    }

    /// Returns the last attempts of a relay, the newest first.
    pub async fn relay_attempts(
        &self,
        relay: RelayId,
        limit: u32,
    ) -> Result<Vec<RelayAttempt>, StoreError> {
        let rows = sql("SELECT id, relay_id, account_id, at, outcome, status, millis, error
                        FROM relay_attempts WHERE relay_id = $1 ORDER BY id DESC LIMIT $2")
        .bind(relay.0)
        .bind(i64::from(limit))
        .fetch_all(self.reader())
        .await?;
        rows.iter().map(attempt).collect()
    }
}

fn attempt(row: &Row) -> Result<RelayAttempt, StoreError> {
    let columns = Columns { table: "relay_attempts", row };
    let status = columns.optional_integer("status")?.map(u16::try_from).transpose();
    Ok(RelayAttempt {
        id: RelayAttemptId(columns.uuid("id")?),
        relay: RelayId(columns.uuid("relay_id")?),
        account: columns.account("account_id")?,
        at: columns.time("at")?,
        outcome: columns.word("outcome")?,
        status: status.map_err(|error| columns.corrupt(error))?,
        took: Duration::from_millis(columns.count("millis")?),
        error: columns.optional_text("error")?,
    })
}
