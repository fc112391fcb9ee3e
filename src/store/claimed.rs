//! What attempts at claimed deliveries need: their destinations, events, and what these are about.

use std::collections::HashMap;

use uuid::Uuid;

use super::contacts::{self, contact};
use super::db::Transaction;
use super::destination_row::destination;
use super::destinations;
use super::error::StoreError;
use super::many::many;
use super::messages::{self, message};
use super::row::Columns;
use super::sql::Row;
use crate::domain::contact::Contact;
use crate::domain::delivery::{Claim, Subject};
use crate::domain::destination::Destination;
use crate::domain::event::{Category, Event};
use crate::domain::id::{ContactId, DeliveryId, EventId, MessageId};
use crate::domain::message::Message;

/// Each row as it could be read.
pub(super) struct Needed {
    destinations: HashMap<Uuid, Result<Destination, StoreError>>,
    events: HashMap<Uuid, Result<Event, StoreError>>,
    messages: HashMap<Uuid, Result<Message, StoreError>>,
    contacts: HashMap<i64, Result<Contact, StoreError>>,
}

impl Needed {
    pub(super) async fn load(tx: &mut Transaction, rows: &[Row]) -> Result<Self, StoreError> {
        let ids = |column: &'static str| {
            // An id that cannot be read is no reason to fail the others: its claim is put off.
            rows.iter().filter_map(move |row| row.get::<Uuid>(column).ok())
        };
        let found = destinations::by_ids(tx.on(), ids("destination_id")).await?;
        let destinations = by_id(&found, destination);
        let found = events(tx, ids("event_id")).await?;
        let events = by_id(&found, event);
        let told = || events.values().filter_map(|event| event.as_ref().ok());
        let about_contact = |event: &&Event| event.name.category() == Category::Contact;
        let named = told().filter(|event| !about_contact(event)).filter_map(|event| event.message);
        let found = messages::by_ids(tx.on(), named).await?;
        let messages = by_id(&found, message);
        let named = told().filter(about_contact).filter_map(|event| event.contact);
        let found = contacts::by_ids(tx.on(), named).await?;
        let contacts =
            found.iter().filter_map(|row| Some((row.get("id").ok()?, contact(row)))).collect();
        Ok(Self { destinations, events, messages, contacts })
    }

    /// What a row of a delivery that was claimed says.
    pub(super) fn claim(&self, row: &Row) -> Result<Claim, StoreError> {
        let columns = Columns { table: "deliveries", row };
        let missing = |what: &str| columns.corrupt(format!("its {what} is missing"));
        let destination = self.destinations.get(&columns.uuid("destination_id")?);
        let destination = destination.cloned().ok_or_else(|| missing("destination"))??;
        let event = self.events.get(&columns.uuid("event_id")?);
        let event = event.cloned().ok_or_else(|| missing("event"))??;
        Ok(Claim {
            delivery: DeliveryId(columns.uuid("id")?),
            attempts: u32::try_from(columns.integer("attempts")?)
                .map_err(|e| columns.corrupt(e))?,
            fence: columns.integer("fence")?,
            destination,
            subject: self.subject(&event)?,
            event,
        })
    }

    fn subject(&self, event: &Event) -> Result<Subject, StoreError> {
        if let Some(told) = &event.told {
            return Ok(Subject::Told(told.clone()));
        }
        let found = match (event.name.category(), event.message, event.contact) {
            (Category::Contact, _, Some(id)) => {
                self.contacts.get(&id.get()).cloned().transpose()?.map(Subject::Contact)
            }
            (_, Some(id), _) => {
                let found = self.messages.get(&id.0).cloned().transpose()?;
                found.map(|found| Subject::Message(Box::new(found)))
            }
            _ => None,
        };
        Ok(found.unwrap_or(Subject::Erased))
    }
}

fn by_id<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> HashMap<Uuid, Result<T, StoreError>> {
    rows.iter().filter_map(|row| Some((row.get("id").ok()?, read(row)))).collect()
}

async fn events(
    tx: &mut Transaction,
    ids: impl Iterator<Item = Uuid>,
) -> Result<Vec<Row>, StoreError> {
    many(
        "WITH given (event) AS ({rows})
         SELECT id, name, at, partner_id, reseller_id, organization_id, agent_id, message_id,
                contact_id, told
         FROM given CROSS JOIN events WHERE id = given.event",
        ids.map(|id| vec![id.into()]).collect(),
    )
    .fetch_all(tx.on())
    .await
}

/// An event as its row says.
pub(super) fn event(row: &Row) -> Result<Event, StoreError> {
    let columns = Columns { table: "events", row };
    Ok(Event {
        id: EventId(columns.uuid("id")?),
        name: columns.word("name")?,
        at: columns.time("at")?,
        lineage: columns.lineage()?,
        message: columns.optional_uuid("message_id")?.map(MessageId),
        contact: columns.optional_integer("contact_id")?.and_then(ContactId::new),
        told: columns.optional_json("told")?,
    })
}
