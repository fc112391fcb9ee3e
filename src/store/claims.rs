//! Which deliveries a dispatcher works on: claimed under a lease and a fence, loaded with what an
//! attempt needs, given back if they were not begun.

use std::collections::HashMap;

use uuid::Uuid;

use super::db::{Store, Transaction, settled};
use super::destination_row::destination;
use super::destinations;
use super::error::StoreError;
use super::many::many;
use super::row::Columns;
use super::sql::{Row, Value, sql};
use super::subjects::{Subjects, by_id};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Claim;
use crate::domain::destination::Destination;
use crate::domain::id::{DeliveryId, DestinationId};

/// A delivery that this gateway cannot read (another version wrote it, or it is damaged) is looked
/// at again after this, in milliseconds, for as many times; then it is kept as exhausted.
const UNREADABLE_PAUSE: i64 = 3_600_000;
const UNREADABLE_TRIES: i64 = 48;

/// Steps from destination to destination and takes the longest due of each, so that the backlog of
/// one that is busy or removed, however long, is passed over in one step.
const CLAIM: &str = "
    UPDATE deliveries SET lease_until = $2, fence = fence + 1
    WHERE rowid IN (
        WITH RECURSIVE waiting (destination) AS (
            SELECT MIN(destination_id) FROM deliveries INDEXED BY deliveries_waiting
            WHERE state = 'pending'
            UNION ALL
            SELECT (SELECT MIN(destination_id) FROM deliveries INDEXED BY deliveries_waiting
                    WHERE state = 'pending' AND destination_id > destination)
            FROM waiting WHERE destination IS NOT NULL)
        SELECT due.rowid FROM waiting CROSS JOIN deliveries AS due
        WHERE lower(hex(destination)) NOT IN (SELECT value FROM json_each($4))
          AND NOT EXISTS (SELECT 1 FROM destinations WHERE id = destination AND draining = 1)
          AND due.rowid IN (
              SELECT rowid FROM deliveries INDEXED BY deliveries_waiting
              WHERE state = 'pending' AND destination_id = destination
                AND next_attempt_at <= $1 AND lease_until <= $1
              ORDER BY next_attempt_at, id LIMIT $3)
        ORDER BY due.next_attempt_at, due.id LIMIT $3)
    RETURNING rowid AS place, id, event_id, destination_id, attempts, fence";

/// The same beside other gateways: what one of them is claiming at this moment is skipped, so more
/// is looked at than is taken.
const CLAIM_BESIDE_OTHERS: &str = "
    WITH RECURSIVE waiting (destination) AS (
        (SELECT destination_id FROM deliveries WHERE state = 'pending'
         ORDER BY destination_id LIMIT 1)
        UNION ALL
        SELECT (SELECT destination_id FROM deliveries
                WHERE state = 'pending' AND destination_id > destination
                ORDER BY destination_id LIMIT 1)
        FROM waiting WHERE destination IS NOT NULL),
    due AS (
        SELECT first.id, first.next_attempt_at
        FROM waiting CROSS JOIN LATERAL (
            SELECT id, next_attempt_at FROM deliveries
            WHERE state = 'pending' AND destination_id = destination
              AND next_attempt_at <= $1 AND lease_until <= $1
            ORDER BY next_attempt_at, id LIMIT $3 * 4) AS first
        WHERE destination NOT IN
              (SELECT CAST(value AS UUID) FROM json_array_elements_text(CAST($4 AS JSON)))
          AND NOT EXISTS (SELECT 1 FROM destinations WHERE id = destination AND draining = 1)
        ORDER BY first.next_attempt_at, first.id LIMIT $3 * 4),
    taken AS (
        SELECT deliveries.id FROM due JOIN deliveries USING (id)
        WHERE deliveries.state = 'pending' AND deliveries.next_attempt_at <= $1
          AND deliveries.lease_until <= $1
        ORDER BY due.next_attempt_at, due.id LIMIT $3
        FOR UPDATE OF deliveries SKIP LOCKED)
    UPDATE deliveries SET lease_until = $2, fence = fence + 1
    WHERE id IN (SELECT id FROM taken)
    RETURNING id AS place, id, event_id, destination_id, attempts, fence";

impl Store {
    /// Claims up to `limit` deliveries that are due, none of them for a destination in `busy`,
    /// until `lease_until`. A claim whose lease has ended is due again. Deliveries for removed
    /// destinations are not claimed; some of them are cancelled on the way.
    pub async fn claim_deliveries(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: usize,
        busy: &[DestinationId],
    ) -> Result<Vec<Claim>, StoreError> {
        let busy: Vec<String> = busy.iter().map(|id| id.0.as_simple().to_string()).collect();
        let busy = serde_json::Value::from(busy).to_string();
        settled!(self.try_claim_deliveries(now, lease_until, limit, &busy))
    }

    async fn try_claim_deliveries(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: usize,
        busy: &str,
    ) -> Result<Vec<Claim>, StoreError> {
        let mut tx = self.begin().await?;
        destinations::drain(&mut tx, self.cancel_at_once()).await?;
        let rows = sql(CLAIM)
            .on_postgres(CLAIM_BESIDE_OTHERS)
            .bind(now)
            .bind(lease_until)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .bind(busy)
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
        tx.commit().await?;
        // UUIDv7: the order in which they were made.
        claims.sort_by_key(|claim| claim.delivery);
        Ok(claims)
    }

    /// Gives claims back that were not begun: they are due again at once, unless somebody else has
    /// claimed them since.
    pub async fn release_deliveries(&self, claims: &[Claim]) -> Result<(), StoreError> {
        settled!(self.try_release(claims))
    }

    async fn try_release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        let rows = claims.iter().map(|claim| vec![claim.delivery.0.into(), claim.fence.into()]);
        many(
            "WITH given (delivery, claimed) AS ({rows})
             UPDATE deliveries SET lease_until = 0 FROM given
             WHERE deliveries.id = given.delivery AND fence = given.claimed",
            rows.collect(),
        )
        .execute(tx.on())
        .await?;
        tx.commit().await
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
        sql("INSERT INTO attempts (id, delivery_id, at, latency_ms, response, error)
             SELECT $2, id, $3, 0, $4, 'the gateway could not read this event'
             FROM deliveries WHERE rowid = $1")
        .on_postgres(
            "INSERT INTO attempts (id, delivery_id, at, latency_ms, response, error)
             SELECT $2, id, $3, 0, $4, 'the gateway could not read this event'
             FROM deliveries WHERE id = $1",
        )
        .bind(place.clone())
        .bind(self.mint().uuid())
        .bind(now)
        .bind([].as_slice())
        .execute(tx.on())
        .await?;
        sql("UPDATE deliveries SET lease_until = 0, next_attempt_at = $2, attempts = attempts + 1,
                 state = CASE WHEN attempts + 1 >= $3 THEN 'exhausted' ELSE state END
             WHERE rowid = $1")
        .on_postgres(
            "UPDATE deliveries SET lease_until = 0, next_attempt_at = $2, attempts = attempts + 1,
                 state = CASE WHEN attempts + 1 >= $3 THEN 'exhausted' ELSE state END
             WHERE id = $1",
        )
        .bind(place)
        .bind(now.millis().saturating_add(UNREADABLE_PAUSE))
        .bind(UNREADABLE_TRIES)
        .execute(tx.on())
        .await?;
        Ok(())
    }
}

/// What attempts at claimed deliveries need; each row as it could be read.
struct Needed {
    destinations: HashMap<Uuid, Result<Destination, StoreError>>,
    subjects: Subjects,
}

impl Needed {
    async fn load(tx: &mut Transaction, rows: &[Row]) -> Result<Self, StoreError> {
        let ids = |column: &'static str| {
            // An id that cannot be read is no reason to fail the others: its claim is put off.
            rows.iter().filter_map(move |row| row.get::<Uuid>(column).ok())
        };
        let found = destinations::by_ids(tx.on(), ids("destination_id")).await?;
        let destinations = by_id(&found, destination);
        let subjects = Subjects::load(tx.on(), ids("event_id")).await?;
        Ok(Self { destinations, subjects })
    }

    fn claim(&self, row: &Row) -> Result<Claim, StoreError> {
        let columns = Columns { table: "deliveries", row };
        let missing = |what: &str| columns.corrupt(format!("its {what} is missing"));
        let destination = self.destinations.get(&columns.uuid("destination_id")?);
        let destination = destination.cloned().ok_or_else(|| missing("destination"))??;
        let event = columns.uuid("event_id")?;
        let (event, subject) = self.subjects.of(event)?.ok_or_else(|| missing("event"))?;
        Ok(Claim {
            delivery: DeliveryId(columns.uuid("id")?),
            attempts: u32::try_from(columns.integer("attempts")?)
                .map_err(|e| columns.corrupt(e))?,
            fence: columns.integer("fence")?,
            destination,
            subject,
            event,
        })
    }
}
