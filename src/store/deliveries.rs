//! The outgoing work: events, their deliveries, claims and attempts.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::db::{Store, Transaction};
use super::destinations::{destination, retire};
use super::error::StoreError;
use super::messages::message;
use super::row::{Columns, number};
use crate::domain::clock::Timestamp;
use crate::domain::contact::Contact;
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
        WHERE hex(destination) NOT IN (SELECT value FROM json_each($4))
          AND due.rowid IN (
              SELECT rowid FROM deliveries INDEXED BY deliveries_waiting
              WHERE state = 'pending' AND destination_id = destination
                AND next_attempt_at <= $1 AND lease_until <= $1
              ORDER BY next_attempt_at, id LIMIT $3)
        ORDER BY due.next_attempt_at, due.id LIMIT $3)
    RETURNING rowid, id, event_id, destination_id, attempts, fence";

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
        let busy: Vec<String> =
            busy.iter().map(|id| id.0.as_simple().to_string().to_uppercase()).collect();
        let mut tx = self.begin().await?;
        let rows = sqlx::query(CLAIM)
            .bind(now.millis())
            .bind(lease_until.millis())
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .bind(serde_json::Value::from(busy).to_string())
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
        let mut tx = self.begin().await?;
        for claim in claims {
            sqlx::query("UPDATE deliveries SET lease_until = 0 WHERE id = $1 AND fence = $2")
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
        let (state, next) = match outcome {
            Outcome::Delivered => (State::Delivered, attempt.at),
            Outcome::RetryAt(at) => (State::Pending, at),
            Outcome::Exhausted => (State::Exhausted, attempt.at),
            Outcome::Gone => (State::Cancelled, attempt.at),
        };
        let mut tx = self.begin().await?;
        let done = sqlx::query(
            "UPDATE deliveries
             SET state = $3, next_attempt_at = $4, lease_until = 0, attempts = attempts + 1,
                 fence = fence + 1
             WHERE id = $1 AND fence = $2 AND state = 'pending'",
        )
        .bind(claim.delivery.0)
        .bind(claim.fence)
        .bind(state.as_str())
        .bind(next.millis())
        .execute(tx.on())
        .await?;
        if done.rows_affected() == 0 {
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
        let due: Option<i64> = sqlx::query_scalar(
            "SELECT MIN(next_attempt_at) FROM deliveries
             WHERE state = 'pending' AND lease_until <= $1",
        )
        .bind(now.millis())
        .fetch_one(self.reader())
        .await?;
        Ok(due.map(Timestamp::from_millis))
    }

    /// A delivery that cannot be read is kept as exhausted, with the reason: left in the queue it
    /// would fail every claim, and nothing would be delivered any more.
    async fn set_aside(
        &self,
        tx: &mut Transaction,
        row: &SqliteRow,
        error: &StoreError,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let rowid: i64 = row.try_get("rowid")?;
        tracing::error!(delivery.row = rowid, %error, "a delivery cannot be read: set aside");
        sqlx::query(
            "INSERT INTO attempts (id, delivery_id, at, latency_ms, response, error)
             SELECT $2, id, $3, 0, x'', 'the gateway could not read this event'
             FROM deliveries WHERE rowid = $1",
        )
        .bind(rowid)
        .bind(self.mint().uuid())
        .bind(now.millis())
        .execute(tx.on())
        .await?;
        sqlx::query("UPDATE deliveries SET state = 'exhausted', lease_until = 0 WHERE rowid = $1")
            .bind(rowid)
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
        sqlx::query(
            "INSERT INTO audit (id, at, actor, account_id, action, detail)
             VALUES ($1, $2, 'receiver', $3, 'webhook.removed', $4)",
        )
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
    sqlx::query(
        "INSERT INTO events (id, name, at, partner_id, reseller_id, organization_id, agent_id,
                             message_id, contact_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    )
    .bind(event.id.0)
    .bind(event.name.as_str())
    .bind(event.at.millis())
    .bind(number(lineage.partner))
    .bind(number(lineage.reseller))
    .bind(number(lineage.organization))
    .bind(number(lineage.agent))
    .bind(event.message.map(|id| id.0))
    .bind(event.contact.map(ContactId::get))
    .execute(tx.on())
    .await?;
    let listeners = sqlx::query(
        "SELECT id FROM destinations
         WHERE account_id IN ($1, $2, $3, $4) AND category = $5 AND removed_at IS NULL",
    )
    .bind(number(lineage.partner))
    .bind(number(lineage.reseller))
    .bind(number(lineage.organization))
    .bind(number(lineage.agent))
    .bind(event.name.category().as_str())
    .fetch_all(tx.on())
    .await?;
    for listener in listeners {
        let destination: uuid::Uuid = listener.try_get("id")?;
        sqlx::query(
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
    sqlx::query(
        "INSERT INTO attempts (id, delivery_id, at, latency_ms, status, response, error)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(attempt.id.0)
    .bind(delivery.0)
    .bind(attempt.at.millis())
    .bind(i64::from(attempt.latency_ms))
    .bind(attempt.status.map(i64::from))
    .bind(&attempt.response)
    .bind(&attempt.error)
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Gathers what an attempt at a claimed delivery needs.
async fn load(tx: &mut Transaction, row: &SqliteRow) -> Result<Claim, StoreError> {
    let columns = Columns { table: "deliveries", row };
    let destination_row = sqlx::query("SELECT * FROM destinations WHERE id = $1")
        .bind(columns.uuid("destination_id")?)
        .fetch_optional(tx.on())
        .await?
        .ok_or_else(|| columns.corrupt("its destination is missing"))?;
    let event_row = sqlx::query("SELECT * FROM events WHERE id = $1")
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
        (Category::Contact, _, Some(contact)) => {
            let row = sqlx::query("SELECT * FROM contacts WHERE id = $1")
                .bind(contact.get())
                .fetch_optional(tx.on())
                .await?;
            row.as_ref().map(contact_of).transpose()?.map(Subject::Contact)
        }
        (_, Some(id), _) => {
            let row = sqlx::query("SELECT * FROM messages WHERE id = $1")
                .bind(id.0)
                .fetch_optional(tx.on())
                .await?;
            row.as_ref().map(message).transpose()?.map(|found| Subject::Message(Box::new(found)))
        }
        _ => None,
    };
    Ok(found.unwrap_or(Subject::Erased))
}

fn event(row: &SqliteRow) -> Result<Event, StoreError> {
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

fn contact_of(row: &SqliteRow) -> Result<Contact, StoreError> {
    let columns = Columns { table: "contacts", row };
    Ok(Contact {
        id: columns.contact("id")?,
        organization: columns.account("organization_id")?,
        address: columns.address("address")?,
        name: columns.optional_text("name")?,
        first_seen: columns.time("first_seen")?,
        last_seen: columns.time("last_seen")?,
    })
}
