//! Replays: exhausted deliveries, or all deliveries since a time, become pending again. A request
//! is a row of `replays`. Claims of any gateway work it off in batches. The row is deleted when
//! nothing is left to do, its destination is no longer in use, or the row cannot be read.
//!
//! In a room of an ordered destination, a replayed delivery has its old place, before all later
//! ones. No gateway claims while it is put there. It is due when the lease of the room's former
//! head ends, because that delivery may be under way.
//!
//! Locks on PostgreSQL: the gate of replays (tried: one gateway at a time works on them); then the
//! gate of the event log alone, or the gate of rooms (if needed), the destination, its deliveries.

use std::collections::{BTreeSet, HashMap};
use std::sync::PoisonError;
use std::time::Duration;

use uuid::Uuid;

use super::destination_row::{destination, select};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Extent;
use crate::domain::destination::Destination;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{DeliveryId, EventId};
use crate::store::base::Base;
use crate::store::base::page::below;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Value, sql};
use crate::store::events::announcements::{Listener, delivery_row, insert_deliveries};
use crate::store::events::event_log;
use crate::store::events::event_row::{event, event_of, places};
use crate::store::tenancy::accounts;

/// Ids of events grow with time, but not exactly, and clocks differ: the log is read from this long
/// before the requested time, and until this long after the request.
const SLACK: Duration = Duration::from_secs(3600);

/// Tolerance for a gateway whose clock is ahead of the clock that dated the request.
const CLOCKS: Duration = Duration::from_mins(1);

/// A row of `replays`.
struct StoredRequest {
    destination: Uuid,
    extent: Extent,
    since: Timestamp,
    /// Events that happened later, and deliveries that ended later, do not belong to the replay.
    asked_at: Timestamp,
    /// The position up to which the log was read; None while events without a position get theirs.
    position: Option<i64>,
}

/// An event, and the number under which its row arrived.
struct ArrivedEvent {
    event: Event,
    arrived: i64,
}

/// Work that is left of a replay.
enum RemainingWork {
    Nothing,
    /// More batches, with the log read up to this position.
    From(Option<i64>),
    /// Everything: nothing could be done this time.
    All,
}

impl Base {
    /// Works on a batch of one replay, each replay in turn, unless another gateway is doing so.
    /// Logs an error instead of returning it, so that claims and other replays go on.
    pub(in crate::store) async fn work_on_a_replay(&self, now: Timestamp) {
        let done = async {
            let waiting = sql("SELECT id FROM replays ORDER BY id LIMIT 1");
            if waiting.fetch_optional(self.reader()).await?.is_none() {
                return Ok(());
            }
            transact!(self, async |tx| {
                if !gates::try_alone(&mut tx, "replays").await? {
                    return Ok(());
                }
                let Some(row) = self.next_replay(&mut tx).await? else { return Ok(()) };
                let id = Columns { table: "replays", row: &row }.uuid("id")?;
                let remaining = match stored_request(&row) {
                    Ok(request) => self.replay_batch(&mut tx, &request, now).await?,
                    Err(error) => {
                        tracing::error!(
                            replay.id = %id,
                            %error,
                            "dropped a replay that cannot be read"
                        );
                        RemainingWork::Nothing
                    }
                };
                match remaining {
                    RemainingWork::Nothing => sql("DELETE FROM replays WHERE id = $1").bind(id),
                    RemainingWork::From(position) => {
                        let moved = sql("UPDATE replays SET position = $2 WHERE id = $1");
                        moved.bind(id).bind(position)
                    }
                    RemainingWork::All => return Ok(()),
                }
                .execute(tx.on())
                .await?;
                tx.commit().await
            })
        };
        if let Err(error) = done.await {
            let error = &error as &(dyn std::error::Error + 'static);
            tracing::warn!(error, "cannot prepare a replay");
        }
    }

    /// Returns the next replay in turn, if there is one. The turn moves on even if its batch fails.
    async fn next_replay(&self, tx: &mut Transaction) -> Result<Option<Row>, StoreError> {
        let last = *self.replayed.lock().unwrap_or_else(PoisonError::into_inner);
        for after in [last, Uuid::nil()] {
            let found = sql("SELECT id, destination_id, what, since, position, created_at
                         FROM replays WHERE id > $1 ORDER BY id LIMIT 1")
            .bind(after)
            .fetch_optional(tx.on())
            .await?;
            if let Some(row) = found {
                let id = Columns { table: "replays", row: &row }.uuid("id")?;
                *self.replayed.lock().unwrap_or_else(PoisonError::into_inner) = id;
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    async fn replay_batch(
        &self,
        tx: &mut Transaction,
        request: &StoredRequest,
        now: Timestamp,
    ) -> Result<RemainingWork, StoreError> {
        let most = self.deliveries.replay_at_once;
        let Some(destination) = destination_in_use(tx, request, "").await? else {
            return Ok(RemainingWork::Nothing);
        };
        if request.extent == Extent::All && request.position.is_none() {
            return place_events(tx, request.since, most).await;
        }
        // Closed only if needed, and before any row is locked that claims may wait for.
        let in_rooms =
            tx.has_concurrent_writers() && in_rooms(tx, request, &destination, most).await?;
        if in_rooms {
            gates::close_rooms(tx).await?;
        }
        let closed = in_rooms || !tx.has_concurrent_writers();
        // FOR SHARE: the destination stays as it is until the transaction ends.
        let Some(destination) = destination_in_use(tx, request, "FOR SHARE").await? else {
            return Ok(RemainingWork::Nothing);
        };
        if !closed && self::in_rooms(tx, request, &destination, most).await? {
            return Ok(RemainingWork::All);
        }
        if request.extent == Extent::All {
            return self.replay_all(tx, request, &destination, now).await;
        }
        // One that is exhausted once more ended after the request, and is not taken again.
        let rows = exhausted_deliveries(tx, request, most).await?;
        self.make_pending(tx, request.destination, &rows, now).await?;
        let is_last = u32::try_from(rows.len()).unwrap_or(u32::MAX) < most;
        Ok(if is_last { RemainingWork::Nothing } else { RemainingWork::From(None) })
    }

    /// Continues through the log. Deliveries that have ended become pending again; events that
    /// never had a delivery to this destination get one.
    async fn replay_all(
        &self,
        tx: &mut Transaction,
        request: &StoredRequest,
        destination: &Destination,
        now: Timestamp,
    ) -> Result<RemainingWork, StoreError> {
        let Some(position) = request.position else { return Ok(RemainingWork::From(None)) };
        let most = self.deliveries.replay_at_once;
        let rows = event_rows_after(tx, destination, position, most).await?;
        let mut last = position;
        let mut wanted = Vec::new();
        let mut is_over = false;
        for row in &rows {
            let columns = Columns { table: "events", row };
            last = last.max(columns.integer("position")?);
            let arrived = columns.integer("arrived")?;
            // Skips events that this gateway cannot read.
            for (place, _) in places(row).unwrap_or_default() {
                let Ok(Some(event)) = event(row, place.event) else { continue };
                // Otherwise new events would keep the replay going.
                is_over |= event.at > request.asked_at.plus(SLACK);
                if event.name.category() == destination.category
                    // A test is sent once, and to one destination.
                    && event.name != EventName::WebhookTest
                    && (request.since..=request.asked_at).contains(&event.at)
                {
                    wanted.push(ArrivedEvent { event, arrived });
                }
            }
        }
        self.send_again(tx, destination.into(), &wanted, now).await?;
        let is_last = is_over || u32::try_from(rows.len()).unwrap_or(u32::MAX) < most;
        Ok(if is_last { RemainingWork::Nothing } else { RemainingWork::From(Some(last)) })
    }

    async fn send_again(
        &self,
        tx: &mut Transaction,
        listener: Listener,
        wanted: &[ArrivedEvent],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let room = |event: &Event| {
            let room = event.room().filter(|_| listener.ordered);
            room.map(|room| room.to_string())
        };
        let rooms = wanted.iter().filter_map(|one| room(&one.event)).collect();
        let due = self.due_by_room(tx, listener.id, &rooms, now).await?;
        let due = |room: &Option<String>| {
            room.as_ref().and_then(|room| due.get(room)).copied().unwrap_or(now)
        };
        let known = many(
            "WITH given (event, part) AS ({rows})
             SELECT DISTINCT event_id, event_number FROM given CROSS JOIN deliveries
             WHERE event_id = given.event AND event_number = given.part
               AND destination_id = $1",
            wanted.iter().map(|one| id_and_number(one.event.id).into()).collect(),
        )
        .bind(listener.id)
        .fetch_all(tx.on())
        .await?;
        let known: BTreeSet<EventId> = known.iter().map(event_of).collect::<Result<_, _>>()?;
        let (again, new): (Vec<_>, Vec<_>) =
            wanted.iter().partition(|one| known.contains(&one.event.id));
        let again = again.into_iter().map(|one| -> Vec<Value> {
            let room = room(&one.event);
            let place = room.as_ref().map(|_| one.arrived);
            let [id, number] = id_and_number(one.event.id);
            vec![id, number, due(&room).into(), room.into(), place.into()]
        });
        tx.ring();
        many(
            "WITH given (event, part, due, place, number) AS ({rows})
             UPDATE deliveries
             SET state = 'pending', attempts = 0, next_attempt_at = given.due, lease_until = 0,
                 fence = fence + 1, room = given.place, arrived = given.number
             FROM given
             WHERE event_id = given.event AND event_number = given.part AND destination_id = $1
               AND state <> 'pending'",
            again.collect(),
        )
        .bind(listener.id)
        .execute(tx.on())
        .await?;
        let new = new.into_iter().map(|ArrivedEvent { event, arrived }| {
            let id = DeliveryId(self.mint().uuid());
            delivery_row(id, event, *arrived, listener, due(&room(event)))
        });
        insert_deliveries(tx, new.collect());
        Ok(())
    }

    /// Makes ended deliveries (`id`, `room`) of a destination pending again, with all attempts of
    /// the schedule; returns their number. If any has a room, the gate of rooms is closed.
    pub(in crate::store) async fn make_pending(
        &self,
        tx: &mut Transaction,
        destination: Uuid,
        rows: &[Row],
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut ended = Vec::with_capacity(rows.len());
        for row in rows {
            let columns = Columns { table: "deliveries", row };
            ended.push((columns.uuid("id")?, columns.optional_text("room")?));
        }
        let rooms = ended.iter().filter_map(|(_, room)| room.clone()).collect();
        let due = self.due_by_room(tx, destination, &rooms, now).await?;
        let rows = ended.into_iter().map(|(id, room)| {
            let due = room.and_then(|room| due.get(&room).copied()).unwrap_or(now);
            vec![id.into(), due.into()]
        });
        tx.ring();
        many(
            "WITH given (delivery, due) AS ({rows})
             UPDATE deliveries
             SET state = 'pending', attempts = 0, next_attempt_at = given.due, lease_until = 0,
                 fence = fence + 1
             FROM given WHERE deliveries.id = given.delivery AND state <> 'pending'",
            rows.collect(),
        )
        .execute(tx.on())
        .await
    }

    /// Returns when a new head of each of these rooms is due: at the end of the lease of the
    /// present head, which may be under way, unless its holder is dead. Leaves out rooms without a
    /// head.
    async fn due_by_room(
        &self,
        tx: &mut Transaction,
        destination: Uuid,
        rooms: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<HashMap<String, Timestamp>, StoreError> {
        let heads = many(
            "WITH given (place) AS ({rows})
             SELECT room, lease_until, next_attempt_at, attempts, holder
             FROM given CROSS JOIN deliveries
             WHERE deliveries.id = (
                 SELECT id FROM deliveries
                 WHERE destination_id = $1 AND state = 'pending' AND room IS NOT NULL
                   AND room = given.place
                 ORDER BY arrived, id LIMIT 1)",
            rooms.iter().map(|room| vec![room.as_str().into()]).collect(),
        )
        .bind(destination)
        .fetch_all(tx.on())
        .await?;
        let mut due = HashMap::with_capacity(heads.len());
        for row in &heads {
            let columns = Columns { table: "deliveries", row };
            // A head without attempts that is not due was replayed, and waits for a later delivery.
            let mut free = now;
            if columns.integer("attempts")? == 0 {
                free = free.max(columns.time("next_attempt_at")?);
            }
            if !self.gateway_registry.is_dead_holder(columns.integer("holder")?) {
                free = free.max(columns.time("lease_until")?);
            }
            due.insert(columns.text("room")?, free);
        }
        Ok(due)
    }
}

fn id_and_number(event: EventId) -> [Value; 2] {
    [event.row().into(), i64::from(event.number()).into()]
}

fn stored_request(row: &Row) -> Result<StoredRequest, StoreError> {
    let columns = Columns { table: "replays", row };
    Ok(StoredRequest {
        destination: columns.uuid("destination_id")?,
        extent: columns.word("what")?,
        since: columns.time("since")?,
        asked_at: columns.time("created_at")?,
        position: columns.optional_integer("position")?,
    })
}

/// Returns the destination of a request; None if it is not in use.
async fn destination_in_use(
    tx: &mut Transaction,
    request: &StoredRequest,
    locking: &'static str,
) -> Result<Option<Destination>, StoreError> {
    let row = select("WHERE id = $1 AND removed_at IS NULL AND disabled_at IS NULL")
        .bind(request.destination)
        .locking(locking)
        .fetch_optional(tx.on())
        .await?;
    row.as_ref().map(destination).transpose()
}

/// Gives positions to up to `most` rows without one; waits only for other gateways that do so. Once
/// none is left, returns where to begin: about at the first event since this time.
async fn place_events(
    tx: &mut Transaction,
    since: Timestamp,
    most: u32,
) -> Result<RemainingWork, StoreError> {
    if event_log::place(tx, most).await? >= most.into() {
        return Ok(RemainingWork::From(None));
    }
    let millis = u128::try_from(since.minus(SLACK).millis()).unwrap_or_default();
    let first = sql("SELECT position FROM events WHERE id >= $1 AND position IS NOT NULL
                     ORDER BY id LIMIT 1")
    // The first 48 bits of a UUIDv7 are its time (RFC 9562 §5.7).
    .bind(Uuid::from_u128(millis << 80))
    .fetch_optional(tx.on())
    .await?;
    let Some(row) = first else { return Ok(RemainingWork::Nothing) };
    let position = Columns { table: "events", row: &row }.integer("position")?;
    Ok(RemainingWork::From(Some(position - 1)))
}

/// Whether the next batch puts deliveries into rooms.
async fn in_rooms(
    tx: &mut Transaction,
    request: &StoredRequest,
    destination: &Destination,
    most: u32,
) -> Result<bool, StoreError> {
    if request.extent == Extent::All {
        return Ok(destination.wants.ordered);
    }
    for row in &exhausted_deliveries(tx, request, most).await? {
        if (Columns { table: "deliveries", row }).optional_text("room")?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn exhausted_deliveries(
    tx: &mut Transaction,
    request: &StoredRequest,
    most: u32,
) -> Result<Vec<Row>, StoreError> {
    sql("SELECT id, room FROM deliveries
         WHERE destination_id = $1 AND state = 'exhausted' AND created_at >= $2
           AND next_attempt_at <= $3
         ORDER BY created_at, id LIMIT $4")
    .bind(request.destination)
    .bind(request.since)
    .bind(request.asked_at.plus(CLOCKS))
    .bind(i64::from(most))
    .fetch_all(tx.on())
    .await
}

/// Returns the next rows of the log that are of the destination's account or below it.
async fn event_rows_after(
    tx: &mut Transaction,
    destination: &Destination,
    position: i64,
    most: u32,
) -> Result<Vec<Row>, StoreError> {
    let Some(account) = accounts::find(tx, destination.account).await? else {
        return Ok(Vec::new());
    };
    let mut query = sql("SELECT id, names, at, partner_id, reseller_id, organization_id, agent_id,
                    contact_id, told, arrived, position FROM events WHERE ");
    below(&mut query, account.kind, account.id);
    query.push(" AND position > ").push_value(position);
    query.push(" ORDER BY position LIMIT ").push_value(i64::from(most));
    query.fetch_all(tx.on()).await
}
