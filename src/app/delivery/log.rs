//! The log of events for whoever reads it: from a place on, and waiting for more.
//!
//! Places (`store/events/event_log.rs`) are given on PostgreSQL by one task of this process, a batch at a
//! time, every so often: so no reader finds a backlog of everybody's. Whoever reads gives them to what
//! has come since, up to a bound. Of those who wait none asks the store: the same task looks for what is new,
//! when the bell of a commit rings or, for other gateways, every so often, makes its bodies once
//! (`ring.rs`), and wakes those whose accounts it concerns. Where no event waits for its place,
//! nothing is written.

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
pub use self::waiting::{Full, Waiting};
use super::payload;
use crate::app::mailbox::links::Links;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Content, Subject};
use crate::domain::destination::Payload;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{AccountId, EventId, KeyId};
use crate::domain::ports::Wake;
use crate::domain::scope::Scope;
use crate::rules::{AccessRules, EventRules, PayloadRules};
use crate::store::{EventFilter, EventPlace, FoundEvent, PlacedEvent, Store, StoreError};

/// Older than any event: whoever goes on behind it begins with the oldest.
const BEGINNING: EventId = EventId(Uuid::from_u128(0x7000_8000_0000_0000_0000));

/// The log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventLog {
    store: Store,
    rules: Arc<AccessRules>,
    payload: PayloadRules,
    links: Links,
    waiters: Waiters,
    ring: Ring,
    /// The threads of mail.
    mail: Handle,
    /// Whoever finds somebody else giving places waits for that, and finds little left to do.
    placing: Arc<Mutex<()>>,
    /// More wait for their place than a request gives: the task gets on with it.
    behind: Arc<AtomicBool>,
}

/// Where a reader begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the oldest event that is kept.
    Oldest,
    /// With what happens from now on.
    Now,
    /// Behind this event.
    After(EventId),
    /// With what happened then or later.
    Since(Timestamp),
}

/// Whether a reader can begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// Behind this place.
    At(i64),
    /// The event that it names has no place yet: later.
    Later,
    /// The event that it names is not in this log.
    Unknown,
}

/// A part of the log; one of what got its place lately is the same for all who ask for it.
#[derive(Debug, Default)]
pub struct Part {
    pub events: Vec<Shown>,
    /// The last event of the scope up to which it was read, if there is one.
    pub last: Option<EventPlace>,
    /// More may lie behind.
    pub more: bool,
    /// Up to this place nothing else is of the scope.
    pub through: i64,
    /// Of bodies that were made before it was asked for, what they are about.
    made: Vec<(i64, Content)>,
    text: OnceLock<Bytes>,
}

impl Part {
    /// Text for streams, made by the first to ask.
    pub fn text(&self, write: impl FnOnce(&[Shown]) -> String) -> Bytes {
        self.text.get_or_init(|| write(&self.events).into()).clone()
    }
}

/// An event as webhooks with payload `full` get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub id: EventId,
    pub name: EventName,
    /// JSON in one line.
    pub body: Bytes,
}

impl EventLog {
    /// The log of this store, read within these bounds, with these links in its messages. Made on
    /// the threads of mail.
    pub fn new(store: Store, rules: Arc<AccessRules>, payload: PayloadRules, links: Links) -> Self {
        let (waiters, ring) = (Waiters::new(&rules.events), Ring::new(&rules.events));
        let (placing, behind) = (Arc::default(), Arc::default());
        let mail = Handle::current();
        Self { store, rules, payload, links, waiters, ring, mail, placing, behind }
    }

    /// The place behind which a reader of `scope` begins: with the oldest if the event that it
    /// names is older than all that is kept. All that is committed by now has a place then, unless
    /// that is more than a request gives: then what has one is the log, for now.
    pub async fn begin(&self, scope: &Scope, begin: Begin) -> Result<Begun, StoreError> {
        self.place_some().await?;
        Ok(match begin {
            Begin::Oldest => Begun::At(0),
            Begin::Now => Begun::At(self.store.last_position().await?),
            Begin::Since(since) => Begun::At(self.store.position_before(scope, since).await?),
            Begin::After(event) => match self.store.find_event(scope, event).await? {
                FoundEvent::At(position) => Begun::At(position),
                FoundEvent::Older => Begun::At(0),
                FoundEvent::Unplaced => Begun::Later,
                FoundEvent::Unknown => Begun::Unknown,
            },
        })
    }

    /// Whether more may be committed by now than has its place. Asked before something is read: if
    /// not, all that was committed before the reader began is in the log then.
    pub fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// The id behind which whoever has read `scope` up to a place goes on later: of its last event
    /// there, or, where there is none, one that is older than all.
    pub async fn mark(&self, scope: &Scope, position: i64) -> Result<EventId, StoreError> {
        let last = self.store.last_event(scope, position).await?;
        Ok(last.map_or(BEGINNING, |last| last.event))
    }

    /// As [`Self::read`], for who waits for more: what got its place a moment ago may be missing,
    /// and wakes it then.
    pub async fn read_on(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        after: i64,
        bounds: (u32, usize),
    ) -> Result<Arc<Part>, StoreError> {
        if let Some(part) = self.ring.read(scope, filter, after, bounds) {
            let changed = self.changed(&part).await?;
            if changed.is_empty() {
                return Ok(part);
            }
            self.ring.forget(&changed);
        }
        self.read(scope, filter, after, bounds).await
    }

    /// The places of those bodies that are no longer of what they are about: asked after they were
    /// found, with all who ask.
    async fn changed(&self, part: &Part) -> Result<Vec<i64>, StoreError> {
        let (Some((first, _)), Some((last, _))) = (part.made.first(), part.made.last()) else {
            return Ok(Vec::new());
        };
        let now = self.store.contents_with_others((first.saturating_sub(1), *last)).await?;
        let changed = part.made.iter().filter(|(position, made)| now.get(position) != Some(made));
        Ok(changed.map(|(position, _)| *position).collect())
    }

    /// The next events of `scope` behind a place, up to `limit` of them, and no more than one
    /// beyond `most` octets.
    pub async fn read(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        mut after: i64,
        (limit, most): (u32, usize),
    ) -> Result<Arc<Part>, StoreError> {
        let limits = &self.rules.limits;
        let mut part = Part { more: true, through: after, ..Part::default() };
        let (mut octets, mut left) = (0_usize, limit);
        while part.more && left > 0 && octets < most {
            let bounds = (limits.page_step.min(left), limits.max_walk);
            let page = self.store.events(scope, filter, after, bounds).await?;
            let mut events = page.events.iter();
            for (event, subject) in events.by_ref() {
                let body = self.body(event, subject);
                octets = octets.saturating_add(body.len());
                part.events.push(Shown { id: event.id, name: event.name, body });
                if octets >= most {
                    break;
                }
            }
            let cut = events.next();
            if let (Some(_), Some(shown)) = (cut, part.events.last()) {
                // Behind what is shown, unless it was erased just now: then on with the page.
                if let FoundEvent::At(position) = self.store.find_event(scope, shown.id).await? {
                    part.last = Some(EventPlace { event: shown.id, position });
                    (part.more, part.through) = (true, position);
                    return Ok(Arc::new(part));
                }
                for (event, subject) in cut.into_iter().chain(events) {
                    let body = self.body(event, subject);
                    part.events.push(Shown { id: event.id, name: event.name, body });
                }
            }
            part.more = page.more;
            let Some(last) = page.last else { break };
            (part.last, part.through, after) = (Some(last), last.position, last.position);
            let found = u32::try_from(page.events.len()).unwrap_or(u32::MAX);
            left = left.saturating_sub(found);
            if found < bounds.0 {
                break;
            }
        }
        Ok(Arc::new(part))
    }

    fn body(&self, event: &Event, subject: &Subject) -> Bytes {
        tracing::trace!(event.id = %event.id, "the body of an event is made");
        payload::body(event, subject, Payload::Full, &self.payload, &self.links)
    }

    /// A place among those who wait for what happens in `scope`, with this key of this account.
    /// Read after it was given: what comes behind what was read then wakes it.
    pub fn wait(&self, holder: (KeyId, AccountId), scope: &Scope) -> Result<Waiting, Full> {
        self.waiters.join(holder, scope)
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn wait_count(&self) -> usize {
        self.waiters.count()
    }

    /// Gives places to what is committed by now, as far as a request does.
    async fn place_some(&self) -> Result<(), StoreError> {
        let _turn = self.placing.lock().await;
        let EventRules { place_at_once, place_batches, .. } = self.rules.events;
        for _ in 0..place_batches {
            if self.is_behind() {
                return Ok(());
            }
            // A batch may be short though more wait: only none is the end.
            if self.place(place_at_once).await? == 0 {
                return Ok(());
            }
        }
        self.behind.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Gives places and wakes whoever waits, until `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.look() => {}
        }
    }

    async fn look(&self) {
        // Up to where those who wait know of; nobody waited before.
        let mut seen = None;
        loop {
            if let Err(error) = self.follow(&mut seen).await {
                tracing::error!(%error, "the log of events cannot be kept: trying again");
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
                self.tell(seen).await?;
            }
            if placed > 0 {
                sleep(rules.place_pause()).await;
            } else if seen.is_none() {
                // Elapsed or come: both are a reason to look.
                let _came = timeout(rules.poll(), self.waiters.somebody()).await;
            } else if timeout(rules.poll(), self.waiters.bell()).await.is_ok() {
                // Many commits are looked at once.
                sleep(rules.gather()).await;
            }
        }
    }

    /// On the threads of mail: on the embedded store it holds the one writer, which mail waits for.
    async fn place(&self, limit: u32) -> Result<u64, StoreError> {
        let store = self.store.clone();
        let placing = self.mail.spawn(async move { store.place_events(limit).await });
        // Only threads that end break it off.
        placing.await.unwrap_or(Ok(0))
    }

    async fn place_batch(&self) -> Result<u64, StoreError> {
        let _turn = self.placing.lock().await;
        let placed = self.place(self.rules.events.place_at_once).await?;
        if placed == 0 {
            self.behind.store(false, Ordering::Relaxed);
        }
        Ok(placed)
    }

    /// Makes the bodies of what has got its place since, wakes those whom it concerns, and notes up to
    /// where.
    async fn tell(&self, seen: &mut Option<i64>) -> Result<(), StoreError> {
        let Some(mut from) = *seen else {
            // What got its place before that may have come after somebody looked.
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

    /// With the bodies that somebody waits for; a few in memory at a time as the store has them.
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
            // Each is a good deal of work, and streams share these threads.
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
