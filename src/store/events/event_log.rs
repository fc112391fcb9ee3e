//! The log of events that clients read: who gets which place in it.
//!
//! On SQLite, which has one writer, a row is written with its place. On PostgreSQL a place is given
//! after the commit, to what is committed by then, and one gateway at a time gives them: so whatever
//! becomes visible later comes behind all that anybody has read. An id or a time would not do:
//! transactions of PostgreSQL end in another order than they began.

use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// The next rows in the order of their commits, each with the place of its last event, all behind
/// those of the row before. A row that is erased meanwhile gets none: there may be gaps. (`arrived >= 0`
/// holds for all: it says where in the index of those without a place to begin.)
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
    /// Gives places in the log to up to `limit` rows of events that have none, and answers how many
    /// got one: none if none waits, which costs one look; fewer than `limit` also where some of those
    /// that waited were erased meanwhile.
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

/// Gives places to up to `limit` rows that have none, and answers how many got one. Until the
/// transaction ends no other one gives any, on any gateway: it should be short.
pub async fn place(tx: &mut Transaction, limit: u32) -> Result<u64, StoreError> {
    if !tx.has_company() {
        return Ok(0);
    }
    // A statement of its own: the next one sees all that was placed before the queue let this in.
    gates::queue(tx, "event log", 0).await?;
    let rows = sql(PLACE).bind(i64::from(limit)).fetch_all(tx.on()).await?;
    let mut last = None;
    for row in &rows {
        let position = Columns { table: "events", row }.integer("position")?;
        last = last.max(Some(position));
    }
    if let Some(last) = last {
        sql("UPDATE event_log SET last_position = $1 WHERE id = 1")
            .bind(last)
            .execute(tx.on())
            .await?;
    }
    Ok(rows.len().try_into().unwrap_or(u64::MAX))
}
