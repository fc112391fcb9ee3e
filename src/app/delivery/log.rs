//! The log of events for its readers: reading from a place on, and waiting for more.
//!
//! On PostgreSQL an event gets its place in the log after its commit (`store/events/event_log.rs`);
//! on SQLite with it. One task of this process gives places, a batch at a time, at intervals, so
//! that no reader finds a backlog. A reader that begins gives places to recent events as well, up
//! to a bound.
//!
//! Waiting readers do not poll the store. The same task looks for new events when a commit rings
//! the bell, and at intervals, for other gateways. It makes each body once (`ring.rs`) and wakes
//! the readers whose accounts are concerned. Without unplaced events it writes nothing.
//!
//! Locks: `placing` is held while the store gives places, which take turns by its gate `event log`.
//! The mutexes of `ring` and `waiting` are leaves: nobody holds one across an await or takes
//! another inside.

mod ring;
mod waiting;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

use self::ring::{Entry, Ring};
use self::waiting::Waiters;
pub use self::waiting::{TooManyReaders, Waiting};
use super::payload;
use crate::app::mailbox::links::Links;
use crate::app::panics::caught;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Content, Subject};
use crate::domain::destination::Payload;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{AccountId, EventId, KeyId};
use crate::domain::ports::Wake;
use crate::domain::scope::Scope;
use crate::rules::{AccessRules, EventRules, PayloadRules};
use crate::store::{
    EventFilter, EventPlace, FoundEvent, PlacedEvent, PositionRange, Store, StoreError,
};

/// An id older than any event's: a reader that continues behind it begins with the oldest event.
const BEGINNING: EventId = EventId(Uuid::from_u128(0x7000_8000_0000_0000_0000));

#[derive(Clone, Debug)]
pub struct EventLog {
    store: Store,
    rules: Arc<AccessRules>,
    payload: PayloadRules,
    links: Links,
    waiters: Waiters,
    ring: Ring,
    /// The runtime of mail.
    mail: Handle,
    /// Held while places are given. A second task waits, and then finds little left to do.
    placing: Arc<Mutex<()>>,
    /// More events wait for a place than one request places: the task of `run` continues.
    behind: Arc<AtomicBool>,
}

/// The event with which a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// The oldest event that is kept.
    Oldest,
    /// Only events from now on.
    Now,
    /// The first event behind this one.
    After(EventId),
    /// The first event at this time or later.
    Since(Timestamp),
}

/// The result of looking for a beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Behind this place.
    At(i64),
    /// The named event has no place yet: try again later.
    Later,
    /// The named event is not in this log.
    Unknown,
}

/// The most events of a page, and the bytes after which no further event begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLogBounds {
    pub events: u32,
    pub octets: usize,
}

/// A page of the log. Readers who ask for the same recent events share one.
#[derive(Debug, Default)]
pub struct EventLogPage {
    pub events: Vec<RenderedEvent>,
    /// The last event of the scope that was read, if any.
    pub last: Option<EventPlace>,
    /// More events may follow.
    pub more: bool,
    /// The scope has no other events up to this place.
    pub through: i64,
    /// For bodies made before the request: their places, and the state of their subjects.
    made: Vec<(i64, Content)>,
    text: OnceLock<Bytes>,
}

impl EventLogPage {
    /// Returns the text of this page for streams. The first caller makes it.
    pub fn text(&self, write: impl FnOnce(&[RenderedEvent]) -> String) -> Bytes {
        self.text.get_or_init(|| write(&self.events).into()).clone()
    }
}

/// An event as webhooks with payload `full` get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedEvent {
    pub id: EventId,
    pub name: EventName,
    pub body: Bytes,
}

impl EventLog {
    /// Call it on the runtime of mail, which gives places.
    pub fn new(store: Store, rules: Arc<AccessRules>, payload: PayloadRules, links: Links) -> Self {
        let (waiters, ring) = (Waiters::new(&rules.events), Ring::new(&rules.events));
        let (placing, behind) = (Arc::default(), Arc::default());
        let mail = Handle::current();
        Self { store, rules, payload, links, waiters, ring, mail, placing, behind }
    }

    /// Returns the place behind which a reader of `scope` begins; 0 if the named event is older
    /// than all kept ones. First gives places to what is committed, up to a bound. Beyond that
    /// bound, the log ends for now at the last placed event.
    pub async fn begin(&self, scope: &Scope, begin: Begin) -> Result<Beginning, StoreError> {
        self.place_some().await?;
        Ok(match begin {
            Begin::Oldest => Beginning::At(0),
            Begin::Now => Beginning::At(self.store.last_position().await?),
            Begin::Since(since) => Beginning::At(self.store.position_before(scope, since).await?),
            Begin::After(event) => match self.store.find_event(scope, event).await? {
                FoundEvent::At(position) => Beginning::At(position),
                FoundEvent::Older => Beginning::At(0),
                FoundEvent::Unplaced => Beginning::Later,
                FoundEvent::Unknown => Beginning::Unknown,
            },
        })
    }

    /// Whether committed events may still lack places. Ask before reading: after false, the log has
    /// all events committed before the reader began.
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// Returns the id behind which a reader of `scope` continues: that of the last event up to
    /// `position`, or one older than all if there is none.
    pub async fn mark(&self, scope: &Scope, position: i64) -> Result<EventId, StoreError> {
        let last = self.store.last_event(scope, position).await?;
        Ok(last.map_or(BEGINNING, |last| last.event))
    }

    /// Like [`Self::read`], for readers that wait for more. May miss an event that was placed a
    /// moment ago; that event wakes the reader.
    pub async fn read_on(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        bounds: EventLogBounds,
    ) -> Result<Arc<EventLogPage>, StoreError> {
        if let Some(part) = self.ring.read(scope, filter, after, bounds) {
            let changed = self.changed(&part).await?;
            if changed.is_empty() {
                return Ok(part);
            }
            self.ring.forget(&changed);
        }
        self.read(scope, filter, after, bounds).await
    }

    /// Returns the places of bodies whose subjects have changed since. Readers share one look-up in
    /// the store, after they found the bodies.
    async fn changed(&self, part: &EventLogPage) -> Result<Vec<i64>, StoreError> {
        let (Some((first, _)), Some((last, _))) = (part.made.first(), part.made.last()) else {
            return Ok(Vec::new());
        };
        let range = PositionRange { after: first.saturating_sub(1), until: *last };
        let now = self.store.current_contents(range).await?;
        let changed = part.made.iter().filter(|(position, made)| now.get(position) != Some(made));
        Ok(changed.map(|(position, _)| *position).collect())
    }

    /// Reads the next events of `scope` behind a place, within these bounds.
    pub async fn read(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        mut after: i64,
        bounds: EventLogBounds,
    ) -> Result<Arc<EventLogPage>, StoreError> {
        let limits = &self.rules.limits;
        let mut part = EventLogPage { more: true, through: after, ..EventLogPage::default() };
        let (mut octets, mut left) = (0_usize, bounds.events);
        while part.more && left > 0 && octets < bounds.octets {
            let step = limits.page_step.min(left);
            let page = self.store.events(scope, filter, after, step, limits.max_walk).await?;
            let mut events = page.events.iter();
            for (event, subject) in events.by_ref() {
                let body = self.body(event, subject);
                octets = octets.saturating_add(body.len());
                part.events.push(RenderedEvent { id: event.id, name: event.name, body });
                if octets >= bounds.octets {
                    break;
                }
            }
            let cut = events.next();
            if let (Some(_), Some(shown)) = (cut, part.events.last()) {
                // Continue behind the last shown event. If it was just erased, show the rest of the
                // page.
                if let FoundEvent::At(position) = self.store.find_event(scope, shown.id).await? {
                    part.last = Some(EventPlace { event: shown.id, position });
                    (part.more, part.through) = (true, position);
                    return Ok(Arc::new(part));
                }
                for (event, subject) in cut.into_iter().chain(events) {
                    let body = self.body(event, subject);
                    part.events.push(RenderedEvent { id: event.id, name: event.name, body });
                }
            }
            part.more = page.more;
            let Some(last) = page.last else { break };
            (part.last, part.through, after) = (Some(last), last.position, last.position);
            let found = u32::try_from(page.events.len()).unwrap_or(u32::MAX);
            left = left.saturating_sub(found);
            if found < step {
                break;
            }
        }
        Ok(Arc::new(part))
    }

    fn body(&self, event: &Event, subject: &Subject) -> Bytes {
        tracing::trace!(event.id = %event.id, "building the body of an event");
        payload::body(event, subject, Payload::Full, &self.payload, &self.links)
    }

    /// Registers a reader of `scope` with this key of this account. Read after this call: later
    /// events wake the reader.
    pub fn wait(
        &self,
        key: KeyId,
        account: AccountId,
        scope: &Scope,
    ) -> Result<Waiting, TooManyReaders> {
        self.waiters.join(key, account, scope)
    }

    #[cfg(test)]
    pub(crate) fn wait_count(&self) -> usize {
        self.waiters.count()
    }

    /// Gives places to committed events, up to `place_batches` batches; none while `run` is behind.
    async fn place_some(&self) -> Result<(), StoreError> {
        let _turn = self.placing.lock().await;
        let EventRules { place_at_once, place_batches, .. } = self.rules.events;
        for _ in 0..place_batches {
            if self.is_behind() {
                return Ok(());
            }
            // A batch may be short although more events wait; only an empty one is the end.
            if self.place(place_at_once).await? == 0 {
                return Ok(());
            }
        }
        self.behind.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives places and wakes readers, until `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.place_and_wake() => {}
        }
    }

    async fn place_and_wake(&self) {
        // The place up to which readers were told; `None` while none waits.
        let mut seen = None;
        loop {
            // A panic, over the text of some event, must not end this for all readers.
            let ended = caught(self.follow(&mut seen)).await;
            let ended = ended.unwrap_or_else(|_panic| {
                seen = None;
                Err(StoreError::Ended)
            });
            if let Err(error) = ended {
                tracing::error!(%error, "cannot write the event log: trying again");
                sleep(self.rules.events.poll()).await;
            }
        }
    }

    async fn follow(&self, seen: &mut Option<i64>) -> Result<(), StoreError> {
        let rules = &self.rules.events;
        loop {
            let placed = self.place_batch().await?;
            if self.waiters.is_empty() {
                self.ring.end();
                *seen = None;
            } else {
                self.wake_concerned(seen).await?;
            }
            if placed > 0 {
                sleep(rules.place_pause()).await;
            } else if seen.is_none() {
                // Either outcome is a reason to look.
                let _came = timeout(rules.poll(), self.waiters.wait_for_reader()).await;
            } else if timeout(rules.poll(), self.waiters.bell()).await.is_ok() {
                // Handles the events of many commits together.
                sleep(rules.gather()).await;
            }
        }
    }

    /// Runs on the threads of mail. The transaction holds the gate `event log` of all gateways, so
    /// it must not wait behind requests. It goes on if the caller is dropped.
    async fn place(&self, limit: u32) -> Result<u64, StoreError> {
        let store = self.store.clone();
        let placing = self.mail.spawn(async move { store.place_events(limit).await });
        // It panicked, or the runtime ends.
        placing.await.unwrap_or(Err(StoreError::Ended))
    }

    async fn place_batch(&self) -> Result<u64, StoreError> {
        let _turn = self.placing.lock().await;
        let placed = self.place(self.rules.events.place_at_once).await?;
        if placed == 0 {
            self.behind.store(false, Ordering::Relaxed);
        }
        Ok(placed)
    }

    /// Makes the bodies of newly placed events, wakes the readers concerned, and advances `seen`.
    async fn wake_concerned(&self, seen: &mut Option<i64>) -> Result<(), StoreError> {
        let Some(mut from) = *seen else {
            // Wake all: an event may have got its place after a reader looked.
            let last = self.store.last_position().await?;
            self.ring.begin(last);
            self.waiters.wake_all();
            *seen = Some(last);
            return Ok(());
        };
        loop {
            let placed = self.store.placed_after(from, self.rules.events.place_at_once).await?;
            let Some(last) = placed.last() else { return Ok(()) };
            let last = last.place.position;
            let happened: HashSet<AccountId> =
                placed.iter().flat_map(|one| one.lineage.ids()).collect();
            self.ring.append(self.entries(placed).await?, last);
            self.waiters.wake(&happened, from);
            from = last;
            *seen = Some(last);
        }
    }

    /// Adds the bodies that readers wait for. Only a few subjects are in memory at a time.
    async fn entries(&self, placed: Vec<PlacedEvent>) -> Result<Vec<Entry>, StoreError> {
        let concerned = self.waiters.concerned();
        let is_wanted = |one: &&PlacedEvent| one.lineage.ids().any(|id| concerned.contains(&id));
        let wanted: Vec<EventId> =
            placed.iter().filter(is_wanted).map(|one| one.place.event).collect();
        let (mut bodies, since) = (HashMap::with_capacity(wanted.len()), Instant::now());
        let step = usize::try_from(self.rules.limits.page_step).unwrap_or(usize::MAX);
        for some in wanted.chunks(step) {
            for (event, subject) in self.store.events_named(some).await? {
                bodies.insert(event.id, (subject.content(), self.body(&event, &subject)));
            }
            // Making bodies takes time, and streams share these threads.
            yield_now().await;
        }
        let entry =
            |placed: PlacedEvent| Entry { body: bodies.remove(&placed.place.event), placed, since };
        Ok(placed.into_iter().map(entry).collect())
    }
}

impl Wake for EventLog {
    fn wake(&self) {
        self.waiters.ring();
    }
}
