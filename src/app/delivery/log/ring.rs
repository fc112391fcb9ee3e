//! Events placed lately, with bodies that were made once for all who wait: within bounds of
//! events, octets and age (`policies/access.toml`). Who has read the log so far reads on here, without
//! asking the store; who is further behind does ask it.
//!
//! A body may be of something that is erased by now: before one is shown, the store says what it is
//! about (`EventLog::read`), and where that has changed, all are forgotten.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::{Part, Shown};
use crate::domain::account::Lineage;
use crate::domain::delivery::Content;
use crate::domain::scope::Scope;
use crate::rules::EventRules;
use crate::store::{EventFilter, PlacedEvent};

/// Parts that are kept for others who ask for the same.
const PARTS: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Ring(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rules: EventRules,
    kept: Mutex<Kept>,
}

/// Events behind `low` up to `high`; none while nobody follows.
#[derive(Debug, Default)]
struct Kept {
    follows: bool,
    low: i64,
    high: i64,
    octets: usize,
    entries: VecDeque<Entry>,
    parts: Vec<(Asked, Arc<Part>)>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) placed: PlacedEvent,
    /// `None` where nobody waited for it, or where it cannot be read.
    pub(super) body: Option<(Content, Bytes)>,
    pub(super) since: Instant,
}

/// The question of a reader.
#[derive(Clone, Debug, PartialEq)]
struct Asked {
    scope: Scope,
    filter: EventFilter,
    after: i64,
    bounds: (u32, usize),
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

    /// Begins anew, behind this place.
    pub(super) fn begin(&self, high: i64) {
        *self.lock() = Kept { follows: true, low: high, high, ..Kept::default() };
    }

    /// Forgets everything: nobody waits.
    pub(super) fn end(&self) {
        *self.lock() = Kept::default();
    }

    /// Goes on with what got its place next, up to `high`.
    pub(super) fn append(&self, entries: Vec<Entry>, high: i64) {
        let rules = &self.0.rules;
        let mut kept = self.lock();
        kept.parts.clear();
        kept.high = high;
        kept.octets += entries.iter().map(Entry::octets).sum::<usize>();
        kept.entries.extend(entries);
        while let Some(first) = kept.entries.front() {
            let is_old = first.since.elapsed() > rules.ring();
            let is_much = kept.entries.len() > rules.ring_events || kept.octets > rules.ring_bytes;
            if !is_old && !is_much {
                break;
            }
            let (low, octets) = (first.placed.place.position, first.octets());
            (kept.low, kept.octets) = (low, kept.octets.saturating_sub(octets));
            kept.entries.pop_front();
        }
    }

    /// The next events behind a place that the filter lets through; `None` where the store must be
    /// asked. Who asks for the same as somebody before gets the same part.
    pub(super) fn read(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        bounds: (u32, usize),
    ) -> Option<Arc<Part>> {
        let mut kept = self.lock();
        if !kept.follows || after < kept.low {
            return None;
        }
        let asked = |one: &&(Asked, Arc<Part>)| {
            let Asked { scope: of, filter: by, after: behind, bounds: within } = &one.0;
            (of, by, *behind, *within) == (scope, filter, after, bounds)
        };
        if let Some((_, part)) = kept.parts.iter().find(asked) {
            return Some(Arc::clone(part));
        }
        let part = Arc::new(kept.part(scope, filter, after, bounds, self.0.rules.ring())?);
        if !part.events.is_empty() && kept.parts.len() < PARTS {
            let asked = Asked { scope: scope.clone(), filter: filter.clone(), after, bounds };
            kept.parts.push((asked, Arc::clone(&part)));
        }
        Some(part)
    }

    /// Forgets what it keeps: a body is out of date.
    pub(super) fn forget(&self) {
        let mut kept = self.lock();
        let (follows, high) = (kept.follows, kept.high);
        *kept = Kept { follows, low: high, high, ..Kept::default() };
    }

    /// Nothing panics while it holds the lock; if something did, what is kept would be whole.
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn part(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        (limit, most): (u32, usize),
        lasts: Duration,
    ) -> Option<Part> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut part = Part { through: self.high.max(after), ..Part::default() };
        let mut octets = 0_usize;
        let begin = self.entries.partition_point(|entry| entry.placed.place.position <= after);
        for entry in self.entries.range(begin..) {
            let PlacedEvent { place, name, at, lineage } = entry.placed;
            if !lies_within(scope, &lineage) {
                continue;
            }
            if part.events.len() >= limit || octets >= most {
                part.through = part.last.map_or(after, |last| last.position);
                part.more = true;
                break;
            }
            if let Some(name) = name.filter(|name| filter.lets_through(*name, at)) {
                let (content, body) = entry.body.as_ref()?;
                if entry.since.elapsed() > lasts {
                    return None;
                }
                octets = octets.saturating_add(body.len());
                part.events.push(Shown { id: place.event, name, body: body.clone() });
                part.made.push((place.position, *content));
            }
            part.last = Some(place);
        }
        Some(part)
    }
}

/// Whether what happened there is in a scope, as the store's statements say.
fn lies_within(scope: &Scope, lineage: &Lineage) -> bool {
    let permitted = |agents: &[_]| lineage.agent.is_some_and(|agent| agents.contains(&agent));
    lineage.at(scope.level()) == Some(scope.root()) && scope.permitted().is_none_or(permitted)
}
