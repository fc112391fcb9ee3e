//! A row of `events`: the events that one change announces, told apart by their numbers.

use crate::domain::event::{Event, EventName};
use crate::domain::id::{ContactId, EventId};
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
    let event = Event {
        id,
        name: name.ok_or_else(|| columns.corrupt(format!("{id} has an unknown event name")))?,
        at: columns.time("at")?,
        lineage: columns.lineage()?,
        message: None,
        contact: columns.optional_integer("contact_id")?.and_then(ContactId::new),
        told: columns.optional_json("told")?,
    };
    Ok(Some(Event { message: event.of_message(), ..event }))
}

/// Returns the event that a row of `deliveries` names.
pub fn event_of(row: &Row) -> Result<EventId, StoreError> {
    let columns = Columns { table: "deliveries", row };
    let number = u8::try_from(columns.integer("event_number")?);
    let number = number.map_err(|error| columns.corrupt(error))?;
    Ok(EventId(columns.uuid("event_id")?).nth(number))
}
