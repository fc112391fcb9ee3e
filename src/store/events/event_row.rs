//! A row of `events`: the events that one change announces, told apart by their numbers.

use serde_json::{Value, json};

use crate::domain::event::{About, Event, EventName};
use crate::domain::id::{ContactId, EventId, MessageId};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Row;

/// An event and its position in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlace {
    pub event: EventId,
    pub position: i64,
}

/// Returns the names of the row's events, in order; None for a name that another version wrote.
pub fn names(columns: &Columns<'_>) -> Result<Vec<Option<EventName>>, StoreError> {
    Ok(columns.text("names")?.split(' ').map(|name| name.parse().ok()).collect())
}

/// The field of `told` by which an event names a message whose id is not that of its row.
const MESSAGE: &str = "messageUuid";

/// Returns the `told` of an event's row: its data, or the message that its id does not name.
pub fn told(event: &Event) -> Option<String> {
    let named = event.other_message().map(|id| json!({ MESSAGE: id.to_string() }).to_string());
    named.or_else(|| event.told.as_ref().map(ToString::to_string))
}

/// Returns the message that the `told` of an event's row names.
fn told_message(told: &Value) -> Option<MessageId> {
    told.get(MESSAGE)?.as_str()?.parse().ok()
}

/// Returns the message that the column `named` of an event's row names, if the id does not: it is
/// the `told` of an event with a contact.
pub fn named_message(row: &Row) -> Result<Option<MessageId>, StoreError> {
    let told = Columns { table: "events", row }.optional_json("named")?;
    Ok(told.as_ref().and_then(told_message))
}

/// Returns the condition that a row has an event with this name.
pub fn announces(name: EventName) -> String {
    format!("(' ' || names || ' ') LIKE '% {name} %'")
}

/// Returns the name of an event; None if the row has no such event, Some(None) as in `names`.
pub fn name_of(names: &[Option<EventName>], event: EventId) -> Option<Option<EventName>> {
    names.get(usize::from(event.number().checked_sub(1)?)).copied()
}

/// Returns the events of a row that has a position, in order. The position of the row is that of
/// its last event, so that events after a position are in rows with a greater one.
pub fn places(row: &Row) -> Result<Vec<(EventPlace, Option<EventName>)>, StoreError> {
    let columns = Columns { table: "events", row };
    let (id, names) = (EventId(columns.uuid("id")?), names(&columns)?);
    let before = columns.integer("position")? - i64::try_from(names.len()).unwrap_or(i64::MAX);
    let place =
        |number: u8| EventPlace { event: id.nth(number), position: before + i64::from(number) };
    Ok((1..=EventId::TOGETHER).zip(names).map(|(number, name)| (place(number), name)).collect())
}

/// Reads an event of the row; None if there is none. Fails with `Corrupt` on an unknown name.
pub fn event(row: &Row, id: EventId) -> Result<Option<Event>, StoreError> {
    let columns = Columns { table: "events", row };
    let Some(name) = name_of(&names(&columns)?, id) else { return Ok(None) };
    let name = name.ok_or_else(|| columns.corrupt(format!("{id} has an unknown event name")))?;
    let (message, told) = match columns.optional_json::<Value>("told")? {
        None => (Some(MessageId(id.row())), None),
        Some(told) if name.about() == About::Message => (told_message(&told), None),
        told => (None, told),
    };
    let contact = columns.optional_integer("contact_id")?.and_then(ContactId::new);
    let (at, lineage) = (columns.time("at")?, columns.lineage()?);
    Ok(Some(Event { id, name, at, lineage, message, contact, told }))
}

/// Returns the event that a row of `deliveries` names.
pub fn event_of(row: &Row) -> Result<EventId, StoreError> {
    let columns = Columns { table: "deliveries", row };
    let number = u8::try_from(columns.integer("event_number")?);
    let number = number.map_err(|error| columns.corrupt(error))?;
    Ok(EventId(columns.uuid("event_id")?).nth(number))
}
