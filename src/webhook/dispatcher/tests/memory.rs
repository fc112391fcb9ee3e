//! A queue in memory that keeps every promise of the trait, under a clock moved by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::time::UNIX_EPOCH;

use tokio::sync::watch;

use super::super::*;
use super::SOON;
use crate::domain::clock::Clock;
use crate::domain::delivery::State;
use crate::domain::destination::Destination;
use crate::domain::id::DeliveryId;
use crate::webhook::sample;

#[derive(Clone, Default)]
pub(super) struct Hands(Arc<AtomicI64>);

impl Hands {
    #[expect(clippy::disallowed_methods, reason = "the published verifier reads the real clock")]
    pub(super) fn clock(&self) -> Clock {
        let ahead = Arc::clone(&self.0);
        Clock::new(move || {
            let now = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let now = Timestamp::from_millis(0).plus(now);
            Timestamp::from_millis(now.millis() + ahead.load(Ordering::SeqCst))
        })
    }

    pub(super) fn forward(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }
}

pub(super) struct Row {
    pub(super) claim: Claim,
    pub(super) due: Timestamp,
    pub(super) leased_until: Option<Timestamp>,
    pub(super) state: State,
    pub(super) attempts: Vec<Attempt>,
}

pub(super) struct Memory {
    clock: Clock,
    lease: Duration,
    rows: Mutex<BTreeMap<DeliveryId, Row>>,
    changes: watch::Sender<usize>,
    pub(super) failing_claims: AtomicU32,
    pub(super) failing_finishes: AtomicU32,
    /// Whether no end is recorded any more.
    pub(super) is_lost: AtomicBool,
    pub(super) claims: AtomicUsize,
    /// How long the first claim takes to arrive.
    pub(super) first_claim_takes: Mutex<Duration>,
    /// Claims are not taken back before this is set.
    pub(super) takes_back: watch::Sender<bool>,
    /// The number of claims that are answered.
    pub(super) answers: watch::Sender<usize>,
    /// Attempts of all destinations halt; only the first claims return any.
    pub(super) halts: AtomicBool,
    pub(super) claims_before_halt: AtomicUsize,
    /// The name under which it claims; 0 while its last beat is too old.
    pub(super) holder: AtomicI64,
    /// How often the name was read.
    pub(super) looks: AtomicUsize,
}

impl Memory {
    pub(super) fn new(hands: &Hands, rules: &WebhookRules) -> Arc<Self> {
        Arc::new(Self {
            clock: hands.clock(),
            lease: rules.dispatcher.lease(),
            rows: Mutex::default(),
            changes: watch::Sender::new(0),
            failing_claims: AtomicU32::new(0),
            failing_finishes: AtomicU32::new(0),
            is_lost: AtomicBool::new(false),
            claims: AtomicUsize::new(0),
            first_claim_takes: Mutex::default(),
            takes_back: watch::Sender::new(true),
            answers: watch::Sender::new(usize::MAX),
            halts: AtomicBool::new(false),
            claims_before_halt: AtomicUsize::new(1),
            holder: AtomicI64::new(1),
            looks: AtomicUsize::new(0),
        })
    }

    pub(super) fn add(&self, id: u128, destination: &Destination) -> DeliveryId {
        let claim = sample::claim(id, destination);
        let key = claim.delivery;
        let (due, state) = (self.clock.now(), State::Pending);
        let row = Row { claim, due, leased_until: None, state, attempts: Vec::new() };
        self.rows.lock().unwrap().insert(key, row);
        key
    }

    pub(super) async fn until(&self, id: DeliveryId, holds: impl Fn(&Row) -> bool) {
        let mut changes = self.changes.subscribe();
        let reached = changes.wait_for(|_| holds(&self.rows.lock().unwrap()[&id]));
        timeout(SOON, reached).await.expect("the row came to no such state").unwrap();
    }

    pub(super) fn read<T>(&self, id: DeliveryId, read: impl Fn(&Row) -> T) -> T {
        read(&self.rows.lock().unwrap()[&id])
    }

    fn claim_now(&self, now: Timestamp, limit: usize, busy: &[DestinationId]) -> Vec<Claim> {
        let mut rows = self.rows.lock().unwrap();
        let mut heads = BTreeSet::new();
        let mut due: Vec<&mut Row> = rows
            .values_mut()
            .filter(|row| row.state == State::Pending)
            .filter(|row| heads.insert(row.claim.destination.id) || !one_by_one(&row.claim))
            .filter(|row| row.due <= now)
            .filter(|row| row.leased_until.is_none_or(|until| until <= now))
            .filter(|row| !busy.contains(&row.claim.destination.id))
            .collect();
        due.sort_by_key(|row| row.due);
        due.into_iter()
            .take(limit)
            .map(|row| {
                row.leased_until = Some(now.plus(self.lease));
                row.claim.fence += 1;
                row.claim.clone()
            })
            .collect()
    }

    pub(super) fn fails(counter: &AtomicU32) -> Result<(), QueueError> {
        let left = counter.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        left.map_or(Ok(()), |_| Err(QueueError::Failed("no disk".into())))
    }
}

/// Claims only the first delivery of an ordered destination (all events here are of one room), or
/// of one that has rested.
fn one_by_one(claim: &Claim) -> bool {
    claim.destination.wants.ordered || claim.destination.health.rests_until.is_some()
}

impl Queue for Memory {
    async fn claim(&self, limit: usize, busy: &[DestinationId]) -> Result<Vec<Claim>, QueueError> {
        let number = self.claims.fetch_add(1, Ordering::SeqCst) + 1;
        Self::fails(&self.failing_claims)?;
        let now = self.clock.now();
        if self.halts.load(Ordering::SeqCst)
            && number > self.claims_before_halt.load(Ordering::SeqCst)
        {
            return Ok(Vec::new());
        }
        let claimed = self.claim_now(now, limit, busy);
        self.changes.send_modify(|count| *count += 1);
        let takes = std::mem::take(&mut *self.first_claim_takes.lock().unwrap());
        sleep(takes).await;
        self.answers.subscribe().wait_for(|most| number <= *most).await.unwrap();
        Ok(claimed)
    }

    async fn finish(
        &self,
        claim: &Claim,
        attempt: Attempt,
        outcome: Outcome,
    ) -> Result<bool, QueueError> {
        if self.is_lost.load(Ordering::SeqCst) {
            return Err(QueueError::Lost("no disk".into()));
        }
        Self::fails(&self.failing_finishes)?;
        {
            let mut rows = self.rows.lock().unwrap();
            let row = rows.get_mut(&claim.delivery).unwrap();
            if row.claim.fence != claim.fence {
                return Ok(false);
            }
            row.attempts.push(attempt);
            row.claim.attempts += 1;
            row.leased_until = None;
            match outcome {
                Outcome::Delivered => row.state = State::Delivered,
                Outcome::RetryAt(at) => row.due = at,
                Outcome::Exhausted => row.state = State::Exhausted,
                Outcome::Gone => {
                    let gone = claim.destination.id;
                    let of_it = rows.values_mut().filter(|row| row.claim.destination.id == gone);
                    of_it.for_each(|row| row.state = State::Cancelled);
                }
            }
        }
        self.changes.send_modify(|count| *count += 1);
        Ok(self.halts.load(Ordering::SeqCst))
    }

    fn holder(&self) -> Option<i64> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Some(self.holder.load(Ordering::SeqCst)).filter(|holder| *holder > 0)
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), QueueError> {
        self.takes_back.subscribe().wait_for(|takes| *takes).await.unwrap();
        let mut rows = self.rows.lock().unwrap();
        for claim in claims {
            let row = rows.get_mut(&claim.delivery).unwrap();
            if row.claim.fence == claim.fence {
                row.leased_until = None;
            }
        }
        drop(rows);
        self.changes.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, QueueError> {
        let rows = self.rows.lock().unwrap();
        Ok(rows.values().filter(|row| row.state == State::Pending).map(|row| row.due).min())
    }
}
