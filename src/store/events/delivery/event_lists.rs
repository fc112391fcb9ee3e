//! The log of events as clients read it: forward, by position, within their scope.
//!
//! Rows of an account and of all accounts below it are one range of an index, in the order of
//! positions. For a caller restricted to some Agents, each Agent's range is read separately, so
//! that no rows of others are read in vain. Rows that a filter leaves out are read in vain, up to a
//! limit.

use super::event_context::Subjects;
use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Subject;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{AccountId, EventId};
use crate::domain::scope::Scope;
use crate::store::base::Base;
use crate::store::base::page::{in_range, truncate_page, within};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Row, Statement, sql};
use crate::store::events::event_row::{EventPlace, announces, name_of, names, places};

/// Milliseconds by which a search for a time begins earlier: times do not quite grow with
/// positions, because an event gets its position after its commit.
const LAG: i64 = 600_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFilter {
    /// Only events with one of these names; None for all.
    pub names: Option<Vec<EventName>>,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    pub events: Vec<(Event, Subject)>,
    /// The event up to which the log was read, even if it was left out; None if no events follow.
    pub last: Option<EventPlace>,
    /// More events may follow.
    pub more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedEvent {
    pub place: EventPlace,
    /// None if another version wrote it.
    pub name: Option<EventName>,
    pub at: Timestamp,
    pub lineage: Lineage,
}

/// Where a walk that passes over rows ends.
#[derive(Clone, Copy)]
struct EndOfWalk {
    place: EventPlace,
    rows_follow: bool,
}

/// Result of looking up an event that a reader names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundEvent {
    At(i64),
    /// It exists, but has no position yet.
    Unplaced,
    /// Missing, and older than all kept events of the scope: it was deleted, or never existed.
    Older,
    Unknown,
}

impl Base {
    /// Returns up to `limit` events of `scope` after `after` that pass the filter. With a filter,
    /// the page ends after about `most` rows, whether they pass or not.
    pub async fn events(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        limit: u32,
        most: u32,
    ) -> Result<EventPage, StoreError> {
        if filter.names.as_ref().is_some_and(Vec::is_empty) {
            return Ok(EventPage::default());
        }
        let mut end = None;
        if filter.leaves_out() {
            // Read before the events: events that get a position meanwhile come after this end.
            end = self.end_of_walk_over_events(scope, after, most).await?;
            if end.is_none() {
                return Ok(EventPage::default());
            }
        }
        // One extra row shows that more follow; one replaces a first row that matches only by an
        // event up to `after`.
        let wanted = i64::from(limit).saturating_add(2);
        let until = end.map_or(i64::MAX, |end| end.place.position);
        let rows = self.fetch_ranges(
            scope,
            |query| {
                query.push(" AND position > ").push_value(after);
                query.push(" AND position < ").push_value(beyond(until));
                filter.condition(query);
                query.push(" ORDER BY position LIMIT ").push_value(wanted)
            },
            |query| query.push(" ORDER BY position LIMIT ").push_value(wanted),
        );
        let mut found = Vec::new();
        for row in rows.await? {
            let is_there = |place: &EventPlace| place.position > after && place.position <= until;
            let named = places(&row)?.into_iter().filter(|(_, name)| filter.admits_name(*name));
            found.extend(named.map(|(place, _)| place).filter(is_there));
        }
        let is_full = truncate_page(&mut found, limit);
        let ids: Vec<EventId> = found.iter().map(|place| place.event).collect();
        let events = self.events_named(&ids).await?;
        let end = end.filter(|_| !is_full);
        let more = is_full || end.is_some_and(|end| end.rows_follow);
        let last = end.map(|end| end.place).or(found.last().copied());
        Ok(EventPage { events, last, more })
    }

    /// Returns where a walk over about `most` rows after `after` ends; None if no events follow.
    async fn end_of_walk_over_events(
        &self,
        scope: &Scope,
        after: i64,
        most: u32,
    ) -> Result<Option<EndOfWalk>, StoreError> {
        let ranges = scope.permitted().map_or(1, |agents| agents.len().max(1));
        let of_one = most / u32::try_from(ranges).unwrap_or(u32::MAX);
        let offset = i64::from(of_one.saturating_sub(1));
        let rows = self.fetch_ranges(
            scope,
            |query| {
                query.push(" AND position > ").push_value(after);
                query.push(" ORDER BY position LIMIT 1 OFFSET ").push_value(offset)
            },
            |query| query.push(" ORDER BY position LIMIT 1"),
        );
        if let Some(row) = rows.await?.first() {
            let mut behind = places(row)?.into_iter().filter(|(place, _)| place.position > after);
            return Ok(behind.next().map(|(place, _)| EndOfWalk { place, rows_follow: true }));
        }
        let newest = " ORDER BY position DESC LIMIT 1";
        let last = self.end_places(scope, " AND position > ", after, newest).await?;
        Ok(last.last().map(|place| EndOfWalk { place: *place, rows_follow: false }))
    }

    /// Looks up an event of `scope`. Retention deletes the oldest events first, and ids grow with
    /// time: a missing event that is older than the oldest kept one was deleted, if it ever
    /// existed. For an event outside the scope, returns the result of one that never existed.
    pub async fn find_event(
        &self,
        scope: &Scope,
        event: EventId,
    ) -> Result<FoundEvent, StoreError> {
        let mut query = sql("SELECT id, names, position FROM events WHERE id = ");
        query.push_value(event.row()).push(" AND ");
        within(&mut query, scope);
        if let Some(row) = query.fetch_optional(self.reader()).await? {
            let columns = Columns { table: "events", row: &row };
            if columns.optional_integer("position")?.is_some() {
                let mut places = places(&row)?.into_iter().map(|(place, _)| place);
                let place = places.find(|place| place.event == event);
                return Ok(place.map_or(FoundEvent::Unknown, |it| FoundEvent::At(it.position)));
            }
            if name_of(&names(&columns)?, event).is_some() {
                return Ok(FoundEvent::Unplaced);
            }
        }
        let first = " ORDER BY position LIMIT 1";
        let oldest = self.end_places(scope, " AND position > ", 0, first).await?;
        Ok(match oldest.first() {
            Some(oldest) if oldest.event <= event => FoundEvent::Unknown,
            _ => FoundEvent::Older,
        })
    }

    /// Returns the last event of `scope` up to a position.
    pub async fn last_event(
        &self,
        scope: &Scope,
        until: i64,
    ) -> Result<Option<EventPlace>, StoreError> {
        // Fewer than 16 of these rows have all their events after the position.
        const ROWS: &str = " ORDER BY position DESC LIMIT 16";
        let found = self.end_places(scope, " AND position < ", beyond(until), ROWS).await?;
        Ok(found.into_iter().rfind(|place| place.position <= until))
    }

    /// Returns the events of the first rows, in `order`, on this side of a position.
    async fn end_places(
        &self,
        scope: &Scope,
        side: &'static str,
        bound: i64,
        order: &'static str,
    ) -> Result<Vec<EventPlace>, StoreError> {
        let rows = self.fetch_ranges(
            scope,
            |query| query.push(side).push_value(bound).push(order),
            |query| query.push(order),
        );
        let mut found = Vec::new();
        for row in rows.await? {
            found.extend(places(&row)?.into_iter().map(|(place, _)| place));
        }
        found.sort_unstable_by_key(|place| place.position);
        Ok(found)
    }

    /// Reads the index ranges of a scope: its account's, or one per permitted Agent. `bounds`
    /// appends the bounds and the order of each, `order` those of the whole.
    async fn fetch_ranges(
        &self,
        scope: &Scope,
        bounds: impl Fn(&mut Statement) -> &mut Statement,
        order: impl FnOnce(&mut Statement) -> &mut Statement,
    ) -> Result<Vec<Row>, StoreError> {
        let ranges: Vec<Option<AccountId>> = match scope.permitted() {
            None => vec![None],
            Some([]) => return Ok(Vec::new()),
            Some(agents) => agents.iter().copied().map(Some).collect(),
        };
        let mut query = sql("");
        for (number, range) in ranges.iter().enumerate() {
            query.push(if number > 0 { " UNION ALL " } else { "" });
            query.push("SELECT id, names, position FROM (");
            query.push("SELECT id, names, position FROM events WHERE ");
            if let Some(agent) = range {
                // `0 +` keeps the planner off the index range of the account above, which is too
                // wide.
                query.push("agent_id = ").push_value(*agent).push(" AND 0 + ");
            }
            in_range(&mut query, scope);
            bounds(&mut query).push(") AS walked");
        }
        if ranges.len() > 1 {
            query.varying();
        }
        order(&mut query);
        query.fetch_all(self.reader()).await
    }

    /// Returns the last position that was given, in any account.
    pub async fn last_position(&self) -> Result<i64, StoreError> {
        let last = sql("SELECT last_position FROM event_log WHERE id = 1");
        let row = last.fetch_one(self.reader()).await?;
        Columns { table: "event_log", row: &row }.integer("last_position")
    }

    /// Returns a position before all events of `scope` at `since` or later, and not long before
    /// them. Times grow with positions, apart from `LAG`: a binary search finds it.
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

    /// Returns up to `limit` events of all accounts after a position.
    pub async fn placed_after(
        &self,
        after: i64,
        limit: u32,
    ) -> Result<Vec<PlacedEvent>, StoreError> {
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
            found.extend(behind.map(|(place, name)| PlacedEvent { place, name, at, lineage }));
        }
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(found)
    }

    /// Returns these events with their subjects, in order, of any account: for work without a
    /// caller. Logs and skips events that cannot be read.
    pub async fn events_named(
        &self,
        events: &[EventId],
    ) -> Result<Vec<(Event, Subject)>, StoreError> {
        let subjects = Subjects::load(self, events).await?;
        subjects.readable(events, &self.repeats)
    }
}

impl EventFilter {
    pub const ALL: Self = Self { names: None, since: None };

    pub fn lets_through(&self, name: EventName, at: Timestamp) -> bool {
        self.admits_name(Some(name)) && self.since.is_none_or(|since| at >= since)
    }

    /// Whether an event of this name may pass; None if another version wrote the name.
    fn admits_name(&self, name: Option<EventName>) -> bool {
        let wanted = |names: &Vec<EventName>| name.is_some_and(|name| names.contains(&name));
        self.names.as_ref().is_none_or(wanted)
    }

    /// Whether the filter leaves events out.
    const fn leaves_out(&self) -> bool {
        self.names.is_some() || self.since.is_some()
    }

    /// Appends the condition that a row has an event that passes.
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

/// Returns a bound: the rows below it include those of all events up to `position`.
fn beyond(position: i64) -> i64 {
    position.saturating_add(EventId::TOGETHER.into())
}
