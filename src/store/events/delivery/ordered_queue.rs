//! Heads of rooms: the first pending delivery of each room of an `ordered` destination, the only
//! one of the room that may be claimed. A claim reads a limited number of rooms of each destination
//! (`rooms_at_once` in `policies/store.toml`), and the next claim continues after them. So each
//! room has its turn, however many rooms wait for a retry, and no destination delays another one.

use std::collections::HashMap;

use serde_json::Value as Json;
use uuid::Uuid;

use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, sql};

/// Steps from destination to destination, and in each from room to room, from where the last claim
/// ended (from the first room if none follows). Returns the heads that are due, and the last head
/// of each walk that reached `rooms_at_once`.
const HEADS: &str = "
    WITH RECURSIVE in_order (destination) AS (
        SELECT MIN(destination_id) FROM deliveries INDEXED BY deliveries_in_order
        WHERE state = 'pending' AND room IS NOT NULL
        UNION ALL
        SELECT (SELECT MIN(destination_id) FROM deliveries INDEXED BY deliveries_in_order
                WHERE state = 'pending' AND room IS NOT NULL AND destination_id > destination)
        FROM in_order WHERE destination IS NOT NULL),
    heads (place, destination, room, number) AS (
        SELECT head.rowid, destination, head.room, 1
        FROM in_order CROSS JOIN destinations CROSS JOIN deliveries AS head
        WHERE destinations.id = destination
          AND (destinations.rests_until <= $1 OR prober IN (SELECT value FROM json_each($5)))
          AND destinations.draining = 0 AND destinations.disabled_at IS NULL
          AND lower(hex(destination)) NOT IN (SELECT value FROM json_each($2))
          AND head.rowid = COALESCE(
              (SELECT rowid FROM deliveries INDEXED BY deliveries_in_order
               WHERE state = 'pending' AND room IS NOT NULL AND destination_id = destination
                 AND room > (SELECT value FROM json_each($3) WHERE key = lower(hex(destination)))
               ORDER BY room, arrived, id LIMIT 1),
              (SELECT rowid FROM deliveries INDEXED BY deliveries_in_order
               WHERE state = 'pending' AND room IS NOT NULL AND destination_id = destination
               ORDER BY room, arrived, id LIMIT 1))
        UNION ALL
        SELECT head.rowid, heads.destination, head.room, number + 1
        FROM heads CROSS JOIN deliveries AS head
        WHERE number < $4 AND head.rowid = (
            SELECT rowid FROM deliveries INDEXED BY deliveries_in_order
            WHERE state = 'pending' AND room IS NOT NULL
              AND destination_id = heads.destination AND room > heads.room
            ORDER BY room, arrived, id LIMIT 1))
    SELECT place, destination, heads.room AS room, number,
           one.next_attempt_at <= $1 AND (one.lease_until <= $1 OR one.holder IN
               (SELECT value FROM json_each($5))) AS due
    FROM heads CROSS JOIN deliveries AS one
    WHERE one.rowid = place
      AND (number = $4 OR (one.next_attempt_at <= $1 AND (one.lease_until <= $1 OR one.holder IN
               (SELECT value FROM json_each($5)))))
    ORDER BY number, one.next_attempt_at, one.id";

const HEADS_BESIDE_OTHERS: &str = "
    WITH RECURSIVE dead (id) AS (
        SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($5 AS JSON))),
    in_order (destination) AS (
        (SELECT destination_id FROM deliveries WHERE state = 'pending' AND room IS NOT NULL
         ORDER BY destination_id LIMIT 1)
        UNION ALL
        SELECT (SELECT destination_id FROM deliveries
                WHERE state = 'pending' AND room IS NOT NULL AND destination_id > destination
                ORDER BY destination_id LIMIT 1)
        FROM in_order WHERE destination IS NOT NULL),
    heads (place, destination, room, number, due_at, leased, holder) AS (
        SELECT head.id, destination, head.room, CAST(1 AS BIGINT),
               head.next_attempt_at, head.lease_until, head.holder
        FROM in_order JOIN destinations ON destinations.id = destination
        CROSS JOIN LATERAL (
            (SELECT id, room, next_attempt_at, lease_until, holder, 0 AS turn FROM deliveries
             WHERE state = 'pending' AND room IS NOT NULL AND destination_id = destination
               AND room > (CAST($3 AS JSON) ->> replace(CAST(destination AS TEXT), '-', ''))
             ORDER BY room, arrived, id LIMIT 1)
            UNION ALL
            (SELECT id, room, next_attempt_at, lease_until, holder, 1 AS turn FROM deliveries
             WHERE state = 'pending' AND room IS NOT NULL AND destination_id = destination
             ORDER BY room, arrived, id LIMIT 1)
            ORDER BY turn LIMIT 1) AS head
        WHERE (rests_until <= $1 OR prober IN (SELECT id FROM dead)) AND draining = 0 AND disabled_at IS NULL
          AND destination NOT IN
              (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($2 AS JSON)))
        UNION ALL
        SELECT head.id, heads.destination, head.room, heads.number + 1,
               head.next_attempt_at, head.lease_until, head.holder
        FROM heads CROSS JOIN LATERAL (
            SELECT id, room, next_attempt_at, lease_until, holder FROM deliveries
            WHERE state = 'pending' AND room IS NOT NULL
              AND destination_id = heads.destination AND room > heads.room
            ORDER BY room, arrived, id LIMIT 1) AS head
        WHERE heads.number < $4)
    SELECT place, destination, room, number, CAST(is_due AS BIGINT) AS due
    FROM heads CROSS JOIN LATERAL (
        SELECT CASE WHEN due_at <= $1 AND (leased <= $1 OR holder IN (SELECT id FROM dead))
               THEN 1 ELSE 0 END AS is_due) AS judged
    WHERE number = $4 OR is_due = 1
    ORDER BY number, due_at, place";

impl Base {
    /// Returns up to `most` due heads as JSON for the claim: one of each destination in turn.
    pub(in crate::store) async fn due_heads(
        &self,
        tx: &mut Transaction,
        now: Timestamp,
        most: usize,
        busy: &str,
    ) -> Result<String, StoreError> {
        let rooms = i64::from(self.deliveries.rooms_at_once);
        let rows = sql(HEADS)
            .on_postgres(HEADS_BESIDE_OTHERS)
            .bind(now)
            .bind(busy)
            .bind(self.room_turns.last_rooms())
            .bind(rooms)
            .bind(self.gateway_registry.dead())
            .fetch_all(tx.on())
            .await?;
        let mut due = Vec::new();
        let mut ends = HashMap::new();
        for row in &rows {
            let columns = Columns { table: "deliveries", row };
            if columns.integer("number")? == rooms
                // A destination whose place cannot be read begins anew, and delays no other.
                && let (Ok(id), Ok(room)) = (columns.uuid("destination"), columns.text("room"))
            {
                ends.insert(id, room);
            }
            if columns.flag("due")? && due.len() < most {
                due.push(match row {
                    Row::Sqlite(_) => Json::from(row.get::<i64>("place")?),
                    Row::Postgres(_) => Json::from(row.get::<Uuid>("place")?.to_string()),
                });
            }
        }
        self.room_turns.remember(busy, ends);
        Ok(Json::from(due).to_string())
    }
}
