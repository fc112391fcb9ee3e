//! Events and their deliveries, written in the transaction of what they announce.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use uuid::Uuid;

use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::destination::Destination;
use crate::domain::event::{Category, Event, EventName};
use crate::domain::id::{AccountId, ContactId, DeliveryId, EventId, Mint};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Value as Column, sql};

/// Writes the events, and for each of them one delivery for each destination that wants it: those
/// of its category that belong to its account or to an ancestor and are not disabled. The
/// transaction has passed the gates of these accounts, so that no destination is removed before
/// what it gets can be cancelled with the rest.
pub async fn announce(
    tx: &mut Transaction,
    events: &[Event],
    mint: &Mint,
) -> Result<(), StoreError> {
    let listeners = listeners(tx, events).await?;
    let numbers = insert_events(tx, events).await?;
    let mut deliveries: Vec<Vec<Column>> = Vec::new();
    for (event, arrived) in events.iter().zip(numbers) {
        let due = due_at_once(mint, event);
        let wanted =
            event.lineage.ids().filter_map(|id| listeners.get(&(id, event.name.category())));
        deliveries.extend(
            wanted.flatten().map(|listener| {
                delivery(DeliveryId(mint.uuid()), (event, arrived), *listener, due)
            }),
        );
    }
    insert_deliveries(tx, deliveries).await
}

/// Writes an event that concerns one destination only, and its delivery to that one, whatever the
/// category that it listens to. The transaction has passed the gates of the event's accounts and
/// has seen since that the destination is in use.
pub async fn announce_to(
    tx: &mut Transaction,
    mint: &Mint,
    event: &Event,
    destination: &Destination,
) -> Result<DeliveryId, StoreError> {
    let numbers = insert_events(tx, std::slice::from_ref(event)).await?;
    let id = DeliveryId(mint.uuid());
    let listener = Listener { id: destination.id.0, ordered: destination.wants.ordered };
    let due = due_at_once(mint, event);
    let rows = numbers.into_iter().map(|number| delivery(id, (event, number), listener, due));
    insert_deliveries(tx, rows.collect()).await?;
    Ok(id)
}

/// Writes events; answers the number of each in the order of arrivals. What its message and its
/// contact are is locked by now, so that within a room the numbers grow as transactions end.
async fn insert_events(tx: &mut Transaction, events: &[Event]) -> Result<Vec<i64>, StoreError> {
    let numbers = next_numbers(tx, events.len()).await?;
    let columns = |(event, arrived): (&Event, &i64)| -> Vec<Column> {
        vec![
            event.id.0.into(),
            event.name.as_str().into(),
            event.at.into(),
            event.lineage.partner.into(),
            event.lineage.reseller.into(),
            event.lineage.organization.into(),
            event.lineage.agent.into(),
            event.message.map(|id| id.0).into(),
            event.contact.map(ContactId::get).into(),
            event.told.as_ref().map(ToString::to_string).into(),
            (*arrived).into(),
        ]
    };
    many(
        "INSERT INTO events (id, name, at, partner_id, reseller_id, organization_id, agent_id,
                             message_id, contact_id, told, arrived) {rows}",
        events.iter().zip(&numbers).map(columns).collect(),
    )
    .execute(tx.on())
    .await?;
    Ok(numbers)
}

/// The next numbers of the one sequence of events, rising. PostgreSQL's own leaves gaps, but nobody
/// waits for whom it gave the number before.
async fn next_numbers(tx: &mut Transaction, count: usize) -> Result<Vec<i64>, StoreError> {
    if count == 0 {
        return Ok(Vec::new());
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let rows = sql("UPDATE event_numbers SET last = last + $1 RETURNING last AS number")
        .on_postgres("SELECT nextval('event_numbers') AS number FROM generate_series(1, $1)")
        .bind(count)
        .fetch_all(tx.on())
        .await?;
    let number = |row: &Row| Columns { table: "event_numbers", row }.integer("number");
    let mut numbers: Vec<i64> = match rows.as_slice() {
        // SQLite says where the sequence ends now.
        [last @ Row::Sqlite(_)] => {
            let last = number(last)?;
            (last.saturating_sub(count) + 1..=last).collect()
        }
        rows => rows.iter().map(number).collect::<Result<_, _>>()?,
    };
    numbers.sort_unstable();
    Ok(numbers)
}

/// In steady time, in the order in which things happened; whatever the wall clock did, now.
fn due_at_once(mint: &Mint, event: &Event) -> Timestamp {
    let clock = mint.clock();
    clock.steady_of(event.at).min(clock.steady())
}

/// The row of a delivery that is due then. Only who wants order gets a room and a number.
pub fn delivery(
    id: DeliveryId,
    (event, arrived): (&Event, i64),
    listener: Listener,
    due: Timestamp,
) -> Vec<Column> {
    let room = event.room().filter(|_| listener.ordered);
    vec![
        id.0.into(),
        event.id.0.into(),
        listener.id.into(),
        "pending".into(),
        due.into(),
        event.at.into(),
        room.map(|room| room.to_string()).into(),
        room.map(|_| arrived).into(),
    ]
}

pub async fn insert_deliveries(
    tx: &mut Transaction,
    rows: Vec<Vec<Column>>,
) -> Result<(), StoreError> {
    many(
        "INSERT INTO deliveries (id, event_id, destination_id, state, next_attempt_at, created_at,
                                 room, arrived) {rows}",
        rows,
    )
    .execute(tx.on())
    .await
    .map(drop)
}

/// Writes an event that itself tells what happens to an account in this transaction.
pub async fn announce_told(
    tx: &mut Transaction,
    mint: &Mint,
    name: EventName,
    (at, lineage): (Timestamp, Lineage),
    told: Value,
) -> Result<(), StoreError> {
    gates::pass_accounts(tx, lineage.ids().collect()).await?;
    let id = EventId(mint.uuid());
    let event = Event { id, name, at, lineage, message: None, contact: None, told: Some(told) };
    announce(tx, &[event], mint).await
}

/// Who gets a delivery.
#[derive(Clone, Copy, Debug)]
pub struct Listener {
    pub id: Uuid,
    pub ordered: bool,
}

type Listeners = HashMap<(AccountId, Category), Vec<Listener>>;

async fn listeners(tx: &mut Transaction, events: &[Event]) -> Result<Listeners, StoreError> {
    let wanted: BTreeSet<(AccountId, Category)> = events
        .iter()
        .flat_map(|event| event.lineage.ids().map(|id| (id, event.name.category())))
        .collect();
    let found = many(
        "WITH given (account, kind) AS ({rows})
         SELECT destinations.id, account_id, category, ordered
         FROM given CROSS JOIN destinations
         WHERE account_id = given.account AND category = given.kind AND removed_at IS NULL
           AND disabled_at IS NULL",
        wanted.iter().map(|(id, kind)| vec![(*id).into(), kind.as_str().into()]).collect(),
    )
    .fetch_all(tx.on())
    .await?;
    let mut listeners = Listeners::new();
    for row in &found {
        let columns = Columns { table: "destinations", row };
        let who = (columns.account("account_id")?, columns.word("category")?);
        listeners
            .entry(who)
            .or_default()
            .push(Listener { id: columns.uuid("id")?, ordered: columns.flag("ordered")? });
    }
    Ok(listeners)
}
