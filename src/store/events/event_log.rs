//! Positions of events in the log that clients read.
//!
//! On SQLite, which has one writer, a row is written with its position. On PostgreSQL, transactions
//! end in another order than they began, so neither ids nor times can order the log: a slow commit
//! would appear before events that a client has read. Positions are therefore given after the
//! commit, by one gateway at a time. Every event that becomes visible later gets a later position.

use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// Gives the next rows without a position theirs, in the order of `arrived`. The position of a row
/// is that of its last event. A row erased meanwhile leaves a gap. (`arrived >= 0` holds for all
/// rows: the scan of the index of rows without a position begins there.)
const PLACE: &str = "
    UPDATE events
    SET position = (SELECT last_position FROM event_log WHERE id = 1) + waiting.number
    FROM (SELECT id, SUM(told) OVER (ORDER BY arrived, id) AS number
          FROM (SELECT id, arrived, LENGTH(names) - LENGTH(REPLACE(names, ' ', '')) + 1 AS told
                FROM events WHERE position IS NULL AND arrived >= 0
                ORDER BY arrived, id LIMIT $1) AS walked) AS waiting
    WHERE events.id = waiting.id
    RETURNING position";

impl Base {
    /// Gives positions to up to `limit` rows of events without one, in turn with other gateways.
    /// Returns how many rows got one: fewer if some were erased meanwhile. Costs one query if none
    /// waits; does nothing on SQLite.
    pub async fn place_events(&self, limit: u32) -> Result<u64, StoreError> {
        if !self.reader().is_postgres() {
            return Ok(0);
        }
        let waiting = sql("SELECT id FROM events WHERE position IS NULL AND arrived >= 0
                           ORDER BY arrived, id LIMIT 1");
        if waiting.fetch_optional(self.reader()).await?.is_none() {
            return Ok(0);
        }
        transact!(self, async |tx| {
            let placed = place(&mut tx, limit).await?;
            tx.commit().await?;
            Ok(placed)
        })
    }
}

/// Gives positions to up to `limit` rows that have none, and returns how many rows got one. No
/// other transaction on any gateway gives positions until this one ends: keep it short.
pub async fn place(tx: &mut Transaction, limit: u32) -> Result<u64, StoreError> {
    if !tx.has_concurrent_writers() {
        return Ok(0);
    }
    // Locked by a separate statement, so that the next one sees all earlier positions.
    gates::take_turn(tx, "event log", 0).await?;
    let rows = sql(PLACE).bind(i64::from(limit)).fetch_all(tx.on()).await?;
    let position = |row| Columns { table: "events", row }.integer("position");
    let positions = rows.iter().map(position).collect::<Result<Vec<_>, _>>()?;
    if let Some(last) = positions.into_iter().max() {
        sql("UPDATE event_log SET last_position = $1 WHERE id = 1")
            .bind(last)
            .execute(tx.on())
            .await?;
    }
    Ok(rows.len().try_into().unwrap_or(u64::MAX))
}
