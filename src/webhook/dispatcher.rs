//! The loop that claims due deliveries and has them attempted.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::attempt::{Post, Sender};
use super::lanes::{Bounds, Lanes, Offer};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Attempt, Claim, Outcome, TAKEN_OF_EACH};
use crate::domain::id::DestinationId;
use crate::domain::ports::Wake;
use crate::egress::client::{AfterResponse, Client};
use crate::rules::WebhookRules;
use crate::shutdown::Shutdown;

/// The queue failed; the dispatcher tries again, unless it is lost.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("the delivery queue failed")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    #[error("the delivery queue did not answer in time")]
    TooSlow,
    /// Nothing will be recorded any more: the process must end.
    #[error("the delivery queue is lost")]
    Lost(#[source] Box<dyn Error + Send + Sync>),
}

/// Where deliveries wait. A claim is leased: if it is not finished within the lease of
/// `policies/webhooks.toml`, the delivery is due again, under a higher fence.
pub trait Queue: Send + Sync + 'static {
    /// Claims up to `limit` due deliveries, the longest due first, none for a destination in
    /// `busy`. Several may be for one destination ([`TAKEN_OF_EACH`] at least, if so many are due
    /// and the limit allows). Of an ordered destination at most one per room is claimed at a time:
    /// the next one only once that is finished or its lease has ended.
    fn claim(
        &self,
        limit: usize,
        busy: &[DestinationId],
    ) -> impl Future<Output = Result<Vec<Claim>, QueueError>> + Send;

    /// Records an attempt and its consequences, in one transaction. Changes nothing, without an
    /// error, if the claim's fence is not the latest of its delivery. Returns true if no more
    /// attempts may begin for the destination, because it rests, for example.
    fn finish(
        &self,
        claim: &Claim,
        attempt: Attempt,
        outcome: Outcome,
    ) -> impl Future<Output = Result<bool, QueueError>> + Send;

    /// Gives back claims that were not begun: they are due again at once.
    fn release(&self, claims: &[Claim]) -> impl Future<Output = Result<(), QueueError>> + Send;

    /// Returns the name under which this gateway claims. None while its last beat is too old: other
    /// gateways may have taken over its claims, so none may begin. After a change of name, claims
    /// under the old name never begin.
    fn holder(&self) -> Option<i64>;

    /// Returns when the next delivery is due in steady time, perhaps in the past; None if none
    /// waits.
    fn next_due(&self) -> impl Future<Output = Result<Option<Timestamp>, QueueError>> + Send;
}

/// Wakes the dispatcher. Clones share one bell; a ring while the dispatcher works is not lost.
#[derive(Clone, Debug, Default)]
pub struct Bell(Arc<Notify>);

impl From<Arc<Notify>> for Bell {
    fn from(bell: Arc<Notify>) -> Self {
        Self(bell)
    }
}

impl Wake for Bell {
    fn wake(&self) {
        self.0.notify_one();
    }
}

/// The end of one attempt, for the lanes.
struct AttemptEnd {
    destination: DestinationId,
    took: Duration,
    /// No more attempts may begin for the destination.
    halts: bool,
    /// Other deliveries of the destination may be due now that no claim has seen: the next of the
    /// room, or those that waited for a probe.
    frees: bool,
    unrecorded: Option<Unrecorded>,
}

struct Unrecorded {
    claim: Arc<Claim>,
    attempt: Attempt,
}

enum QueueReply {
    /// The result of a claim, asked for at `at`, as `holder`, for `limit` deliveries.
    Claims {
        at: Instant,
        holder: Option<i64>,
        limit: usize,
        claims: Result<Vec<Claim>, QueueError>,
    },
    /// How long no delivery is due.
    Pause(Duration),
}

pub struct Dispatcher<Q, P = Client> {
    queue: Arc<Q>,
    sender: Sender<P>,
    bell: Bell,
    lanes: Lanes<Box<Claim>>,
    running: JoinSet<AttemptEnd>,
    /// Delivered attempts being recorded. They hold no place of their destination: on a busy disk
    /// the next attempt must not wait for the last record.
    recording: JoinSet<()>,
    returning: JoinSet<()>,
    /// One request to the queue at most: attempts begin and end while it runs.
    asking: JoinSet<QueueReply>,
    /// The destinations that were busy at the last claim.
    passed_over: HashSet<DestinationId>,
    /// Destinations halted since the last claim was asked for: no more attempts may begin.
    halted: HashSet<DestinationId>,
    /// More work may be due than the claim under way has seen.
    may_have_more: bool,
    /// The name under which the waiting claims in lanes were made.
    holder: Option<i64>,
    /// The earliest time of the next request to the queue.
    ask_at: Instant,
    /// Failures of the queue in a row.
    failures: u32,
}

impl<Q: Queue, P: Post> Dispatcher<Q, P> {
    pub fn new(queue: Arc<Q>, sender: Sender<P>, bell: Bell) -> Self {
        let lanes = Lanes::new(Bounds::from(sender.rules.as_ref()));
        Self {
            queue,
            sender,
            bell,
            lanes,
            running: JoinSet::new(),
            recording: JoinSet::new(),
            returning: JoinSet::new(),
            asking: JoinSet::new(),
            passed_over: HashSet::new(),
            halted: HashSet::new(),
            may_have_more: false,
            holder: None,
            ask_at: Instant::now(),
            failures: 0,
        }
    }

    /// Runs until the soft stop. Then it claims nothing new, gives back claims not begun, and
    /// finishes attempts under way. Dropping the future aborts all attempts; the queue offers them
    /// again when their lease ends.
    pub async fn run(mut self, shutdown: Shutdown) {
        while !shutdown.is_stopping() {
            let now = Instant::now();
            if self.may_begin() {
                for claim in self.lanes.ready(now) {
                    self.start(claim);
                }
            }
            let places = self.lanes.free() > 0 && self.recording.len() < self.most();
            let may_ask = places && self.asking.is_empty();
            if may_ask && now >= self.ask_at {
                self.ask();
                continue;
            }
            // In one order, so that a simulation is repeated by its seed. Ends come first, as they may
            // halt what a claim brings; there are no more of them than attempts under way.
            tokio::select! {
                biased;
                () = shutdown.soft() => break,
                Some(ended) = self.running.join_next() => self.handle_end(ended),
                Some(asked) = self.asking.join_next() => self.handle_reply(asked, &shutdown),
                Some(_) = self.recording.join_next() => {}
                Some(_) = self.returning.join_next() => {}
                () = self.bell.0.notified() => self.ask_soon(),
                () = sleep_until(self.ask_at), if may_ask => {}
            }
        }
        self.give_back_all();
        // Not aborted: claims already handed out must be given back.
        while let Some(asked) = self.asking.join_next().await {
            self.handle_reply(asked, &shutdown);
        }
        while self.returning.join_next().await.is_some() {}
        while let Some(ended) = self.running.join_next().await {
            self.handle_end(ended);
        }
        while self.recording.join_next().await.is_some() {}
    }

    /// Tells whether this gateway may begin attempts. After a change of name, gives back the claims
    /// that wait in lanes.
    fn may_begin(&mut self) -> bool {
        let Some(holder) = self.queue.holder() else { return false };
        if self.holder.replace(holder) != Some(holder) {
            self.give_back_all();
        }
        true
    }

    fn give_back_all(&mut self) {
        let unbegun = self.lanes.drain().into_iter().map(|claim| *claim).collect();
        self.give_back(unbegun);
    }

    /// The most records that may be under way while more is claimed.
    fn most(&self) -> usize {
        self.rules().dispatcher.concurrency
    }

    /// Gives claims back in a task, so that a slow queue delays no attempt.
    fn give_back(&mut self, claims: Vec<Claim>) {
        if claims.is_empty() {
            return;
        }
        let (queue, within) = (Arc::clone(&self.queue), self.rules().dispatcher.poll());
        self.returning.spawn(async move {
            let released = timeout(within, queue.release(&claims));
            if let Err(error) = released.await.unwrap_or(Err(QueueError::TooSlow)) {
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(
                    error,
                    "cannot release deliveries: they are sent after their lease ends"
                );
            }
        });
    }

    fn rules(&self) -> &WebhookRules {
        &self.sender.rules
    }

    /// Claims deliveries, in a task.
    fn ask(&mut self) {
        if !self.may_begin() {
            self.ask_at = Instant::now() + self.rules().dispatcher.poll();
            return;
        }
        // The lease begins about now, however long the queue takes.
        let at = Instant::now();
        // A claim that finds no room to wait is lost until its lease ends. One always finds a
        // place.
        let limit = self.lanes.free().min(self.lanes.room().max(1));
        let limit = self.rules().dispatcher.claim_batch.min(limit);
        let busy = self.lanes.busy(at);
        self.passed_over = busy.iter().copied().collect();
        self.halted.clear();
        self.may_have_more = false;
        let (queue, holder) = (Arc::clone(&self.queue), self.holder);
        let within = self.rules().dispatcher.lease();
        self.asking.spawn(async move {
            let claims = timeout(within, queue.claim(limit, &busy)).await;
            let claims = claims.unwrap_or(Err(QueueError::TooSlow));
            QueueReply::Claims { at, holder, limit, claims }
        });
    }

    /// Handles a result of the queue, and decides when to ask next.
    fn handle_reply(&mut self, asked: Result<QueueReply, JoinError>, shutdown: &Shutdown) {
        let (at, holder, limit, claims) = match asked {
            Ok(QueueReply::Claims { at, holder, limit, claims }) => (at, holder, limit, claims),
            Ok(QueueReply::Pause(pause)) => {
                self.ask_at = self.ask_at.min(Instant::now() + pause);
                return;
            }
            Err(panicked) => return self.back_off(&QueueError::Failed(Box::new(panicked))),
        };
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => return self.back_off(&error),
        };
        let is_ours = self.queue.holder() == holder && self.holder == holder;
        if shutdown.is_stopping() || !is_ours {
            return self.give_back(claims);
        }
        if at.elapsed() > self.lanes.patience() {
            // An attempt begun now might outlast its lease, after another gateway has begun it too.
            self.give_back(claims);
            return self.back_off(&QueueError::TooSlow);
        }
        self.failures = 0;
        let mut more = self.may_have_more || claims.len() >= limit;
        let halted = |claim: &Claim| self.halted.contains(&claim.destination.id);
        let (unbegun, claims): (Vec<_>, Vec<_>) = claims.into_iter().partition(halted);
        self.give_back(unbegun);
        let mut of_each: HashMap<DestinationId, usize> = HashMap::new();
        for claim in claims {
            let destination = claim.destination.id;
            let taken = of_each.entry(destination).or_default();
            *taken += 1;
            // The destination may have more due than the queue takes of each.
            more |= *taken >= TAKEN_OF_EACH;
            if let Offer::Start(claim) = self.lanes.offer(destination, Box::new(claim), at) {
                self.start(claim);
            }
        }
        self.ask_at = Instant::now();
        if !more {
            self.pause();
        }
    }

    /// Waits until the next delivery is due, or for the poll interval. Deliveries already due but
    /// not claimed belong to busy destinations or other gateways: asking at once would spin.
    fn pause(&mut self) {
        let poll = self.rules().dispatcher.poll();
        self.ask_at = Instant::now() + poll;
        let (queue, clock) = (Arc::clone(&self.queue), self.sender.mint.clock().clone());
        self.asking.spawn(async move {
            let Ok(Ok(Some(due))) = timeout(poll, queue.next_due()).await else {
                return QueueReply::Pause(poll);
            };
            let ahead = due.millis().saturating_sub(clock.steady().millis());
            QueueReply::Pause(match u64::try_from(ahead) {
                Ok(ahead @ 1..) => Duration::from_millis(ahead).min(poll),
                _ => poll,
            })
        });
    }

    fn back_off(&mut self, error: &QueueError) {
        let dispatcher = &self.rules().dispatcher;
        let pause = doubled(dispatcher.poll(), self.failures).min(dispatcher.lease());
        tracing::warn!(
            error = error as &(dyn Error + 'static),
            retry_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
            "cannot claim deliveries"
        );
        self.failures = self.failures.saturating_add(1);
        self.ask_at = Instant::now() + pause;
    }

    /// Asks soon, because there may be work; a failing queue is still given its pause.
    fn ask_soon(&mut self) {
        if self.failures == 0 {
            self.ask_at = Instant::now();
        }
        self.may_have_more = true;
    }

    fn start(&mut self, claim: Box<Claim>) {
        let behind = match self.lanes.is_followed(claim.destination.id, Instant::now()) {
            true => AfterResponse::Keep,
            false => AfterResponse::Close,
        };
        let attempting =
            attempt_and_record(Arc::clone(&self.queue), self.sender.clone(), *claim, behind);
        self.running.spawn(attempting);
    }

    fn handle_end(&mut self, ended: Result<AttemptEnd, JoinError>) {
        // `attempt_and_record` catches panics; it fails only when the dispatcher is dropped.
        let Ok(AttemptEnd { destination, took, halts, frees, unrecorded }) = ended else {
            return;
        };
        let now = Instant::now();
        self.lanes.done(destination, took, now);
        if let Some(Unrecorded { claim, attempt }) = unrecorded {
            let (queue, rules) = (Arc::clone(&self.queue), Arc::clone(&self.sender.rules));
            self.recording.spawn(async move {
                record(&*queue, &rules, &claim, attempt, Outcome::Delivered).await;
            });
        }
        if halts {
            self.halted.insert(destination);
            // Claims made before the halt must not use up an attempt.
            let unbegun = self.lanes.withdraw(destination);
            self.give_back(unbegun.into_iter().map(|claim| *claim).collect());
        }
        let more = frees || self.passed_over.contains(&destination);
        if more && self.lanes.is_open(destination, now) {
            self.ask_soon();
        }
    }
}

/// Attempts a delivery and records its end. A success that no other delivery waits for is left to
/// the caller to record (`unrecorded`). A panic counts as a failed attempt: left to its lease, the
/// delivery would come back forever.
async fn attempt_and_record<Q: Queue>(
    queue: Arc<Q>,
    sender: Sender<impl Post>,
    claim: Claim,
    behind: AfterResponse,
) -> AttemptEnd {
    let claim = Arc::new(claim);
    // Tasks of a `JoinSet` end with it, so that nothing outlives the dispatcher.
    let mut task = JoinSet::new();
    let (attempting, of) = (sender.clone(), Arc::clone(&claim));
    task.spawn(async move { attempting.attempt(&of, behind).await });
    let (attempt, outcome) = match task.join_next().await {
        Some(Ok(ended)) => ended,
        _ => sender.panicked(&claim),
    };
    let took = Duration::from_millis(attempt.latency_ms.into());
    let destination = claim.destination.id;
    // A claim of a destination that had rested is its probe.
    let probed = claim.destination.health.rests_until.is_some() && outcome == Outcome::Delivered;
    let frees = claim.destination.wants.ordered || probed;
    if outcome == Outcome::Delivered && !frees {
        let unrecorded = Some(Unrecorded { claim, attempt });
        return AttemptEnd { destination, took, halts: false, frees, unrecorded };
    }
    let mut task = JoinSet::new();
    task.spawn(async move { record(&*queue, &sender.rules, &claim, attempt, outcome).await });
    // If the queue panics, nothing is recorded: the delivery is due again when its lease ends.
    let halts = matches!(task.join_next().await, Some(Ok(true)));
    AttemptEnd { destination, took, halts, frees, unrecorded: None }
}

/// Records the end of an attempt, and retries for as long as a lease: a lost record costs the
/// receiver a duplicate. Returns true if no more attempts may begin for the destination.
async fn record(
    queue: &impl Queue,
    rules: &WebhookRules,
    claim: &Claim,
    attempt: Attempt,
    outcome: Outcome,
) -> bool {
    let mut failures = 0;
    let recording = async {
        loop {
            let error = match queue.finish(claim, attempt.clone(), outcome).await {
                Ok(halts) => return halts,
                Err(error) => error,
            };
            tracing::warn!(
                delivery.id = %claim.delivery,
                error = &error as &(dyn Error + 'static),
                "cannot record an attempt"
            );
            if matches!(error, QueueError::Lost(_)) {
                return false;
            }
            sleep(doubled(rules.dispatcher.poll(), failures)).await;
            failures = failures.saturating_add(1);
        }
    };
    timeout(rules.dispatcher.lease(), recording).await.unwrap_or_else(|_| {
        tracing::error!(
            delivery.id = %claim.delivery,
            "an attempt was not recorded: the event will be sent again"
        );
        false
    })
}

fn doubled(base: Duration, times: u32) -> Duration {
    base.saturating_mul(2_u32.saturating_pow(times))
}

#[cfg(test)]
mod tests;
