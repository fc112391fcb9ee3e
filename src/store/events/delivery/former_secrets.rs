//! Deletes expired former secrets of destinations.

use super::destination_row::{self, read_former_secrets};
use crate::domain::clock::Timestamp;
use crate::domain::destination::FormerSecret;
use crate::domain::id::DestinationId;
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Value, sql};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForgottenSecrets {
    pub destinations: u64,
    /// Last destination of a full batch: the next batch begins after it.
    pub more_behind: Option<DestinationId>,
}

impl Base {
    /// Deletes expired former secrets of up to `limit` destinations; skips those being changed.
    pub async fn forget_secrets(
        &self,
        now: Timestamp,
        after: Option<DestinationId>,
        limit: usize,
    ) -> Result<ForgottenSecrets, StoreError> {
        transact!(self, async |tx| {
            let rows = sql("SELECT id, former_secrets FROM destinations
                        WHERE former_secrets <> '[]' AND id > $1 ORDER BY id LIMIT $2")
            .bind(after.map_or(uuid::Uuid::nil(), |id| id.0))
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .locking("FOR NO KEY UPDATE SKIP LOCKED")
            .fetch_all(tx.on())
            .await?;
            let mut changed: Vec<Vec<Value>> = Vec::new();
            let mut last = None;
            for row in &rows {
                let columns = Columns { table: "destinations", row };
                let id = columns.uuid("id")?;
                last = Some(DestinationId(id));
                // Unreadable secrets fail when they are to sign; here they hold up no others.
                let Ok(former) = read_former_secrets(&columns) else { continue };
                let (ended, signing): (Vec<FormerSecret>, Vec<FormerSecret>) =
                    former.into_iter().partition(|one| one.until <= now);
                if !ended.is_empty() {
                    changed.push(vec![id.into(), destination_row::former_secrets(&signing).into()]);
                }
            }
            let destinations = many(
                "WITH given (destination, signing) AS ({rows})
             UPDATE destinations SET former_secrets = given.signing FROM given
             WHERE destinations.id = given.destination",
                changed,
            )
            .execute(tx.on())
            .await?;
            tx.commit().await?;
            let more_behind = last.filter(|_| rows.len() == limit);
            Ok(ForgottenSecrets { destinations, more_behind })
        })
    }
}
