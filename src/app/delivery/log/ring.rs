//! Recently placed events with their bodies, made once for all waiting readers. Events, bytes and
//! age are bounded (`policies/access.toml`). A reader near the end of the log reads here; one
//! further behind reads from the store.
//!
//! A subject may have been erased since its body was made. Before a body is shown, the store
//! reports the subject's state (`EventLog::read_on`); if that changed, the body is dropped, and
//! readers whose range includes its place read from the store.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::time::Instant;

use super::{EventLogBounds, EventLogPage, RenderedEvent};
use crate::app::locked::locked;
use crate::domain::account::Lineage;
use crate::domain::delivery::Content;
use crate::domain::scope::Scope;
use crate::rules::EventRules;
use crate::store::{EventFilter, PlacedEvent};

/// Pages kept for readers with the same request.
const PARTS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Ring(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rules: EventRules,
    kept: Mutex<RingState>,
}

/// Events behind `low` up to `high`; none while no reader waits.
#[derive(Debug, Default)]
struct RingState {
    follows: bool,
    low: i64,
    high: i64,
    octets: usize,
    entries: VecDeque<Entry>,
    parts: Vec<(PageRequest, Arc<EventLogPage>)>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) placed: PlacedEvent,
    /// `None` if no reader waited for the event, or its body is unreadable or out of date.
    pub(super) body: Option<(Content, Bytes)>,
    pub(super) since: Instant,
}

/// The request of a reader.
#[derive(Clone, Debug, PartialEq)]
struct PageRequest {
    scope: Scope,
    filter: EventFilter,
    after: i64,
    bounds: EventLogBounds,
}

impl Entry {
    fn octets(&self) -> usize {
        self.body.as_ref().map_or(0, |(_, body)| body.len())
    }
}

impl Ring {
    pub(super) fn new(rules: &EventRules) -> Self {
        Self(Arc::new(Shared { rules: *rules, kept: Mutex::default() }))
    }

    /// Starts empty behind this place.
    pub(super) fn begin(&self, high: i64) {
        *locked(&self.0.kept) =
            RingState { follows: true, low: high, high, ..RingState::default() };
    }

    /// Drops everything: no reader waits.
    pub(super) fn end(&self) {
        *locked(&self.0.kept) = RingState::default();
    }

    /// Appends the events placed next, up to place `high`, and drops the oldest beyond the bounds.
    pub(super) fn append(&self, entries: Vec<Entry>, high: i64) {
        let mut kept = locked(&self.0.kept);
        kept.parts.clear();
        kept.high = high;
        kept.octets += entries.iter().map(Entry::octets).sum::<usize>();
        kept.entries.extend(entries);
        kept.drop_beyond(&self.0.rules);
    }

    /// Returns the next events behind a place that pass the filter, or None if the store must be
    /// read. Readers with the same request get the same page.
    pub(super) fn read(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        bounds: EventLogBounds,
    ) -> Option<Arc<EventLogPage>> {
        let mut kept = locked(&self.0.kept);
        // Without a new event nothing else drops the old ones.
        kept.drop_beyond(&self.0.rules);
        if !kept.follows || after < kept.low {
            return None;
        }
        let asked = |one: &&(PageRequest, Arc<EventLogPage>)| {
            let PageRequest { scope: of, filter: by, after: behind, bounds: within } = &one.0;
            (of, by, *behind, *within) == (scope, filter, after, bounds)
        };
        if let Some((_, part)) = kept.parts.iter().find(asked) {
            return Some(Arc::clone(part));
        }
        let part = Arc::new(kept.part(scope, filter, after, bounds)?);
        if !part.events.is_empty() && kept.parts.len() < PARTS {
            let asked = PageRequest { scope: scope.clone(), filter: filter.clone(), after, bounds };
            kept.parts.push((asked, Arc::clone(&part)));
        }
        Some(part)
    }

    /// Drops the outdated bodies at these places.
    pub(super) fn forget(&self, changed: &[i64]) {
        let mut kept = locked(&self.0.kept);
        let RingState { entries, parts, octets, .. } = &mut *kept;
        for entry in entries.iter_mut() {
            if changed.contains(&entry.placed.place.position) {
                *octets = octets.saturating_sub(entry.octets());
                entry.body = None;
            }
        }
        parts.retain(|(_, part)| !part.made.iter().any(|(place, _)| changed.contains(place)));
    }
}

impl RingState {
    /// Drops the oldest events beyond the bounds; pages with these begin below `low`.
    fn drop_beyond(&mut self, rules: &EventRules) {
        while let Some(first) = self.entries.front() {
            let is_old = first.since.elapsed() > rules.ring();
            let is_much = self.entries.len() > rules.ring_events || self.octets > rules.ring_bytes;
            if !is_old && !is_much {
                break;
            }
            self.low = first.placed.place.position;
            self.octets = self.octets.saturating_sub(first.octets());
            self.entries.pop_front();
        }
    }

    fn part(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        bounds: EventLogBounds,
    ) -> Option<EventLogPage> {
        let limit = usize::try_from(bounds.events).unwrap_or(usize::MAX);
        let mut part = EventLogPage { through: self.high.max(after), ..EventLogPage::default() };
        let mut octets = 0_usize;
        let begin = self.entries.partition_point(|entry| entry.placed.place.position <= after);
        for entry in self.entries.range(begin..) {
            let PlacedEvent { place, name, at, lineage } = entry.placed;
            if !lies_within(scope, &lineage) {
                continue;
            }
            if part.events.len() >= limit || octets >= bounds.octets {
                part.through = part.last.map_or(after, |last| last.position);
                part.more = true;
                break;
            }
            if let Some(name) = name.filter(|name| filter.lets_through(*name, at)) {
                let (content, body) = entry.body.as_ref()?;
                octets = octets.saturating_add(body.len());
                part.events.push(RenderedEvent { id: place.event, name, body: body.clone() });
                part.made.push((place.position, *content));
            }
            part.last = Some(place);
        }
        Some(part)
    }
}

/// Whether an event with this lineage is in a scope, by the rule of the store's statements.
fn lies_within(scope: &Scope, lineage: &Lineage) -> bool {
    let permitted = |agents: &[_]| lineage.agent.is_some_and(|agent| agents.contains(&agent));
    lineage.at(scope.level()) == Some(scope.root()) && scope.permitted().is_none_or(permitted)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::account::AccountType;
    use crate::domain::clock::Timestamp;
    use crate::domain::event::EventName;
    use crate::domain::id::{AccountId, EventId};
    use crate::rules::Rules;
    use crate::store::EventPlace;

    /// Four events of one account, ten bytes each.
    fn ring() -> (Ring, Scope) {
        let account = AccountId::new(1).unwrap();
        let lineage = Lineage { organization: Some(account), ..Lineage::default() };
        let entry = |position: i64| Entry {
            placed: PlacedEvent {
                place: EventPlace { event: EventId(Uuid::from_u128(7)), position },
                name: Some(EventName::EmailReceived),
                at: Timestamp::from_millis(position),
                lineage,
            },
            body: Some((Content::Message, Bytes::from_static(b"0123456789"))),
            since: Instant::now(),
        };
        let ring = Ring::new(&Rules::defaults().unwrap().access.events);
        ring.begin(0);
        ring.append((1..=4).map(entry).collect(), 4);
        (ring, Scope::subtree(account, AccountType::Organization))
    }

    /// The places of the bodies that are read behind a place without the store.
    fn places(ring: &Ring, scope: &Scope, after: i64) -> Option<Vec<i64>> {
        let part =
            ring.read(scope, &EventFilter::ALL, after, EventLogBounds { events: 9, octets: 999 })?;
        Some(part.made.iter().map(|(place, _)| *place).collect())
    }

    /// Also a page that was made for another reader.
    #[tokio::test(start_paused = true)]
    async fn nothing_older_than_its_bound_is_shown() {
        let (ring, scope) = ring();
        let lasts = ring.0.rules.ring();
        tokio::time::advance(lasts).await;
        assert_eq!(places(&ring, &scope, 0), Some(vec![1, 2, 3, 4]));
        tokio::time::advance(std::time::Duration::from_millis(1)).await;
        assert_eq!(places(&ring, &scope, 0), None);
        assert_eq!(locked(&ring.0.kept).octets, 0);
        // The place behind the last event is read without the store still.
        assert_eq!(places(&ring, &scope, 4), Some(vec![]));
    }

    #[test]
    fn what_changed_is_forgotten_and_nothing_else() {
        let (ring, scope) = ring();
        assert_eq!(places(&ring, &scope, 0), Some(vec![1, 2, 3, 4]));
        assert_eq!(places(&ring, &scope, 2), Some(vec![3, 4]));
        ring.forget(&[2]);
        // Across the dropped place the store must be read; behind it nothing changes.
        for after in [0, 1] {
            assert_eq!(places(&ring, &scope, after), None);
        }
        assert_eq!(places(&ring, &scope, 2), Some(vec![3, 4]));
        assert_eq!(places(&ring, &scope, 3), Some(vec![4]));
        assert_eq!(locked(&ring.0.kept).octets, 30);
    }
}
