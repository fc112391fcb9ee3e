//! A row of `events`: all that one change announces, told apart by their numbers.

use crate::domain::event::{Event, EventName};
use crate::domain::id::{ContactId, EventId};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Row;

/// The place of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPlace {
    pub event: EventId,
    pub position: i64,
}

/// The names of the events of a row, in their order; `None` of one that another version wrote.
pub fn names(columns: &Columns<'_>) -> Result<Vec<Option<EventName>>, StoreError> {
    Ok(columns.text("names")?.split(' ').map(|name| name.parse().ok()).collect())
}

/// A condition on a row: one of its events has this name.
pub fn announces(name: EventName) -> String {
    format!("(' ' || names || ' ') LIKE '% {name} %'")
}

/// The name of an event of a row with these; `None` if the row has no such one.
pub fn name_of(names: &[Option<EventName>], event: EventId) -> Option<Option<EventName>> {
    names.get(usize::from(event.number().checked_sub(1)?)).copied()
}

/// The events of a row that has its places, in their order. (The row says the last one: whatever
/// lies behind a place is in rows behind it.)
pub fn places(row: &Row) -> Result<Vec<(EventPlace, Option<EventName>)>, StoreError> {
    let columns = Columns { table: "events", row };
    let (id, names) = (EventId(columns.uuid("id")?), names(&columns)?);
    let before = columns.integer("position")? - i64::try_from(names.len()).unwrap_or(i64::MAX);
    let place =
        |number: u8| EventPlace { event: id.nth(number), position: before + i64::from(number) };
    Ok((1..=EventId::TOGETHER).zip(names).map(|(number, name)| (place(number), name)).collect())
}

/// One of the events of its row; `None` if that has no such one.
pub fn event(row: &Row, id: EventId) -> Result<Option<Event>, StoreError> {
    let columns = Columns { table: "events", row };
    let Some(name) = name_of(&names(&columns)?, id) else { return Ok(None) };
    let event = Event {
        id,
        name: name.ok_or_else(|| columns.corrupt(format!("{id} is called as no event is")))?,
        at: columns.time("at")?,
        lineage: columns.lineage()?,
        message: None,
        contact: columns.optional_integer("contact_id")?.and_then(ContactId::new),
        told: columns.optional_json("told")?,
    };
    Ok(Some(Event { message: event.of_message(), ..event }))
}

/// The event that a row of `deliveries` names.
pub fn event_of(row: &Row) -> Result<EventId, StoreError> {
    let columns = Columns { table: "deliveries", row };
    let number = u8::try_from(columns.integer("event_number")?);
    let number = number.map_err(|error| columns.corrupt(error))?;
    Ok(EventId(columns.uuid("event_id")?).nth(number))
}
