//! Which deliveries a dispatcher works on: claimed under a lease and a fence, loaded with what an
//! attempt needs, given back if they were not begun.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::claimed::Needed;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Claim, TAKEN_OF_EACH};
use crate::domain::id::DestinationId;
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, settled};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Value, sql};

/// A delivery that this gateway cannot read (another version wrote it, or it is damaged) is looked
/// at again after this, for as many times; then it is kept as exhausted.
pub const UNREADABLE_PAUSE: Duration = Duration::from_hours(1);
const UNREADABLE_TRIES: i64 = 48;

/// Steps from destination to destination and takes the longest due of each (of many a few), so that the backlog of
/// one that is busy, rests or was removed, however long, is passed over in one step. Of ordered ones
/// it takes the heads of rooms that were found before (`ordered_queue.rs`). Of one that has rested, one
/// delivery is taken, as a probe. (The sum at its end: a bare `LIMIT $3` has SQLite plan the statement
/// anew for each other value.)
const CLAIM: &str = "
    UPDATE deliveries SET lease_until = $2, fence = fence + 1, holder = $8
    WHERE rowid IN (
        WITH RECURSIVE waiting (destination) AS (
            SELECT MIN(destination_id) FROM deliveries INDEXED BY deliveries_waiting
            WHERE state = 'pending' AND room IS NULL
            UNION ALL
            SELECT (SELECT MIN(destination_id) FROM deliveries INDEXED BY deliveries_waiting
                    WHERE state = 'pending' AND room IS NULL AND destination_id > destination)
            FROM waiting WHERE destination IS NOT NULL),
        due (place, destination, probe, due_at, id) AS (
            SELECT one.rowid, destination, destinations.rests_until > 0, one.next_attempt_at, one.id
            FROM waiting CROSS JOIN destinations CROSS JOIN deliveries AS one
            WHERE destinations.id = destination
              AND (destinations.rests_until <= $1
                   OR prober IN (SELECT value FROM json_each($7)))
              AND destinations.draining = 0 AND destinations.disabled_at IS NULL
              AND lower(hex(destination)) NOT IN (SELECT value FROM json_each($4))
              AND one.rowid IN (
                  SELECT rowid FROM deliveries INDEXED BY deliveries_waiting
                  WHERE state = 'pending' AND room IS NULL AND destination_id = destination
                    AND next_attempt_at <= $1
                    AND (lease_until <= $1 OR holder IN (SELECT value FROM json_each($7)))
                  ORDER BY next_attempt_at, id
                  LIMIT (SELECT MAX($6, $3 * 2 / COUNT(*)) FROM waiting))
            UNION ALL
            SELECT one.rowid, one.destination_id, destinations.rests_until > 0,
                   one.next_attempt_at, one.id
            FROM json_each($5) AS given CROSS JOIN deliveries AS one CROSS JOIN destinations
            WHERE one.rowid = given.value AND destinations.id = one.destination_id)
        SELECT place FROM (
            SELECT place, due_at, id FROM due WHERE probe = 0
            UNION ALL
            SELECT place, MIN(due_at), id FROM due WHERE probe = 1 GROUP BY destination)
        ORDER BY due_at, id LIMIT $3 + 0)
    RETURNING rowid AS place, id, event_id, event_number, destination_id, attempts,
              fence";

/// The same beside other gateways: what one of them is claiming at this moment is skipped, so more
/// is looked at than is taken.
const CLAIM_BESIDE_OTHERS: &str = "
    WITH RECURSIVE dead (id) AS (
        SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($7 AS JSON))),
    waiting (destination) AS (
        (SELECT destination_id FROM deliveries WHERE state = 'pending' AND room IS NULL
         ORDER BY destination_id LIMIT 1)
        UNION ALL
        SELECT (SELECT destination_id FROM deliveries
                WHERE state = 'pending' AND room IS NULL AND destination_id > destination
                ORDER BY destination_id LIMIT 1)
        FROM waiting WHERE destination IS NOT NULL),
    due AS (
        SELECT one.id, destination, destinations.rests_until > 0 AS probe, one.due_at
        FROM waiting JOIN destinations ON destinations.id = destination
        CROSS JOIN LATERAL (
            SELECT id, next_attempt_at AS due_at FROM deliveries
            WHERE state = 'pending' AND room IS NULL AND destination_id = destination
              AND next_attempt_at <= $1
              AND (lease_until <= $1 OR holder IN (SELECT id FROM dead))
            ORDER BY next_attempt_at, id
            LIMIT (SELECT GREATEST($6 * 2, $3 * 4 / COUNT(*)) FROM waiting)) AS one
        WHERE (rests_until <= $1 OR prober IN (SELECT id FROM dead))
          AND draining = 0 AND disabled_at IS NULL
          AND destination NOT IN
              (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($4 AS JSON)))
        UNION ALL
        SELECT one.id, destinations.id, destinations.rests_until > 0, one.next_attempt_at
        FROM json_array_elements_text(CAST($5 AS JSON)) AS head (place)
        JOIN deliveries AS one ON one.id = CAST(head.place AS UUID)
        JOIN destinations ON destinations.id = one.destination_id
        WHERE (rests_until <= $1 OR prober IN (SELECT id FROM dead))
          AND draining = 0 AND disabled_at IS NULL),
    first AS (
        SELECT id, due_at FROM due WHERE NOT probe
        UNION ALL
        (SELECT DISTINCT ON (destination) id, due_at FROM due WHERE probe
         ORDER BY destination, due_at, id)
        ORDER BY due_at, id LIMIT $3 * 4),
    taken AS (
        SELECT deliveries.id FROM first JOIN deliveries USING (id)
        WHERE deliveries.state = 'pending' AND deliveries.next_attempt_at <= $1
          AND (deliveries.lease_until <= $1 OR holder IN (SELECT id FROM dead))
        ORDER BY first.due_at, first.id LIMIT $3
        FOR UPDATE OF deliveries SKIP LOCKED)
    UPDATE deliveries SET lease_until = $2, fence = fence + 1, holder = $8
    WHERE id IN (SELECT id FROM taken)
    RETURNING id AS place, id, event_id, event_number, destination_id, attempts,
              fence";

/// What is to be given up by and by.
const DRAINING: &str = "
    SELECT (SELECT id FROM destinations WHERE draining = 1 ORDER BY id LIMIT 1) AS draining";

/// The same; while deliveries are claimed nobody puts one before them in its room
/// (`gates::close_rooms`).
const DRAINING_BESIDE_OTHERS: &str = "
    SELECT (SELECT id FROM destinations WHERE draining = 1 ORDER BY id LIMIT 1) AS draining,
           CAST(pg_advisory_xact_lock_shared(hashtextextended('rooms', 0)) AS TEXT) AS passed";

impl Base {
    /// Claims up to `limit` deliveries that are due by steady time, none of them for a destination in
    /// `busy`, until `lease_until`. A claim whose lease has ended, or whose holder is dead, is due again. Of what waits in a room of
    /// an ordered destination only the first is claimed, and of a destination that has rested one
    /// delivery, as a probe. Nothing is claimed for a destination that rests, is disabled or was
    /// removed; some of what waits for the latter two is given up on the way, and some of what is
    /// to be sent again is made ready.
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: usize,
        busy: &[DestinationId],
    ) -> Result<Vec<Claim>, StoreError> {
        let busy: Vec<String> = busy.iter().map(|id| id.0.as_simple().to_string()).collect();
        let busy = serde_json::Value::from(busy).to_string();
        let lease = (now, lease_until);
        // Before, in transactions of its own: no lease runs meanwhile, and what was claimed is not
        // lost with it.
        self.work_on_a_replay(now).await;
        let (claims, draining) = settled!(self.try_claim_deliveries(lease, limit, &busy))?;
        if let Some(destination) = draining {
            // It ended now, as people tell the time.
            let ended = self.mint().clock().wall_of(now);
            self.drain_more(destination, ended).await;
        }
        Ok(claims)
    }

    /// Claims, and the destination of which what waits is to be given up, if there is one.
    async fn try_claim_deliveries(
        &self,
        (now, lease_until): (Timestamp, Timestamp),
        limit: usize,
        busy: &str,
    ) -> Result<(Vec<Claim>, Option<Uuid>), StoreError> {
        let mut tx = self.begin().await?;
        let waiting = sql(DRAINING).on_postgres(DRAINING_BESIDE_OTHERS).fetch_one(tx.on()).await?;
        let waiting = Columns { table: "destinations", row: &waiting };
        // It may have been seen before the gate was passed: `drain_more` looks again.
        let draining = waiting.optional_uuid("draining")?;
        let heads = self.due_heads(&mut tx, now, limit.saturating_mul(4), busy).await?;
        let rows = sql(CLAIM)
            .on_postgres(CLAIM_BESIDE_OTHERS)
            .bind(now)
            .bind(lease_until)
            .bind(count(limit))
            .bind(busy)
            .bind(heads)
            .bind(count(TAKEN_OF_EACH))
            .bind(self.company.dead())
            .bind(self.company.own())
            .fetch_all(tx.on())
            .await?;
        let needed = Needed::load(&mut tx, &rows).await?;
        let mut claims = Vec::with_capacity(rows.len());
        for row in &rows {
            match needed.claim(row) {
                Ok(claim) => claims.push(claim),
                Err(error @ StoreError::Corrupt { .. }) => {
                    self.set_aside(&mut tx, row, &error, now).await?;
                }
                Err(error) => return Err(error),
            }
        }
        let claims = self.probes(&mut tx, claims, (now, lease_until)).await?;
        tx.commit().await?;
        Ok((claims, draining))
    }

    /// Gives claims back that were not begun: they are due again at once, unless somebody else has
    /// claimed them since. A probe that was not made is made by whoever claims next.
    pub async fn release_deliveries(&self, claims: &[Claim]) -> Result<(), StoreError> {
        settled!(self.try_release(claims))
    }

    async fn try_release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        for probe in claims {
            let Some(rested_until) = probe.destination.health.rests_until else { continue };
            // Due again, as it was: else it would rest until the end of this lease.
            sql("UPDATE destinations SET rests_until = $2, prober = 0
                 WHERE id = $1 AND rests_until = (
                     SELECT lease_until FROM deliveries WHERE id = $3 AND fence = $4
                       AND state = 'pending' AND lease_until > 0)")
            .bind(probe.destination.id.0)
            .bind(rested_until)
            .bind(probe.delivery.0)
            .bind(probe.fence)
            .execute(tx.on())
            .await?;
        }
        give_back(&mut tx, claims).await?;
        tx.commit().await
    }

    /// Destinations that have rested are tried by one delivery each, and rest again meanwhile. What was
    /// claimed for one that somebody else is trying is given back; so is all but one, or all, of what was
    /// claimed for one whose rest began, or ended, beside this transaction.
    async fn probes(
        &self,
        tx: &mut Transaction,
        mut claims: Vec<Claim>,
        (now, until): (Timestamp, Timestamp),
    ) -> Result<Vec<Claim>, StoreError> {
        // UUIDv7: the order in which they were made.
        claims.sort_by_key(|claim| claim.delivery);
        let rested: BTreeMap<DestinationId, Timestamp> = claims
            .iter()
            .filter_map(|claim| Some((claim.destination.id, claim.destination.health.rests_until?)))
            .collect();
        for (destination, rested_until) in rested {
            let taken = sql("UPDATE destinations SET rests_until = $2, prober = $6
                     WHERE id = $1 AND rests_until = $3
                       AND (rests_until <= $4 OR prober IN (SELECT value FROM json_each($5)))")
            .on_postgres(
                "UPDATE destinations SET rests_until = $2, prober = $6
                     WHERE id = $1 AND rests_until = $3
                       AND (rests_until <= $4 OR prober IN (
                           SELECT CAST(value AS BIGINT)
                           FROM json_array_elements_text(CAST($5 AS JSON))))",
            )
            .bind(destination.0)
            .bind(until)
            .bind(rested_until)
            .bind(now)
            .bind(self.company.dead())
            .bind(self.company.own())
            .execute(tx.on())
            .await?
                > 0;
            let mut kept = usize::from(taken);
            let (others, ours) = claims.into_iter().partition(|claim: &Claim| {
                let of_it = claim.destination.id == destination;
                let keep = !of_it || kept > 0;
                kept -= usize::from(of_it && keep);
                !keep
            });
            claims = ours;
            let others: Vec<Claim> = others;
            give_back(tx, &others).await?;
        }
        Ok(claims)
    }

    /// When the next delivery is due that nobody is making.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let row = sql("SELECT MIN(next_attempt_at) AS due FROM deliveries
                       WHERE state = 'pending' AND lease_until <= $1")
        .bind(now)
        .fetch_one(self.reader())
        .await?;
        Columns { table: "deliveries", row: &row }.optional_time("due")
    }

    /// A delivery that cannot be read is put off, and in the end kept as exhausted, each time with
    /// the reason: left in the queue it would fail every claim, and nothing would be delivered any
    /// more; given up at once, it would be lost to a gateway that is only older than another.
    async fn set_aside(
        &self,
        tx: &mut Transaction,
        row: &Row,
        error: &StoreError,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // An id that cannot be read is possible in the file of SQLite, which knows a row by number.
        let place: Value = match row {
            Row::Sqlite(_) => row.get::<i64>("place")?.into(),
            Row::Postgres(_) => row.get::<Uuid>("place")?.into(),
        };
        tracing::error!(delivery.row = ?place, %error, "a delivery cannot be read: put off");
        let ended = self.mint().clock().wall_of(now);
        sql("INSERT INTO attempts (id, delivery_id, at, latency_ms, response, error, organization_id)
             SELECT $2, id, $3, 0, $4, 'the gateway could not read this event', organization_id
             FROM deliveries WHERE rowid = $1")
        .on_postgres(
            "INSERT INTO attempts (id, delivery_id, at, latency_ms, response, error, organization_id)
             SELECT $2, id, $3, 0, $4, 'the gateway could not read this event', organization_id
             FROM deliveries WHERE id = $1",
        )
        .bind(place.clone())
        .bind(self.mint().uuid())
        .bind(ended)
        .bind([].as_slice())
        .execute(tx.on())
        .await?;
        sql("UPDATE deliveries SET lease_until = 0, attempts = attempts + 1,
                 next_attempt_at = CASE WHEN attempts + 1 >= $3 THEN $4 ELSE $2 END,
                 state = CASE WHEN attempts + 1 >= $3 THEN 'exhausted' ELSE state END
             WHERE rowid = $1")
        .on_postgres(
            "UPDATE deliveries SET lease_until = 0, attempts = attempts + 1,
                 next_attempt_at = CASE WHEN attempts + 1 >= $3 THEN $4 ELSE $2 END,
                 state = CASE WHEN attempts + 1 >= $3 THEN 'exhausted' ELSE state END
             WHERE id = $1",
        )
        .bind(place)
        .bind(now.plus(UNREADABLE_PAUSE))
        .bind(UNREADABLE_TRIES)
        .bind(ended)
        .execute(tx.on())
        .await?;
        Ok(())
    }
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

async fn give_back(tx: &mut Transaction, claims: &[Claim]) -> Result<(), StoreError> {
    let rows = claims.iter().map(|claim| vec![claim.delivery.0.into(), claim.fence.into()]);
    many(
        "WITH given (delivery, claimed) AS ({rows})
         UPDATE deliveries SET lease_until = 0 FROM given
         WHERE deliveries.id = given.delivery AND fence = given.claimed",
        rows.collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}
