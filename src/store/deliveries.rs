//! The outgoing work: events, their deliveries, claims and attempts.

use super::contacts::contact;
use super::db::{Store, Transaction, settled};
use super::destinations::{destination, retire};
use super::error::StoreError;
use super::messages::message;
use super::row::Columns;
use super::sql::{Row, Value, sql};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Attempt, Claim, Outcome, State, Subject};
use crate::domain::event::{Category, Event};
use crate::domain::id::{ContactId, DeliveryId, DestinationId, EventId, MessageId, Mint};

/// Steps from destination to destination and takes the longest due of each, so that the backlog of
/// one that is busy, however long, is passed over in one step.
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
    /// until `lease_until`. A claim whose lease has ended is due again.
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
        let rows = sql(CLAIM)
            .on_postgres(CLAIM_BESIDE_OTHERS)
            .bind(now)
            .bind(lease_until)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .bind(busy)
            .fetch_all(tx.on())
            .await?;
        let mut claims = Vec::with_capacity(rows.len());
        for row in &rows {
            match load(&mut tx, row).await {
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
        for claim in claims {
            sql("UPDATE deliveries SET lease_until = 0 WHERE id = $1 AND fence = $2")
                .bind(claim.delivery.0)
                .bind(claim.fence)
                .execute(tx.on())
                .await?;
        }
        tx.commit().await
    }

    /// Records an attempt and what follows from it, unless the claim was taken over meanwhile;
    /// answers whether it was recorded.
    pub async fn finish_delivery(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<bool, StoreError> {
        settled!(self.try_finish(claim, attempt, outcome))
    }

    async fn try_finish(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<bool, StoreError> {
        let (state, next) = match outcome {
            Outcome::Delivered => (State::Delivered, attempt.at),
            Outcome::RetryAt(at) => (State::Pending, at),
            Outcome::Exhausted => (State::Exhausted, attempt.at),
            Outcome::Gone => (State::Cancelled, attempt.at),
        };
        let mut tx = self.begin().await?;
        if outcome == Outcome::Gone {
            // First the destination, then its deliveries, as whoever removes it does.
            sql("SELECT id FROM destinations WHERE id = $1")
                .locking("FOR NO KEY UPDATE")
                .bind(claim.destination.id.0)
                .fetch_optional(tx.on())
                .await?;
        }
        let done = sql("UPDATE deliveries
             SET state = $3, next_attempt_at = $4, lease_until = 0, attempts = attempts + 1,
                 fence = fence + 1
             WHERE id = $1 AND fence = $2 AND state = 'pending'")
        .bind(claim.delivery.0)
        .bind(claim.fence)
        .bind(state.as_str())
        .bind(next.millis())
        .execute(tx.on())
        .await?;
        if done == 0 {
            return Ok(false);
        }
        insert_attempt(&mut tx, claim.delivery, attempt).await?;
        if outcome == Outcome::Gone {
            retire(&mut tx, claim.destination.id, attempt.at).await?;
            self.note_gone(&mut tx, claim, attempt.at).await?;
        }
        tx.commit().await?;
        Ok(true)
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

    /// A delivery that cannot be read is kept as exhausted, with the reason: left in the queue it
    /// would fail every claim, and nothing would be delivered any more.
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
            Row::Postgres(_) => row.get::<uuid::Uuid>("place")?.into(),
        };
        tracing::error!(delivery.row = ?place, %error, "a delivery cannot be read: set aside");
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
        sql("UPDATE deliveries SET state = 'exhausted', lease_until = 0 WHERE rowid = $1")
            .on_postgres("UPDATE deliveries SET state = 'exhausted', lease_until = 0 WHERE id = $1")
            .bind(place)
            .execute(tx.on())
            .await?;
        Ok(())
    }

    /// 410 takes a destination out for good, so who looks for it later must find why.
    async fn note_gone(
        &self,
        tx: &mut Transaction,
        claim: &Claim,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let detail = serde_json::json!({
            "webhookId": claim.destination.id.to_string(),
            "type": claim.destination.category.as_str(),
            "reason": "the receiver answered 410",
        });
        sql("INSERT INTO audit (id, at, actor, account_id, action, detail)
             VALUES ($1, $2, 'receiver', $3, 'webhook.removed', $4)")
        .bind(self.mint().uuid())
        .bind(at.millis())
        .bind(claim.destination.account.get())
        .bind(detail.to_string())
        .execute(tx.on())
        .await?;
        Ok(())
    }
}

/// Writes an event and one delivery for each destination that wants it: those of its category
/// that belong to its account or to an ancestor.
pub(super) async fn announce(
    tx: &mut Transaction,
    event: &Event,
    mint: &Mint,
) -> Result<(), StoreError> {
    let lineage = event.lineage;
    sql("INSERT INTO events (id, name, at, partner_id, reseller_id, organization_id, agent_id,
                             message_id, contact_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)")
    .bind(event.id.0)
    .bind(event.name.as_str())
    .bind(event.at.millis())
    .bind(lineage.partner)
    .bind(lineage.reseller)
    .bind(lineage.organization)
    .bind(lineage.agent)
    .bind(event.message.map(|id| id.0))
    .bind(event.contact.map(ContactId::get))
    .execute(tx.on())
    .await?;
    let listeners = sql("SELECT id FROM destinations
         WHERE account_id IN ($1, $2, $3, $4) AND category = $5 AND removed_at IS NULL
         ORDER BY id")
    // One that is being removed gets nothing more, and one that gets something is not removed
    // before that can be cancelled with the rest.
    .locking("FOR SHARE")
    .bind(lineage.partner)
    .bind(lineage.reseller)
    .bind(lineage.organization)
    .bind(lineage.agent)
    .bind(event.name.category().as_str())
    .fetch_all(tx.on())
    .await?;
    for listener in listeners {
        let destination: uuid::Uuid = listener.get("id")?;
        sql(
            "INSERT INTO deliveries (id, event_id, destination_id, state, next_attempt_at, created_at)
             VALUES ($1, $2, $3, 'pending', $4, $4)",
        )
        .bind(mint.uuid())
        .bind(event.id.0)
        .bind(destination)
        .bind(event.at.millis())
        .execute(tx.on())
        .await?;
    }
    Ok(())
}

async fn insert_attempt(
    tx: &mut Transaction,
    delivery: DeliveryId,
    attempt: &Attempt,
) -> Result<(), StoreError> {
    sql("INSERT INTO attempts (id, delivery_id, at, latency_ms, status, response, error)
         VALUES ($1, $2, $3, $4, $5, $6, $7)")
    .bind(attempt.id.0)
    .bind(delivery.0)
    .bind(attempt.at.millis())
    .bind(i64::from(attempt.latency_ms))
    .bind(attempt.status.map(i64::from))
    .bind(attempt.response.as_slice())
    .bind(attempt.error.clone())
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Gathers what an attempt at a claimed delivery needs.
async fn load(tx: &mut Transaction, row: &Row) -> Result<Claim, StoreError> {
    let columns = Columns { table: "deliveries", row };
    let destination_row = sql("SELECT * FROM destinations WHERE id = $1")
        .bind(columns.uuid("destination_id")?)
        .fetch_optional(tx.on())
        .await?
        .ok_or_else(|| columns.corrupt("its destination is missing"))?;
    let event_row = sql("SELECT * FROM events WHERE id = $1")
        .bind(columns.uuid("event_id")?)
        .fetch_optional(tx.on())
        .await?
        .ok_or_else(|| columns.corrupt("its event is missing"))?;
    let event = event(&event_row)?;
    Ok(Claim {
        delivery: DeliveryId(columns.uuid("id")?),
        attempts: u32::try_from(columns.integer("attempts")?).map_err(|e| columns.corrupt(e))?,
        fence: columns.integer("fence")?,
        destination: destination(&destination_row)?,
        subject: subject(tx, &event).await?,
        event,
    })
}

async fn subject(tx: &mut Transaction, event: &Event) -> Result<Subject, StoreError> {
    let found = match (event.name.category(), event.message, event.contact) {
        (Category::Contact, _, Some(id)) => {
            let row = sql("SELECT * FROM contacts WHERE id = $1")
                .bind(id.get())
                .fetch_optional(tx.on())
                .await?;
            row.as_ref().map(contact).transpose()?.map(Subject::Contact)
        }
        (_, Some(id), _) => {
            let row = sql("SELECT * FROM messages WHERE id = $1")
                .bind(id.0)
                .fetch_optional(tx.on())
                .await?;
            row.as_ref().map(message).transpose()?.map(|found| Subject::Message(Box::new(found)))
        }
        _ => None,
    };
    Ok(found.unwrap_or(Subject::Erased))
}

fn event(row: &Row) -> Result<Event, StoreError> {
    let columns = Columns { table: "events", row };
    Ok(Event {
        id: EventId(columns.uuid("id")?),
        name: columns.word("name")?,
        at: columns.time("at")?,
        lineage: columns.lineage()?,
        message: columns.optional_uuid("message_id")?.map(MessageId),
        contact: columns.optional_integer("contact_id")?.and_then(ContactId::new),
    })
}
