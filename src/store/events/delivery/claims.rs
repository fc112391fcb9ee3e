//! Claims of deliveries: taken under a lease and a fence, loaded with everything that an attempt
//! needs, and given back if no attempt was begun.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use uuid::Uuid;

use super::destination_row::{COLUMNS, destination};
use super::event_context::{Subjects, read_by_id};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Claim, TAKEN_OF_EACH};
use crate::domain::destination::Destination;
use crate::domain::id::{DeliveryId, DestinationId, EventId};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, Value, sql};
use crate::store::engine::writer::Flush;
use crate::store::events::event_row::event_of;

/// Pause for a delivery that this gateway cannot read: another version wrote it, or it is damaged.
/// After `UNREADABLE_TRIES` attempts such a delivery is exhausted.
pub const UNREADABLE_PAUSE: Duration = Duration::from_hours(1);
const UNREADABLE_TRIES: i64 = 48;

/// Steps from destination to destination, and takes from each the deliveries that have been due
/// longest (fewer if many destinations wait). A destination that is busy, rests or is draining
/// costs one step, however long its backlog. Ordered destinations: takes the heads of rooms that
/// `ordered_queue.rs` found. Destinations that have rested: takes one delivery, as a probe.
/// (`LIMIT $3 + 0`: with a bare `$3`, SQLite plans the statement anew for each value.)
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

/// Claims on PostgreSQL. Skips rows that another gateway is claiming, and so reads more than it
/// takes.
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

/// Finds a destination whose pending deliveries are to be given up.
const DRAINING: &str = "
    SELECT (SELECT id FROM destinations WHERE draining = 1 ORDER BY id LIMIT 1) AS draining";

/// Also passes the gate of rooms (see `gates::close_rooms`): until the claiming transaction ends,
/// no delivery is put before others in its room.
const DRAINING_BESIDE_OTHERS: &str = "
    SELECT (SELECT id FROM destinations WHERE draining = 1 ORDER BY id LIMIT 1) AS draining,
           CAST(pg_advisory_xact_lock_shared(hashtextextended('rooms', 0)) AS TEXT) AS passed";

impl Base {
    /// Claims up to `limit` deliveries that are due at `now`, until `lease_until` (both in steady
    /// time). A claim is due again when its lease has ended or its holder is dead, even if no
    /// caller ever got it. Claims nothing for destinations that are in `busy`, rest, are disabled
    /// or were removed; only the head of each room of an ordered destination; and one delivery, as
    /// a probe, of a destination that has rested. Works on one replay before, and on one draining
    /// destination after; errors of these are logged. Events are read behind the transaction, so that
    /// no commit waits for them: one that is erased meanwhile is read as erased.
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: usize,
        busy: &[DestinationId],
    ) -> Result<Vec<Claim>, StoreError> {
        let busy: Vec<String> = busy.iter().map(|id| id.0.as_simple().to_string()).collect();
        let busy = serde_json::Value::from(busy).to_string();
        // First, in its own transaction: no lease runs meanwhile, and an error loses no claim.
        self.work_on_a_replay(now).await;
        // A claim that is lost with the machine is lost with its attempt.
        let (taken, draining) = transact!(self, Flush::Later, async |tx| {
            let row = sql(DRAINING).on_postgres(DRAINING_BESIDE_OTHERS).fetch_one(tx.on()).await?;
            // This may have been read before the gate was passed: `drain_more` checks again.
            let draining =
                Columns { table: "destinations", row: &row }.optional_uuid("draining")?;
            let heads = self.due_heads(&mut tx, now, limit.saturating_mul(4), &busy).await?;
            let rows = sql(CLAIM)
                .on_postgres(CLAIM_BESIDE_OTHERS)
                .bind(now)
                .bind(lease_until)
                .bind(count(limit))
                .bind(busy.as_str())
                .bind(heads)
                .bind(count(TAKEN_OF_EACH))
                .bind(self.gateway_registry.dead())
                .bind(self.gateway_registry.own())
                .fetch_all(tx.on())
                .await?;
            let destinations = destinations_of(&mut tx, &rows).await?;
            let mut taken = Vec::with_capacity(rows.len());
            for row in &rows {
                match Taken::read(row, &destinations) {
                    Ok(one) => taken.push(one),
                    Err(error @ StoreError::Corrupt { .. }) => {
                        self.postpone_unreadable(&mut tx, place_of(row)?, &error, now).await?;
                    }
                    Err(error) => return Err(error),
                }
            }
            let taken = self.keep_one_probe_each(&mut tx, taken, now, lease_until).await?;
            tx.commit().await?;
            Ok((taken, draining))
        })?;
        let claims = match self.load_claims(&taken, now).await {
            Ok(claims) => claims,
            Err(error) => {
                // Where this fails, too, they are due again when their lease ends.
                let _failed = self.release(taken.iter().map(Taken::held).collect()).await;
                return Err(error);
            }
        };
        if let Some(destination) = draining {
            // The end of a delivery is a date of the wall clock.
            let ended = self.mint().clock().wall_of(now);
            self.drain_more(destination, ended).await;
        }
        Ok(claims)
    }

    /// Gives back claims that were not begun: they are due again at once, unless another claim has
    /// taken them since. A probe that was not made is left to the next claim.
    pub async fn release_deliveries(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let held = claims.iter().map(|claim| Held {
            delivery: claim.delivery,
            fence: claim.fence,
            destination: claim.destination.id,
            rested_until: claim.destination.health.rests_until,
        });
        self.release(held.collect()).await
    }

    async fn release(&self, held: Vec<Held>) -> Result<(), StoreError> {
        transact!(self, Flush::Later, async |tx| {
            for one in &held {
                one.leave_probe(&mut tx).await?;
            }
            give_back(&mut tx, held.iter().map(|one| (one.delivery, one.fence))).await?;
            tx.commit().await
        })
    }

    /// Loads the events of claims. Postpones those that cannot be read: they fail no other, and a
    /// probe among them is left to the next claim.
    async fn load_claims(&self, taken: &[Taken], now: Timestamp) -> Result<Vec<Claim>, StoreError> {
        let events: Vec<EventId> = taken.iter().map(|one| one.event).collect();
        let subjects = Subjects::load(self, &events).await?;
        let mut claims = Vec::with_capacity(taken.len());
        for one in taken {
            match one.claim(&subjects) {
                Ok(claim) => claims.push(claim),
                Err(error @ StoreError::Corrupt { .. }) => transact!(self, async |tx| {
                    // While the claim still shows that the rest is this one's.
                    one.held().leave_probe(&mut tx).await?;
                    // Unless another claim has taken it since.
                    let held = sql("SELECT rowid AS place FROM deliveries
                                    WHERE id = $1 AND fence = $2 AND state = 'pending'")
                    .on_postgres(
                        "SELECT id AS place FROM deliveries
                         WHERE id = $1 AND fence = $2 AND state = 'pending' FOR UPDATE",
                    )
                    .bind(one.delivery.0)
                    .bind(one.fence)
                    .fetch_optional(tx.on())
                    .await?;
                    if let Some(row) = held {
                        self.postpone_unreadable(&mut tx, place_of(&row)?, &error, now).await?;
                    }
                    tx.commit().await
                })?,
                Err(error) => return Err(error),
            }
        }
        Ok(claims)
    }

    /// Keeps one claim, the probe, of each destination that has rested, and lets the destination
    /// rest until the lease ends. Gives back its other claims; also the probe, if the rest has
    /// changed since it was read, for example because another gateway probes.
    async fn keep_one_probe_each(
        &self,
        tx: &mut Transaction,
        mut taken: Vec<Taken>,
        now: Timestamp,
        lease_until: Timestamp,
    ) -> Result<Vec<Taken>, StoreError> {
        // UUIDv7: oldest first.
        taken.sort_by_key(|one| one.delivery);
        let rested: BTreeMap<DestinationId, Timestamp> = taken
            .iter()
            .filter_map(|one| Some((one.destination.id, one.destination.health.rests_until?)))
            .collect();
        let dead = if tx.has_concurrent_writers() {
            "SELECT CAST(value AS BIGINT) FROM json_array_elements_text(CAST($5 AS JSON))"
        } else {
            "SELECT value FROM json_each($5)"
        };
        for (destination, rested_until) in rested {
            let take_probe = format!(
                "UPDATE destinations SET rests_until = $2, prober = $6
                 WHERE id = $1 AND rests_until = $3 AND (rests_until <= $4 OR prober IN ({dead}))"
            );
            let probes = Statement::of(take_probe.into())
                .bind(destination.0)
                .bind(lease_until)
                .bind(rested_until)
                .bind(now)
                .bind(self.gateway_registry.dead())
                .bind(self.gateway_registry.own())
                .execute(tx.on())
                .await?;
            let mut may_keep = probes > 0;
            let not_kept = |one: &mut Taken| {
                one.destination.id == destination && !std::mem::take(&mut may_keep)
            };
            let others: Vec<Taken> = taken.extract_if(.., not_kept).collect();
            give_back(tx, others.iter().map(Taken::key)).await?;
        }
        Ok(taken)
    }

    /// Returns when the next delivery without a running lease is due; None if no delivery waits.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let row = sql("SELECT MIN(next_attempt_at) AS due FROM deliveries
                       WHERE state = 'pending' AND lease_until <= $1")
        .bind(now)
        .fetch_one(self.reader())
        .await?;
        Columns { table: "deliveries", row: &row }.optional_time("due")
    }

    /// Puts off a delivery that cannot be read, and in the end makes it exhausted; records an
    /// attempt each time. Left in the queue, it would fail every claim and stop all deliveries.
    /// Given up at once, it would be lost only because this gateway is older than another one.
    /// The transaction holds its row.
    async fn postpone_unreadable(
        &self,
        tx: &mut Transaction,
        place: Value,
        error: &StoreError,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let key = if tx.has_concurrent_writers() { "id" } else { "rowid" };
        let ended = self.mint().clock().wall_of(now);
        let postpone = format!(
            "UPDATE deliveries SET lease_until = 0, attempts = attempts + 1,
                 next_attempt_at = CASE WHEN attempts + 1 >= $3 THEN $4 ELSE $2 END,
                 state = CASE WHEN attempts + 1 >= $3 THEN 'exhausted' ELSE state END
             WHERE {key} = $1"
        );
        Statement::of(postpone.into())
            .bind(place.clone())
            .bind(now.plus(UNREADABLE_PAUSE))
            .bind(UNREADABLE_TRIES)
            .bind(ended)
            .execute(tx.on())
            .await?;
        tracing::error!(delivery.row = ?place, %error, "cannot read a delivery: postponed");
        let record = format!(
            "INSERT INTO attempts (id, delivery_id, at, latency_ms, response, error, organization_id)
             SELECT $2, id, $3, 0, $4, 'the gateway could not read this event', organization_id
             FROM deliveries WHERE {key} = $1"
        );
        Statement::of(record.into())
            .bind(place)
            .bind(self.mint().uuid())
            .bind(ended)
            .bind([].as_slice())
            .execute(tx.on())
            .await?;
        Ok(())
    }
}

fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Loads the destinations of claimed deliveries.
async fn destinations_of(tx: &mut Transaction, rows: &[Row]) -> Result<Destinations, StoreError> {
    let named = rows.iter().filter_map(|row| row.get::<Uuid>("destination_id").ok());
    let found = many(
        format!(
            "WITH given (destination) AS ({{rows}})
             SELECT {COLUMNS} FROM given CROSS JOIN destinations WHERE id = given.destination"
        ),
        named.map(|id| vec![id.into()]).collect(),
    );
    Ok(read_by_id(&found.fetch_all(tx.on()).await?, destination))
}

type Destinations = HashMap<Uuid, Result<Destination, StoreError>>;

/// A claimed delivery, without its event.
struct Taken {
    delivery: DeliveryId,
    event: EventId,
    attempts: u32,
    fence: i64,
    destination: Destination,
}

impl Taken {
    fn read(row: &Row, destinations: &Destinations) -> Result<Self, StoreError> {
        let columns = Columns { table: "deliveries", row };
        let destination = destinations.get(&columns.uuid("destination_id")?);
        let missing = || columns.corrupt("its destination is missing");
        let attempts = u32::try_from(columns.integer("attempts")?);
        Ok(Self {
            delivery: DeliveryId(columns.uuid("id")?),
            event: event_of(row)?,
            attempts: attempts.map_err(|error| columns.corrupt(error))?,
            fence: columns.integer("fence")?,
            destination: destination.cloned().ok_or_else(missing)??,
        })
    }

    const fn key(&self) -> (DeliveryId, i64) {
        (self.delivery, self.fence)
    }

    const fn held(&self) -> Held {
        Held {
            delivery: self.delivery,
            fence: self.fence,
            destination: self.destination.id,
            rested_until: self.destination.health.rests_until,
        }
    }

    fn claim(&self, subjects: &Subjects) -> Result<Claim, StoreError> {
        let (event, subject) = subjects.find(self.event)?.ok_or_else(|| StoreError::Corrupt {
            table: "deliveries",
            detail: "its event is missing".to_owned(),
        })?;
        Ok(Claim {
            delivery: self.delivery,
            attempts: self.attempts,
            fence: self.fence,
            destination: self.destination.clone(),
            event,
            subject,
        })
    }
}

/// A claim as far as giving it back goes.
struct Held {
    delivery: DeliveryId,
    fence: i64,
    destination: DestinationId,
    /// The end of the rest before this claim, if it is a probe.
    rested_until: Option<Timestamp>,
}

impl Held {
    /// Leaves a probe that was not made to the next claim: restores the end of the rest, which would
    /// last until the end of this lease. Call it while the claim is held.
    async fn leave_probe(&self, tx: &mut Transaction) -> Result<(), StoreError> {
        let Some(rested_until) = self.rested_until else { return Ok(()) };
        sql("UPDATE destinations SET rests_until = $2, prober = 0
             WHERE id = $1 AND rests_until = (
                 SELECT lease_until FROM deliveries WHERE id = $3 AND fence = $4
                   AND state = 'pending' AND lease_until > 0)")
        .bind(self.destination.0)
        .bind(rested_until)
        .bind(self.delivery.0)
        .bind(self.fence)
        .execute(tx.on())
        .await
        .map(drop)
    }
}

/// SQLite can hold an id that cannot be read, but numbers its rows.
fn place_of(row: &Row) -> Result<Value, StoreError> {
    Ok(match row {
        Row::Sqlite(_) => row.get::<i64>("place")?.into(),
        Row::Postgres(_) => row.get::<Uuid>("place")?.into(),
    })
}

async fn give_back(
    tx: &mut Transaction,
    claims: impl Iterator<Item = (DeliveryId, i64)>,
) -> Result<(), StoreError> {
    many(
        "WITH given (delivery, claimed) AS ({rows})
         UPDATE deliveries SET lease_until = 0 FROM given
         WHERE deliveries.id = given.delivery AND fence = given.claimed",
        claims.map(|(delivery, fence)| vec![delivery.0.into(), fence.into()]).collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}
