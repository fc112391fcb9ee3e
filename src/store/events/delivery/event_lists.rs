//! The log of events as clients read it: forward, by place, what lies in their scope.
//!
//! Rows of one account and of all below it lie in one range of an index, in the order of their
//! places. For a caller who is restricted to some Agents each Agent's range is read apart, so that
//! nothing of others is passed over. What a filter leaves out is passed over, up to a bound.

use super::event_context::Subjects;
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Subject;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{AccountId, EventId};
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{cut, in_range};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};
use crate::store::events::event_row::{EventPlace, announces, name_of, names, places};

/// An event gets its place after its commit, and it is committed about when it happens: whoever asks
/// for those since a moment begins so many milliseconds earlier.
const LAG: i64 = 600_000;

/// Which events of a scope are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// Only those with one of these names; `None` for all.
    pub names: Option<Vec<EventName>>,
    /// Only those that happened then or later.
    pub since: Option<Timestamp>,
}

/// A part of the log, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct EventPage {
    /// Each with what it is about.
    pub events: Vec<(Event, Subject)>,
    /// Up to where it was read, whatever was left out; `None` if there is nothing more.
    pub last: Option<EventPlace>,
    /// More may lie behind.
    pub more: bool,
}

/// An event that has its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    pub place: EventPlace,
    /// `None` of one that another version wrote.
    pub name: Option<EventName>,
    pub at: Timestamp,
    pub lineage: Lineage,
}

/// Where an event stands that a reader names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundEvent {
    /// It has this place.
    At(i64),
    /// It is there, and has no place yet.
    Unplaced,
    /// Its id is older than all that is kept of the scope: it was erased, or never was there.
    Older,
    /// It is not there.
    Unknown,
}

impl Base {
    /// The next `limit` events of `scope` behind `after` that the filter lets through. One that
    /// leaves events out ends with the first of the last of `most` rows that were looked at.
    pub async fn events(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        (limit, most): (u32, u32),
    ) -> Result<EventPage, StoreError> {
        let ranges = ranges(scope);
        if filter.names.as_ref().is_some_and(Vec::is_empty) {
            return Ok(EventPage { events: Vec::new(), last: None, more: false });
        }
        // Found first: what is placed after it was read is behind it.
        let end = match filter.passes_over() {
            true => self.end_of_events(scope, after, most).await?,
            false => None,
        };
        if ranges.is_empty() || filter.passes_over() && end.is_none() {
            return Ok(EventPage { events: Vec::new(), last: None, more: false });
        }
        // A row of which all that the filter lets through lies before, and one more than is wanted.
        let wanted = i64::from(limit).saturating_add(2);
        let until = end.map_or(i64::MAX, |(end, _)| end.position);
        let mut query = of_each(scope, &ranges, |query| {
            query.push(" AND position > ").push_value(after);
            query.push(" AND position < ").push_value(beyond(until));
            filter.condition(query);
            query.push(" ORDER BY position LIMIT ").push_value(wanted);
        });
        query.push(" ORDER BY position LIMIT ").push_value(wanted);
        let mut found = Vec::new();
        for row in query.fetch_all(self.reader()).await? {
            let is_there = |place: &EventPlace| place.position > after && place.position <= until;
            let named = places(&row)?.into_iter().filter(|(_, name)| filter.names_one(*name));
            found.extend(named.map(|(place, _)| place).filter(is_there));
        }
        let is_full = cut(&mut found, limit);
        let ids: Vec<EventId> = found.iter().map(|place| place.event).collect();
        let subjects = Subjects::load(self.reader(), &ids).await?;
        let events = subjects.readable(&ids, &self.repeats)?;
        let walked = end.filter(|_| !is_full);
        let more = is_full || walked.is_some_and(|(_, is_early)| is_early);
        let last = walked.map(|(end, _)| end).or(found.last().copied());
        Ok(EventPage { events, last, more })
    }

    /// Where a walk over about `most` rows of `scope` behind `after` ends, and whether more lie
    /// behind that; `None` if there are none at all.
    async fn end_of_events(
        &self,
        scope: &Scope,
        after: i64,
        most: u32,
    ) -> Result<Option<(EventPlace, bool)>, StoreError> {
        let ranges = ranges(scope);
        if ranges.is_empty() {
            return Ok(None);
        }
        let of_one = most / u32::try_from(ranges.len()).unwrap_or(u32::MAX);
        let mut query = of_each(scope, &ranges, |query| {
            query.push(" AND position > ").push_value(after);
            query.push(" ORDER BY position LIMIT 1 OFFSET ");
            query.push_value(i64::from(of_one.saturating_sub(1)));
        });
        query.push(" ORDER BY position LIMIT 1");
        if let Some(row) = query.fetch_optional(self.reader()).await? {
            let mut behind = places(&row)?.into_iter().filter(|(place, _)| place.position > after);
            return Ok(behind.next().map(|(place, _)| (place, true)));
        }
        let bound = (" AND position > ", after);
        let last = self.end_places(scope, bound, " ORDER BY position DESC LIMIT 1").await?;
        Ok(last.last().map(|place| (*place, false)))
    }

    /// Where an event of `scope` stands. Retention takes the oldest first, and ids grow with time:
    /// one that is not there and is older than the oldest there is behind all that is kept. Of
    /// another's event that says no more than of one that never was.
    pub async fn find_event(
        &self,
        scope: &Scope,
        event: EventId,
    ) -> Result<FoundEvent, StoreError> {
        let mut query = sql("SELECT id, names, position FROM events WHERE id = ");
        query.push_value(event.row()).push(" AND ");
        crate::store::base::page::within(&mut query, scope);
        if let Some(row) = query.fetch_optional(self.reader()).await? {
            let columns = Columns { table: "events", row: &row };
            if columns.optional_integer("position")?.is_some() {
                let place = places(&row)?.into_iter().find(|(place, _)| place.event == event);
                return Ok(
                    place.map_or(FoundEvent::Unknown, |(place, _)| FoundEvent::At(place.position))
                );
            }
            if name_of(&names(&columns)?, event).is_some() {
                return Ok(FoundEvent::Unplaced);
            }
        }
        let bound = (" AND position > ", 0);
        let oldest = self.end_places(scope, bound, " ORDER BY position LIMIT 1").await?;
        Ok(match oldest.first() {
            Some(oldest) if oldest.event <= event => FoundEvent::Unknown,
            _ => FoundEvent::Older,
        })
    }

    /// The last event of `scope` up to a place.
    pub async fn last_event(
        &self,
        scope: &Scope,
        until: i64,
    ) -> Result<Option<EventPlace>, StoreError> {
        // So many rows at most have their last event behind that place, and another one before it.
        const ROWS: &str = " ORDER BY position DESC LIMIT 16";
        let bound = (" AND position < ", beyond(until));
        let found = self.end_places(scope, bound, ROWS).await?;
        Ok(found.into_iter().rfind(|place| place.position <= until))
    }

    /// The events of `scope`, in their order, of the first rows in this one on this side of a place.
    async fn end_places(
        &self,
        scope: &Scope,
        (side, bound): (&'static str, i64),
        order: &'static str,
    ) -> Result<Vec<EventPlace>, StoreError> {
        let ranges = ranges(scope);
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let mut query = of_each(scope, &ranges, |query| {
            query.push(side).push_value(bound).push(order);
        });
        query.push(order);
        let mut found = Vec::new();
        for row in query.fetch_all(self.reader()).await? {
            found.extend(places(&row)?.into_iter().map(|(place, _)| place));
        }
        found.sort_unstable_by_key(|place| place.position);
        Ok(found)
    }

    /// The place that has been given last, whosever event it is.
    pub async fn last_position(&self) -> Result<i64, StoreError> {
        let last = sql("SELECT last_position FROM event_log WHERE id = 1");
        let row = last.fetch_one(self.reader()).await?;
        Columns { table: "event_log", row: &row }.integer("last_position")
    }

    /// A place before all events of `scope` that happened at `since` or later, and not long before
    /// them. Times grow with places, by and large: it is found by halving what lies between.
    pub async fn position_before(
        &self,
        scope: &Scope,
        since: Timestamp,
    ) -> Result<i64, StoreError> {
        let since = since.millis().saturating_sub(LAG);
        let (mut low, mut high) = (0, self.last_position().await?);
        while low < high {
            let middle = low + (high - low) / 2;
            let mut query = sql("SELECT position, at FROM events WHERE ");
            in_range(&mut query, scope);
            query.push(" AND position > ").push_value(middle).push(" ORDER BY position LIMIT 1");
            let row = query.fetch_optional(self.reader()).await?;
            let Some(row) = row else {
                high = middle;
                continue;
            };
            let columns = Columns { table: "events", row: &row };
            match columns.integer("at")? >= since {
                true => high = middle,
                false => low = columns.integer("position")?,
            }
        }
        Ok(low)
    }

    /// The next events behind a place, whosever they are, up to `limit` of them.
    pub async fn placed_after(&self, after: i64, limit: u32) -> Result<Vec<Placed>, StoreError> {
        let rows = sql("SELECT id, position, names, at, partner_id, reseller_id, organization_id,
                               agent_id
                        FROM events WHERE position > $1 ORDER BY position LIMIT $2")
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(self.reader())
        .await?;
        let mut found = Vec::new();
        for row in &rows {
            let columns = Columns { table: "events", row };
            let (at, lineage) = (columns.time("at")?, columns.lineage()?);
            let behind = places(row)?.into_iter().filter(|(place, _)| place.position > after);
            found.extend(behind.map(|(place, name)| Placed { place, name, at, lineage }));
        }
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(found)
    }

    /// These events with what they are about, in this order, whosever they are: for who asks on
    /// nobody's behalf. What cannot be read is left out, and named in the log.
    pub async fn events_named(
        &self,
        events: &[EventId],
    ) -> Result<Vec<(Event, Subject)>, StoreError> {
        let subjects = Subjects::load(self.reader(), events).await?;
        subjects.readable(events, &self.repeats)
    }
}

impl EventFilter {
    /// Everything.
    pub const ALL: Self = Self { names: None, since: None };

    /// Whether an event of this name and time is among them.
    pub fn lets_through(&self, name: EventName, at: Timestamp) -> bool {
        self.names_one(Some(name)) && self.since.is_none_or(|since| at >= since)
    }

    /// Whether one of this name may be among them; `None` of one that another version wrote.
    fn names_one(&self, name: Option<EventName>) -> bool {
        let wanted = |names: &Vec<EventName>| name.is_some_and(|name| names.contains(&name));
        self.names.as_ref().is_none_or(wanted)
    }

    /// Whether it leaves anything out.
    const fn passes_over(&self) -> bool {
        self.names.is_some() || self.since.is_some()
    }

    /// Goes on with the rows of which one event is among them.
    fn condition(&self, query: &mut Statement) {
        if let Some(names) = &self.names {
            let names: Vec<_> = names.iter().copied().map(announces).collect();
            query.push(" AND (").push(&names.join(" OR ")).push(")");
        }
        if let Some(since) = self.since {
            query.push(" AND at >= ").push_value(since);
        }
    }
}

/// The ranges of an index in which a scope's rows lie: its own, or those of its Agents.
fn ranges(scope: &Scope) -> Vec<Option<AccountId>> {
    match scope.permitted() {
        None => vec![None],
        Some(agents) => agents.iter().copied().map(Some).collect(),
    }
}

/// Reads each of these ranges, which `rest` bounds, and all together.
fn of_each(
    scope: &Scope,
    ranges: &[Option<AccountId>],
    rest: impl Fn(&mut Statement),
) -> Statement {
    let mut query = sql("");
    for (number, range) in ranges.iter().enumerate() {
        query.push(if number > 0 { " UNION ALL " } else { "" });
        query
            .push("SELECT id, names, position FROM (SELECT id, names, position FROM events WHERE ");
        if let Some(agent) = range {
            // The sum keeps the planner from the range of the account above, which is too wide.
            query.push("agent_id = ").push_value(*agent).push(" AND 0 + ");
        }
        in_range(&mut query, scope);
        rest(&mut query);
        query.push(") AS walked");
    }
    if ranges.len() > 1 {
        query.varying();
    }
    query
}

/// Rows before this place have all events up to the other one: each has the place of its last.
fn beyond(position: i64) -> i64 {
    position.saturating_add(EventId::TOGETHER.into())
}
