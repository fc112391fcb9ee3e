//! The log of events for whoever reads it: from a place on, and waiting for more.
//!
//! Places are given when somebody reads (`store/event_log.rs`). Of those who wait none asks the
//! store: one task of this process gives places and looks for what is new, when the bell of a commit
//! rings or, for other gateways, every so often, and wakes those whose accounts it concerns. Without
//! anybody who waits it does nothing.

mod waiting;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use self::waiting::Waiters;
pub use self::waiting::{Full, Waiting};
use super::payload;
use crate::domain::clock::Timestamp;
use crate::domain::destination::Payload;
use crate::domain::event::EventName;
use crate::domain::id::{AccountId, EventId, KeyId};
use crate::domain::ports::Wake;
use crate::domain::scope::Scope;
use crate::rules::{AccessRules, PayloadRules};
use crate::store::{EventFilter, EventPlace, Store, StoreError};

/// The log. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventLog {
    store: Store,
    rules: Arc<AccessRules>,
    payload: PayloadRules,
    waiters: Waiters,
    /// Whoever finds somebody else giving places waits for that, and finds little left to do.
    placing: Arc<Mutex<()>>,
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

/// A part of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub events: Vec<Shown>,
    /// Up to where it was read, if anything was.
    pub last: Option<EventPlace>,
    /// More may lie behind.
    pub more: bool,
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
    /// The log of this store, read within these bounds.
    pub fn new(store: Store, rules: Arc<AccessRules>, payload: PayloadRules) -> Self {
        let waiters = Waiters::new(rules.events.max_waiting, rules.events.max_waiting_per_key);
        Self { store, rules, payload, waiters, placing: Arc::default() }
    }

    /// The place behind which a reader of `scope` begins; `None` if the event that it names is not
    /// there any more, or never was in this scope. All that is committed by now has a place then.
    pub async fn begin(&self, scope: &Scope, begin: Begin) -> Result<Option<i64>, StoreError> {
        self.place_all().await?;
        match begin {
            Begin::Oldest => Ok(Some(0)),
            Begin::Now => self.store.last_position().await.map(Some),
            Begin::After(event) => self.store.event_position(scope, event).await,
            Begin::Since(since) => self.store.position_before(scope, since).await.map(Some),
        }
    }

    /// The next events of `scope` behind a place, up to `limit` of them and about as many octets as
    /// a page may have.
    pub async fn read(
        &self,
        scope: &Scope,
        filter: &EventFilter,
        mut after: i64,
        limit: u32,
    ) -> Result<Part, StoreError> {
        let limits = &self.rules.limits;
        let mut part = Part { events: Vec::new(), last: None, more: true };
        let (mut octets, mut left) = (0_usize, limit);
        while part.more && left > 0 && octets < limits.max_page_bytes {
            let bounds = (limits.page_step.min(left), limits.max_walk);
            let page = self.store.events(scope, filter, after, bounds).await?;
            for (event, subject) in &page.events {
                let body = payload::body(event, subject, Payload::Full, &self.payload);
                octets = octets.saturating_add(body.len());
                part.events.push(Shown { id: event.id, name: event.name, body });
            }
            part.more = page.more;
            let Some(last) = page.last else { break };
            (part.last, after) = (Some(last), last.position);
            let found = u32::try_from(page.events.len()).unwrap_or(u32::MAX);
            left = left.saturating_sub(found);
            if found < bounds.0 {
                break;
            }
        }
        Ok(part)
    }

    /// A place among those who wait for what happens to this account and below it, with this key.
    /// Read after it was given: what comes behind what was read then wakes it.
    pub fn wait(&self, key: KeyId, account: AccountId) -> Result<Waiting, Full> {
        self.waiters.join(key, account)
    }

    /// How many wait.
    #[cfg(test)]
    pub(crate) fn wait_count(&self) -> usize {
        self.waiters.count()
    }

    /// Gives places to all that is committed by now.
    async fn place_all(&self) -> Result<(), StoreError> {
        let _turn = self.placing.lock().await;
        let at_once = self.rules.events.place_at_once;
        while self.store.place_events(at_once).await? >= u64::from(at_once) {}
        Ok(())
    }

    /// Gives places and looks for whoever waits, until `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::select! {
            () = stop => {}
            () = self.look() => {}
        }
    }

    async fn look(&self) {
        let poll = self.rules.events.poll();
        loop {
            self.waiters.somebody().await;
            if let Err(error) = self.follow().await {
                tracing::error!(%error, "the log of events cannot be read: trying again");
                sleep(poll).await;
            }
        }
    }

    /// As long as anybody waits.
    async fn follow(&self) -> Result<(), StoreError> {
        let (at_once, poll) = (self.rules.events.place_at_once, self.rules.events.poll());
        let mut seen = self.store.last_position().await?;
        // What got its place before that may have come after somebody looked.
        self.waiters.wake(None);
        while !self.waiters.is_empty() {
            self.place_all().await?;
            loop {
                let placed = self.store.placed_after(seen, at_once).await?;
                let Some((last, _)) = placed.last() else { break };
                seen = *last;
                let concerned = placed.iter().flat_map(|(_, lineage)| lineage.ids()).collect();
                self.waiters.wake(Some(&concerned));
            }
            // Elapsed or rung: both are a reason to look.
            let _rung = timeout(poll, self.waiters.bell()).await;
        }
        Ok(())
    }
}

impl Wake for EventLog {
    fn wake(&self) {
        self.waiters.ring();
    }
}
