//! Lists of deliveries with their attempts, and the replay of one delivery.

use std::collections::HashMap;

use uuid::Uuid;

use super::destination_row::{destination, select};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::{TimeRange, Timestamp};
use crate::domain::delivery::{Attempt, State};
use crate::domain::event::{About, EventName};
use crate::domain::id::{AccountId, AttemptId, DeliveryId, DestinationId, EventId, MessageId};
use crate::domain::repeats::LogCause;
use crate::store::base::Base;
use crate::store::base::page::Page;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Value, sql};
use crate::store::events::event_row::{event_of, name_of, named_message, names};
use crate::store::mailbox::messages;
use crate::store::tenancy::audit::{self, Note};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRecord {
    pub id: DeliveryId,
    pub destination: DestinationId,
    pub event: EventId,
    /// None if another version wrote it.
    pub name: Option<EventName>,
    /// The message or contact of the event is gone.
    pub erased: bool,
    pub state: State,
    pub created_at: Timestamp,
    /// By the wall clock; None unless the delivery is pending.
    pub next_attempt_at: Option<Timestamp>,
    /// The newest attempts, oldest first.
    pub attempts: Vec<Attempt>,
}

/// Conditions on the deliveries of a list; absent fields match everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    pub state: Option<State>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
}

/// Result of a request to replay a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redelivery {
    /// It is pending again, from its first attempt on.
    Done,
    /// It was pending already; nothing changed.
    Pending,
    Removed,
    Disabled,
    NoDelivery,
}

/// Reads the `$1` newest attempts of each delivery, which may have many more after replays.
const ATTEMPTS: &str = "
    WITH given (delivery) AS ({rows})
    SELECT id, delivery_id, at, latency_ms, status, response, error
    FROM given CROSS JOIN attempts
    WHERE attempts.rowid IN (SELECT newest.rowid FROM attempts AS newest
                             WHERE newest.delivery_id = given.delivery
                             ORDER BY newest.at DESC LIMIT $1)";
const ATTEMPTS_ON_POSTGRES: &str = "
    WITH given (delivery) AS ({rows})
    SELECT newest.* FROM given CROSS JOIN LATERAL (
        SELECT id, delivery_id, at, latency_ms, status, response, error
        FROM attempts WHERE delivery_id = given.delivery
        ORDER BY attempts.at DESC LIMIT $1) AS newest";

/// Reads the names of events, and whether their messages and contacts are gone.
const EVENTS: &str = "
    WITH given (event) AS ({rows})
    SELECT events.id, events.names,
           CAST(CASE WHEN events.told IS NULL AND messages.id IS NULL
                THEN 1 ELSE 0 END AS BIGINT) AS message_gone,
           CAST(CASE WHEN events.contact_id IS NOT NULL AND contacts.id IS NULL
                THEN 1 ELSE 0 END AS BIGINT) AS contact_gone,
           CASE WHEN events.contact_id IS NOT NULL THEN events.told END AS named
    FROM given CROSS JOIN events
    LEFT JOIN messages ON messages.id = events.id
        AND NOT EXISTS (SELECT 1 FROM erasures
                        WHERE subject IN (messages.contact_id, messages.agent_id))
    LEFT JOIN contacts ON contacts.id = events.contact_id
        AND NOT EXISTS (SELECT 1 FROM erasures
                        WHERE subject IN (contacts.id, contacts.organization_id))
    WHERE events.id = given.event";

impl Base {
    /// Returns matching deliveries, newest first, each with up to `attempts` of its newest
    /// attempts.
    pub async fn deliveries(
        &self,
        destination: DestinationId,
        filter: &DeliveryFilter,
        page: &Page,
        attempts: u32,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let mut query = sql("SELECT id, event_id, event_number, destination_id, state,
                                    next_attempt_at, created_at
                             FROM deliveries WHERE destination_id = ");
        query.push_value(destination.0);
        if let Some(state) = filter.state {
            query.push(" AND state = ").push_value(state.as_str());
        }
        let time = TimeRange { since: filter.since, before: filter.until };
        page.read_by("created_at", &mut query, time);
        let rows = query.fetch_all(self.reader()).await?;
        Ok(page.newest_first(self.records(&rows, attempts).await?))
    }

    /// Returns the first deliveries of all events that a message announced, each with up to
    /// `attempts` of its newest attempts.
    pub async fn deliveries_of(
        &self,
        message: MessageId,
        attempts: u32,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        const MOST: i64 = 200;
        let rows = sql("SELECT id, event_id, event_number, destination_id, state,
                               next_attempt_at, created_at
                        FROM deliveries WHERE event_id = $1 LIMIT $2")
        .bind(message.0)
        .bind(MOST)
        .fetch_all(self.reader())
        .await?;
        self.records(&rows, attempts).await
    }

    /// Returns a delivery to a destination of this account, also to a removed one.
    pub async fn delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        attempts: u32,
    ) -> Result<Option<DeliveryRecord>, StoreError> {
        let row = sql("SELECT deliveries.id, event_id, event_number, destination_id, state,
                              next_attempt_at, deliveries.created_at
                       FROM deliveries JOIN destinations ON destinations.id = destination_id
                       WHERE deliveries.id = $1 AND account_id = $2")
        .bind(id.0)
        .bind(account)
        .fetch_all(self.reader())
        .await?;
        Ok(self.records(&row, attempts).await?.pop())
    }

    /// Makes an ended delivery pending again, with the same event id and all attempts of the
    /// schedule. It is due at once; in a room of an `ordered` destination, at its old place, and
    /// once the lease of the room's head has ended. Closes the gate of rooms.
    pub async fn replay_delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
        act: Act<'_>,
    ) -> Result<Redelivery, StoreError> {
        transact!(self, async |tx| {
            // Before any row is locked: claims pass this gate first, too.
            gates::close_rooms(&mut tx).await?;
            // FOR SHARE: a removal or a disabling waits, and then gives up this delivery.
            let row = select(
                "JOIN deliveries ON destinations.id = destination_id
                 WHERE deliveries.id = $1 AND account_id = $2",
            )
            .bind(id.0)
            .bind(account)
            .locking("FOR SHARE OF destinations")
            .fetch_optional(tx.on())
            .await?;
            let Some(row) = row else { return Ok(Redelivery::NoDelivery) };
            let columns = Columns { table: "destinations", row: &row };
            if columns.optional_time("removed_at")?.is_some() {
                return Ok(Redelivery::Removed);
            }
            let destination = destination(&row)?;
            if destination.disabled.is_some() {
                return Ok(Redelivery::Disabled);
            }
            let ended = sql("SELECT id, room FROM deliveries WHERE id = $1 AND state <> 'pending'");
            let ended = ended.bind(id.0).fetch_all(tx.on()).await?;
            let clock = self.mint().clock();
            let now = clock.steady_of(act.at).min(clock.steady());
            if self.make_pending(&mut tx, destination.id.0, &ended, now).await? == 0 {
                return Ok(Redelivery::Pending);
            }
            let changes = [Change::made("webhook", destination.id)];
            let object = id.to_string();
            let note = Note { account, deed: Deed::DeliveryReplayed, object, changes: &changes };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Redelivery::Done)
        })
    }

    /// Reads the events and attempts of these rows: two statements, however many rows there are.
    /// Logs names that another version wrote.
    async fn records(&self, rows: &[Row], most: u32) -> Result<Vec<DeliveryRecord>, StoreError> {
        let uuids = |column: &str| -> Result<Vec<Vec<Value>>, StoreError> {
            let uuid = |row| Ok(vec![Columns { table: "deliveries", row }.uuid(column)?.into()]);
            rows.iter().map(uuid).collect()
        };
        let mut events = HashMap::new();
        for row in many(EVENTS, uuids("event_id")?).fetch_all(self.reader()).await? {
            events.insert(Columns { table: "events", row: &row }.uuid("id")?, row);
        }
        let named = events.values().filter_map(|row| named_message(row).transpose());
        let named = named.collect::<Result<Vec<_>, StoreError>>()?;
        let present = messages::present(self.reader(), named).await?;
        let text = if self.reader().is_postgres() { ATTEMPTS_ON_POSTGRES } else { ATTEMPTS };
        let found = many(text, uuids("id")?).bind(i64::from(most));
        let mut attempts: HashMap<Uuid, Vec<Attempt>> = HashMap::new();
        for row in found.fetch_all(self.reader()).await? {
            let delivery = Columns { table: "attempts", row: &row }.uuid("delivery_id")?;
            attempts.entry(delivery).or_default().push(attempt(&row)?);
        }
        let clock = self.mint().clock();
        let record = |row| {
            let columns = Columns { table: "deliveries", row };
            let (id, event) = (columns.uuid("id")?, event_of(row)?);
            let missing = || columns.corrupt("its event is missing");
            let row = events.get(&event.row()).ok_or_else(missing)?;
            let of_event = Columns { table: "events", row };
            let name = name_of(&names(&of_event)?, event).ok_or_else(missing)?;
            if name.is_none()
                && let Some(left_out) = self.repeats.due(LogCause::Event)
            {
                tracing::error!(event.id = %event, left_out, "cannot read an event");
            }
            let is_contact = name.is_some_and(|name| name.about() == About::Contact);
            let gone = if is_contact { "contact_gone" } else { "message_gone" };
            let erased = match named_message(row)? {
                Some(message) => !present.contains(&message),
                None => of_event.flag(gone)?,
            };
            let state = columns.word("state")?;
            let next = columns.time("next_attempt_at")?;
            let mut attempts = attempts.remove(&id).unwrap_or_default();
            attempts.sort_by_key(|attempt| (attempt.at, attempt.id.0));
            Ok(DeliveryRecord {
                id: DeliveryId(id),
                destination: DestinationId(columns.uuid("destination_id")?),
                event,
                name,
                erased,
                state,
                created_at: columns.time("created_at")?,
                next_attempt_at: (state == State::Pending).then(|| clock.wall_of(next)),
                attempts,
            })
        };
        rows.iter().map(record).collect()
    }
}

fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    let columns = Columns { table: "attempts", row };
    let latency = u32::try_from(columns.integer("latency_ms")?);
    let status = columns.optional_integer("status")?.map(u16::try_from).transpose();
    Ok(Attempt {
        id: AttemptId(columns.uuid("id")?),
        at: columns.time("at")?,
        latency_ms: latency.map_err(|error| columns.corrupt(error))?,
        status: status.map_err(|error| columns.corrupt(error))?,
        response: columns.bytes("response")?,
        error: columns.optional_text("error")?,
    })
}
