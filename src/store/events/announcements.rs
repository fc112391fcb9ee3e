//! Writes events and their deliveries, in the transaction of the change that they announce.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use uuid::Uuid;

use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::destination::Destination;
use crate::domain::event::{Category, Event, EventName};
use crate::domain::id::{AccountId, ContactId, DeliveryId, Mint};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::{Many, many};
use crate::store::engine::row::{Columns, organization_of};
use crate::store::engine::sql::{Row, Value as Column};
use crate::store::events::event_row::told;

/// Writes events with the commit, each with a delivery to each destination that wants it. The
/// transaction has passed the gates of these accounts: a removal of a destination waits, and
/// cancels these deliveries with the rest.
pub async fn announce(
    tx: &mut Transaction,
    events: &[Event],
    mint: &Mint,
) -> Result<(), StoreError> {
    let about = events.iter().map(|event| (&event.lineage, event.name.category()));
    let [listeners, numbers] = tx.ask([listeners(about), numbers(tx, &counts(events))]).await?;
    write(tx, events, &listeners, &numbers, mint)
}

/// Writes events with the commit, each with a delivery to each of the listeners that wants it: of
/// its category, of its account or an ancestor. Consecutive events of one change, equal in all but
/// id and name, become one row.
pub fn write(
    tx: &mut Transaction,
    events: &[Event],
    listeners: &[Row],
    numbers: &[Row],
    mint: &Mint,
) -> Result<(), StoreError> {
    let listeners = read_listeners(listeners)?;
    let numbers = insert_events(tx, events, numbers)?;
    let mut deliveries: Vec<Vec<Column>> = Vec::new();
    for (event, arrived) in events.iter().zip(numbers) {
        let due = due_at_once(mint, event);
        let wanted =
            event.lineage.ids().filter_map(|id| listeners.get(&(id, event.name.category())));
        let row = |listener: &Listener| {
            delivery_row(DeliveryId(mint.uuid()), event, arrived, *listener, due)
        };
        deliveries.extend(wanted.flatten().map(row));
    }
    insert_deliveries(tx, deliveries);
    Ok(())
}

/// Writes an event for one destination, whatever its category, and the delivery. The transaction
/// has passed the gates of the event's accounts, and has seen since that the destination is in use.
pub async fn announce_to(
    tx: &mut Transaction,
    mint: &Mint,
    event: &Event,
    destination: &Destination,
) -> Result<DeliveryId, StoreError> {
    let [taken] = tx.ask([numbers(tx, &[1])]).await?;
    let numbers = insert_events(tx, std::slice::from_ref(event), &taken)?;
    let id = DeliveryId(mint.uuid());
    let (listener, due) = (Listener::from(destination), due_at_once(mint, event));
    let rows = numbers.into_iter().map(|number| delivery_row(id, event, number, listener, due));
    insert_deliveries(tx, rows.collect());
    Ok(id)
}

/// Writes events; returns the number of each in the order of arrivals. A message's contact and room
/// are locked by now, so that within a room the numbers grow in the order of commits.
fn insert_events(
    tx: &mut Transaction,
    events: &[Event],
    taken: &[Row],
) -> Result<Vec<i64>, StoreError> {
    // `told` has the one or names the other (`event_row`).
    if let Some(event) = events.iter().find(|event| event.message.is_some() == event.told.is_some())
    {
        let detail = format!("the event {} must have a message, or data of its own", event.id);
        return Err(StoreError::Corrupt { table: "events", detail });
    }
    let rows: Vec<&[Event]> = events.chunk_by(is_one_change).collect();
    let numbers = read_numbers(tx, &counts(events), taken)?;
    let has_position = !tx.has_concurrent_writers();
    let columns = |(events, arrived): (&&[Event], &i64)| -> Option<Vec<Column>> {
        let event = events.first()?;
        let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
        Some(vec![
            event.id.row().into(),
            names.join(" ").into(),
            event.at.into(),
            event.lineage.partner.into(),
            event.lineage.reseller.into(),
            organization_of(&event.lineage).into(),
            event.lineage.agent.into(),
            event.contact.map(ContactId::get).into(),
            told(event).into(),
            (*arrived).into(),
            has_position.then_some(*arrived).into(),
        ])
    };
    tx.later(many(
        "INSERT INTO events (id, names, at, partner_id, reseller_id, organization_id, agent_id,
                             contact_id, told, arrived, position) {rows}",
        rows.iter().zip(&numbers).filter_map(columns).collect(),
    ));
    let of_each = |(events, number): (&&[Event], i64)| vec![number; events.len()];
    Ok(rows.iter().zip(numbers).flat_map(of_each).collect())
}

fn is_one_change(one: &Event, next: &Event) -> bool {
    one.id.row() == next.id.row()
}

/// Returns the number of events of each row.
fn counts(events: &[Event]) -> Vec<usize> {
    events.chunk_by(is_one_change).map(<[Event]>::len).collect()
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Takes the next numbers of the sequence of events, for rows of so many events each. On PostgreSQL
/// the sequence leaves gaps, but no transaction waits for the number of another one. On SQLite the
/// number is the position of the row's last event; a position is never given twice.
pub fn numbers(tx: &Transaction, events: &[usize]) -> Many {
    let (text, taken) = match tx.has_concurrent_writers() {
        true => (
            "WITH given (taken) AS ({rows})
             SELECT nextval('event_numbers') AS number
             FROM given CROSS JOIN LATERAL generate_series(1, given.taken)",
            events.len(),
        ),
        false => (
            "WITH given (taken) AS ({rows})
             UPDATE event_log SET last_position = last_position + given.taken FROM given
             WHERE id = 1 RETURNING last_position AS number",
            events.iter().sum(),
        ),
    };
    many(text, if events.is_empty() { Vec::new() } else { vec![vec![count(taken).into()]] })
}

/// Returns the number of each row, rising.
fn read_numbers(tx: &Transaction, events: &[usize], taken: &[Row]) -> Result<Vec<i64>, StoreError> {
    let number = |row: &Row| Columns { table: "event_log", row }.integer("number");
    let mut numbers = taken.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    let of_each = tx.has_concurrent_writers();
    if numbers.len() != if of_each { events.len() } else { events.len().min(1) } {
        return Err(StoreError::NoRow);
    }
    if of_each {
        numbers.sort_unstable();
        return Ok(numbers);
    }
    let mut last = numbers.first().copied().unwrap_or(0) - count(events.iter().sum());
    let next = |events: &usize| {
        last += count(*events);
        last
    };
    Ok(events.iter().map(next).collect())
}

/// Returns the steady time of the event, so that deliveries are due in the order of events. Never
/// later than now, even if the wall clock was set back.
fn due_at_once(mint: &Mint, event: &Event) -> Timestamp {
    let clock = mint.clock();
    clock.steady_of(event.at).min(clock.steady())
}

/// Makes the row of a delivery. It has a room and a number only for an ordered destination.
pub fn delivery_row(
    id: DeliveryId,
    event: &Event,
    arrived: i64,
    listener: Listener,
    due: Timestamp,
) -> Vec<Column> {
    let room = event.room().filter(|_| listener.ordered);
    vec![
        id.0.into(),
        event.id.row().into(),
        i64::from(event.id.number()).into(),
        listener.id.into(),
        "pending".into(),
        due.into(),
        event.at.into(),
        room.map(|room| room.to_string()).into(),
        room.map(|_| arrived).into(),
        organization_of(&event.lineage).into(),
    ]
}

/// Writes deliveries with the commit, which then wakes the dispatcher.
pub fn insert_deliveries(tx: &mut Transaction, rows: Vec<Vec<Column>>) {
    if rows.is_empty() {
        return;
    }
    tx.ring();
    tx.later(many(
        "INSERT INTO deliveries (id, event_id, event_number, destination_id, state,
                                 next_attempt_at, created_at, room, arrived,
                                 organization_id) {rows}",
        rows,
    ));
}

/// Something that happened to an account, told by data of its own.
pub struct AccountEvent {
    pub name: EventName,
    pub at: Timestamp,
    pub lineage: Lineage,
    pub data: Value,
}

impl AccountEvent {
    pub(in crate::store) fn with_new_id(self, mint: &Mint) -> Event {
        let Self { name, at, lineage, data } = self;
        let (id, told) = (mint.event(), Some(data));
        Event { id, name, at, lineage, message: None, contact: None, told }
    }
}

/// Writes an event about an account. Passes the gates of the account and its ancestors.
pub async fn announce_account_event(
    tx: &mut Transaction,
    mint: &Mint,
    event: AccountEvent,
) -> Result<(), StoreError> {
    gates::pass_accounts(tx, event.lineage.ids().collect()).await?;
    announce(tx, &[event.with_new_id(mint)], mint).await
}

/// A destination that wants an event.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    pub id: Uuid,
    pub ordered: bool,
}

impl From<&Destination> for Listener {
    fn from(destination: &Destination) -> Self {
        Self { id: destination.id.0, ordered: destination.wants.ordered }
    }
}

type Listeners = HashMap<(AccountId, Category), Vec<Listener>>;

/// Asks for the destinations that want events of these categories about these accounts, and are
/// not disabled.
pub fn listeners<'e>(about: impl Iterator<Item = (&'e Lineage, Category)>) -> Many {
    let wanted: BTreeSet<(AccountId, Category)> =
        about.flat_map(|(lineage, category)| lineage.ids().map(move |id| (id, category))).collect();
    many(
        "WITH given (account, kind) AS ({rows})
         SELECT destinations.id, account_id, category, ordered
         FROM given CROSS JOIN destinations
         WHERE account_id = given.account AND category = given.kind AND removed_at IS NULL
           AND disabled_at IS NULL",
        wanted.iter().map(|(id, kind)| vec![(*id).into(), kind.as_str().into()]).collect(),
    )
}

fn read_listeners(found: &[Row]) -> Result<Listeners, StoreError> {
    let mut listeners = Listeners::new();
    for row in found {
        let columns = Columns { table: "destinations", row };
        let key = (columns.account("account_id")?, columns.word("category")?);
        let listener = Listener { id: columns.uuid("id")?, ordered: columns.flag("ordered")? };
        listeners.entry(key).or_default().push(listener);
    }
    Ok(listeners)
}
