//! Reads events with their subjects, many at a time, by a handful of statements.

use std::collections::{BTreeSet, HashMap};

use uuid::Uuid;

use crate::domain::contact::Contact;
use crate::domain::delivery::Subject;
use crate::domain::event::{About, Event};
use crate::domain::id::EventId;
use crate::domain::message::Message;
use crate::domain::repeats::{LogCause, Repeats};
use crate::store::base::Base;
use crate::store::engine::database::Database;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::sql::{Connection, Row};
use crate::store::events::event_row::event;
use crate::store::mailbox::contacts::{self, contact};
use crate::store::mailbox::messages::{self, message};

/// Rows of events by id, with their messages and contacts, or the errors of reading these.
pub struct Subjects {
    rows: HashMap<Uuid, Row>,
    messages: HashMap<Uuid, Result<Message, StoreError>>,
    contacts: HashMap<i64, Result<Contact, StoreError>>,
}

impl Subjects {
    /// Reads on one connection, which is lent once.
    pub(in crate::store) async fn load(base: &Base, ids: &[EventId]) -> Result<Self, StoreError> {
        let mut lease = match &base.database {
            Database::Postgres(pool) if !ids.is_empty() => Some(pool.lend().await?),
            _ => None,
        };
        let mut on = lease.as_mut().map_or_else(|| base.reader(), Connection::Postgres);
        let wanted: BTreeSet<Uuid> = ids.iter().map(|id| id.row()).collect();
        let found = many(
            "WITH given (event) AS ({rows})
             SELECT id, names, at, partner_id, reseller_id, organization_id, agent_id, contact_id,
                    told
             FROM given CROSS JOIN events WHERE id = given.event",
            wanted.into_iter().map(|id| vec![id.into()]).collect(),
        )
        .fetch_all(on.again())
        .await?;
        let rows: HashMap<Uuid, Row> =
            found.into_iter().filter_map(|row| Some((row.get("id").ok()?, row))).collect();
        let events = ids.iter().filter_map(|id| event(rows.get(&id.row())?, *id).ok().flatten());
        let (about_contacts, others): (Vec<Event>, Vec<Event>) =
            events.partition(|event| event.name.about() == About::Contact);
        let named = others.iter().filter_map(|event| event.message);
        let found = messages::by_ids(on.again(), named).await?;
        let messages = read_by_id(&found, message);
        let named = about_contacts.iter().filter_map(|event| event.contact);
        let found = contacts::by_ids(on, named).await?;
        let contacts =
            found.iter().filter_map(|row| Some((row.get("id").ok()?, contact(row)))).collect();
        Ok(Self { rows, messages, contacts })
    }

    /// Returns an event and its subject; None if there is no such event.
    pub fn find(&self, id: EventId) -> Result<Option<(Event, Subject)>, StoreError> {
        let Some(row) = self.rows.get(&id.row()) else { return Ok(None) };
        let Some(event) = event(row, id)? else { return Ok(None) };
        let subject = self.subject(&event)?;
        Ok(Some((event, subject)))
    }

    /// Returns those of these events that exist and can be read, in order. Logs and skips an event
    /// that another version wrote or that is damaged: it would hold up all events after it.
    pub(in crate::store) fn readable(
        &self,
        events: &[EventId],
        repeats: &Repeats,
    ) -> Result<Vec<(Event, Subject)>, StoreError> {
        let mut found = Vec::with_capacity(events.len());
        for event in events {
            match self.find(*event) {
                Ok(one) => found.extend(one),
                Err(error @ StoreError::Corrupt { .. }) => {
                    if let Some(left_out) = repeats.due(LogCause::Event) {
                        tracing::error!(
                            event.id = %event,
                            %error,
                            left_out,
                            "cannot read an event"
                        );
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
        let found = match (event.name.about(), event.message, event.contact) {
            (About::Contact, _, Some(id)) => {
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

/// Reads rows; returns each result by the id of its row. Skips rows whose id cannot be read.
pub fn read_by_id<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, StoreError>,
) -> HashMap<Uuid, Result<T, StoreError>> {
    rows.iter().filter_map(|row| Some((row.get("id").ok()?, read(row)))).collect()
}
