//! Events and their deliveries, written in the transaction of what they announce.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::db::Transaction;
use super::error::StoreError;
use super::gates;
use super::many::many;
use super::row::Columns;
use super::sql::{Value as Column, sql};
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::destination::Destination;
use crate::domain::event::{Category, Event, EventName};
use crate::domain::id::{AccountId, ContactId, DeliveryId, EventId, Mint};

/// Writes the events, and for each of them one delivery for each destination that wants it: those
/// of its category that belong to its account or to an ancestor. The transaction has passed the
/// gates of these accounts, so that no destination is removed before what it gets can be
/// cancelled with the rest.
pub(super) async fn announce(
    tx: &mut Transaction,
    events: &[Event],
    mint: &Mint,
) -> Result<(), StoreError> {
    let listeners = listeners(tx, events).await?;
    let columns = |event: &Event| -> Vec<Column> {
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
        ]
    };
    many(
        "INSERT INTO events (id, name, at, partner_id, reseller_id, organization_id, agent_id,
                             message_id, contact_id, told) {rows}",
        events.iter().map(columns).collect(),
    )
    .execute(tx.on())
    .await?;
    let mut deliveries: Vec<Vec<Column>> = Vec::new();
    for event in events {
        let wanted =
            event.lineage.ids().filter_map(|id| listeners.get(&(id, event.name.category())));
        deliveries.extend(wanted.flatten().map(|destination| {
            let (id, at) = (mint.uuid().into(), Column::from(event.at));
            vec![id, event.id.0.into(), (*destination).into(), "pending".into(), at.clone(), at]
        }));
    }
    many(
        "INSERT INTO deliveries (id, event_id, destination_id, state, next_attempt_at, created_at)
         {rows}",
        deliveries,
    )
    .execute(tx.on())
    .await?;
    Ok(())
}

/// Writes an event of `onboarding` about what happens to an account in this transaction.
pub(super) async fn announce_told(
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

/// Writes an event that one destination alone hears of, whatever its category; answers its
/// delivery. The destination is in use, and locked.
pub(super) async fn announce_to(
    tx: &mut Transaction,
    mint: &Mint,
    event: &Event,
    destination: &Destination,
) -> Result<DeliveryId, StoreError> {
    let id = DeliveryId(mint.uuid());
    sql("INSERT INTO events (id, name, at, partner_id, reseller_id, organization_id, agent_id, told)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
    .bind(event.id.0)
    .bind(event.name.as_str())
    .bind(event.at)
    .bind(event.lineage.partner)
    .bind(event.lineage.reseller)
    .bind(event.lineage.organization)
    .bind(event.lineage.agent)
    .bind(event.told.as_ref().map(ToString::to_string))
    .execute(tx.on())
    .await?;
    sql("INSERT INTO deliveries (id, event_id, destination_id, state, next_attempt_at, created_at)
         VALUES ($1, $2, $3, 'pending', $4, $4)")
    .bind(id.0)
    .bind(event.id.0)
    .bind(destination.id.0)
    .bind(event.at)
    .execute(tx.on())
    .await?;
    Ok(id)
}

type Listeners = HashMap<(AccountId, Category), Vec<uuid::Uuid>>;

async fn listeners(tx: &mut Transaction, events: &[Event]) -> Result<Listeners, StoreError> {
    let wanted: BTreeSet<(AccountId, Category)> = events
        .iter()
        .flat_map(|event| event.lineage.ids().map(|id| (id, event.name.category())))
        .collect();
    let found = many(
        "WITH given (account, kind) AS ({rows})
         SELECT destinations.id, account_id, category FROM given CROSS JOIN destinations
         WHERE account_id = given.account AND category = given.kind AND removed_at IS NULL",
        wanted.iter().map(|(id, kind)| vec![(*id).into(), kind.as_str().into()]).collect(),
    )
    .fetch_all(tx.on())
    .await?;
    let mut listeners = Listeners::new();
    for row in &found {
        let columns = Columns { table: "destinations", row };
        let who = (columns.account("account_id")?, columns.word("category")?);
        listeners.entry(who).or_default().push(columns.uuid("id")?);
    }
    Ok(listeners)
}
