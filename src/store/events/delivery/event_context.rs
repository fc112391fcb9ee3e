//! Events with what they are about, for whoever delivers them and whoever lists them: many at a
//! time, by a handful of statements.

use std::collections::HashMap;

use uuid::Uuid;

use crate::domain::contact::Contact;
use crate::domain::delivery::Subject;
use crate::domain::event::{Category, Event};
use crate::domain::id::{ContactId, EventId, MessageId};
use crate::domain::message::Message;
use crate::domain::repeats::{Cause, Repeats};
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Row};
use crate::store::mailbox::contacts::{self, contact};
use crate::store::mailbox::messages::{self, message};

/// Some events and what they name; each row as it could be read.
pub struct Subjects {
    events: HashMap<Uuid, Result<Event, StoreError>>,
    messages: HashMap<Uuid, Result<Message, StoreError>>,
    contacts: HashMap<i64, Result<Contact, StoreError>>,
}

impl Subjects {
    /// Loads the events with these ids.
    pub(in crate::store) async fn load(
        mut on: Connection<'_>,
        ids: impl Iterator<Item = Uuid>,
    ) -> Result<Self, StoreError> {
        let found = events(on.again(), ids).await?;
        let events = by_id(&found, event);
        let told = || events.values().filter_map(|event| event.as_ref().ok());
        let about_contact = |event: &&Event| event.name.category() == Category::Contact;
        let named = told().filter(|event| !about_contact(event)).filter_map(|event| event.message);
        let found = messages::by_ids(on.again(), named).await?;
        let messages = by_id(&found, message);
        let named = told().filter(about_contact).filter_map(|event| event.contact);
        let found = contacts::by_ids(on, named).await?;
        let contacts =
            found.iter().filter_map(|row| Some((row.get("id").ok()?, contact(row)))).collect();
        Ok(Self { events, messages, contacts })
    }

    /// An event and what it is about; `None` if there is no such event.
    pub(in crate::store) fn of(&self, event: Uuid) -> Result<Option<(Event, Subject)>, StoreError> {
        let Some(event) = self.events.get(&event).cloned().transpose()? else { return Ok(None) };
        let subject = self.subject(&event)?;
        Ok(Some((event, subject)))
    }

    /// Those of these events that are there and can be read, in their order: one that another
    /// version wrote, or that is damaged, would hold up all behind it.
    pub(in crate::store) fn readable<'e>(
        &self,
        events: impl Iterator<Item = &'e EventId>,
        repeats: &Repeats,
    ) -> Result<Vec<(Event, Subject)>, StoreError> {
        let mut found = Vec::with_capacity(self.events.len());
        for event in events {
            match self.of(event.0) {
                Ok(one) => found.extend(one),
                Err(error @ StoreError::Corrupt { .. }) => {
                    if let Some(left_out) = repeats.due(Cause::Event) {
                        tracing::error!(event.id = %event, %error, left_out, "an event cannot be read");
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
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

/// Rows by their ids, each as it could be read.
pub fn by_id<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> HashMap<Uuid, Result<T, StoreError>> {
    rows.iter().filter_map(|row| Some((row.get("id").ok()?, read(row)))).collect()
}

async fn events(
    on: Connection<'_>,
    ids: impl Iterator<Item = Uuid>,
) -> Result<Vec<Row>, StoreError> {
    many(
        "WITH given (event) AS ({rows})
         SELECT id, name, at, partner_id, reseller_id, organization_id, agent_id, message_id,
                contact_id, told
         FROM given CROSS JOIN events WHERE id = given.event",
        ids.map(|id| vec![id.into()]).collect(),
    )
    .fetch_all(on)
    .await
}

/// An event as its row says.
pub fn event(row: &Row) -> Result<Event, StoreError> {
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
