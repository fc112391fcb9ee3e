//! Decides which attempts may start, so that a slow or dead destination never delays another.
//!
//! Pure bookkeeping; the dispatcher passes the time in. Every destination has a lane. A lane has
//! one place until the first response shows its pace. A prompt lane then has places up to the cap
//! per destination. Slow lanes share a pool that always leaves places for others. Claims that may
//! not start wait in their lane, within bounds. A claim that finds no room there is dropped: it is
//! due again when its lease ends, and its lane rests until then.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::id::DestinationId;
use crate::rules::WebhookRules;

/// A lane whose attempts follow each other this fast is expected to continue.
const AT_ONCE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Attempts at a time; also the number of claims that may wait in lanes.
    pub places: usize,
    pub places_per_destination: usize,
    /// Places for all slow lanes together.
    pub places_slow: usize,
    /// More is claimed for a prompt destination while fewer claims than this wait.
    pub ahead: usize,
    /// A longer attempt is slow.
    pub slow: Duration,
    /// The longest wait of a claim after which its attempt still ends within its lease.
    pub patience: Duration,
    pub lease: Duration,
    /// Idle lanes that are remembered.
    pub remembered: usize,
}

impl From<&WebhookRules> for Bounds {
    fn from(rules: &WebhookRules) -> Self {
        let dispatcher = &rules.dispatcher;
        Self {
            places: dispatcher.concurrency,
            places_per_destination: dispatcher.concurrency_per_destination,
            places_slow: dispatcher.concurrency_slow,
            ahead: dispatcher.claim_batch.div_ceil(2),
            slow: dispatcher.slow(),
            patience: dispatcher.lease().saturating_sub(rules.attempt.timeout()),
            lease: dispatcher.lease(),
            remembered: dispatcher.remembered_destinations,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Offer<T> {
    Start(T),
    /// The claim waits in its lane, or was dropped.
    Later,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Unknown,
    Prompt,
    Slow,
}

#[derive(Debug)]
struct Lane<T> {
    pace: Pace,
    running: usize,
    waiting: VecDeque<(T, Instant)>,
    rests_until: Option<Instant>,
    used: Instant,
    /// The end of the last attempt.
    ended: Option<Instant>,
}

#[derive(Debug)]
pub struct Lanes<T> {
    bounds: Bounds,
    lanes: BTreeMap<DestinationId, Lane<T>>,
    running: usize,
    running_slow: usize,
    waiting: usize,
}

impl<T> Lanes<T> {
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, lanes: BTreeMap::new(), running: 0, running_slow: 0, waiting: 0 }
    }

    pub fn free(&self) -> usize {
        self.bounds.places.saturating_sub(self.running)
    }

    /// Claims that may still be taken in to wait.
    pub fn room(&self) -> usize {
        self.bounds.places.saturating_sub(self.waiting)
    }

    /// Returns the destinations that nothing should be claimed for now.
    pub fn busy(&self, now: Instant) -> Vec<DestinationId> {
        let closed = self.lanes.iter().filter(|(_, lane)| !self.takes_more(lane, now));
        closed.map(|(id, _)| *id).collect()
    }

    /// Tells whether more may be claimed for this destination now.
    pub fn is_open(&self, destination: DestinationId, now: Instant) -> bool {
        self.lanes.get(&destination).is_none_or(|lane| self.takes_more(lane, now))
    }

    /// Tells whether another attempt will soon follow one that starts now: more run or wait, or the
    /// last one has only just ended.
    pub fn is_followed(&self, destination: DestinationId, now: Instant) -> bool {
        self.lanes.get(&destination).is_some_and(|lane| {
            let just = |ended| now.duration_since(ended) < AT_ONCE;
            lane.running + lane.waiting.len() > 1 || lane.ended.is_some_and(just)
        })
    }

    /// The longest time between the request for a claim and its start.
    pub const fn patience(&self) -> Duration {
        self.bounds.patience
    }

    /// Takes in a claim that was asked for at `now`, when its lease began.
    pub fn offer(&mut self, destination: DestinationId, claim: T, now: Instant) -> Offer<T> {
        self.lanes.entry(destination).or_insert_with(|| Lane {
            pace: Pace::Unknown,
            running: 0,
            waiting: VecDeque::new(),
            rests_until: None,
            used: now,
            ended: None,
        });
        let startable = self
            .lanes
            .get(&destination)
            .is_some_and(|lane| lane.waiting.is_empty() && self.may_start(lane));
        let room = self.waiting < self.bounds.places;
        let Some(lane) = self.lanes.get_mut(&destination) else { return Offer::Later };
        lane.used = now;
        if startable {
            self.running += 1;
            self.running_slow += usize::from(lane.pace == Pace::Slow);
            lane.running += 1;
            return Offer::Start(claim);
        }
        if room {
            lane.waiting.push_back((claim, now));
            self.waiting += 1;
        } else {
            lane.rests_until = Some(now + self.bounds.lease);
        }
        Offer::Later
    }

    /// Returns the waiting claims that may start now. Drops those that waited too long: their lease
    /// is about to end, and another gateway may then claim them.
    pub fn ready(&mut self, now: Instant) -> Vec<T> {
        let mut started = Vec::new();
        if self.waiting == 0 {
            return started;
        }
        let waits = self.lanes.iter().filter(|(_, lane)| !lane.waiting.is_empty());
        let candidates: Vec<DestinationId> = waits.map(|(id, _)| *id).collect();
        for destination in candidates {
            while let Some(claim) = self.next_of(destination, now) {
                started.push(claim);
            }
        }
        started
    }

    fn next_of(&mut self, destination: DestinationId, now: Instant) -> Option<T> {
        let patience = self.bounds.patience;
        let lane = self.lanes.get_mut(&destination)?;
        while lane.waiting.front().is_some_and(|(_, since)| now.duration_since(*since) > patience) {
            lane.waiting.pop_front();
            self.waiting -= 1;
        }
        if !self.lanes.get(&destination).is_some_and(|lane| self.may_start(lane)) {
            return None;
        }
        let lane = self.lanes.get_mut(&destination)?;
        let (claim, _) = lane.waiting.pop_front()?;
        lane.running += 1;
        lane.used = now;
        self.waiting -= 1;
        self.running += 1;
        self.running_slow += usize::from(lane.pace == Pace::Slow);
        Some(claim)
    }

    pub fn drain(&mut self) -> Vec<T> {
        self.waiting = 0;
        let waiting = self.lanes.values_mut().flat_map(|lane| lane.waiting.drain(..));
        waiting.map(|(claim, _)| claim).collect()
    }

    /// Removes and returns the waiting claims of this destination.
    pub fn withdraw(&mut self, destination: DestinationId) -> Vec<T> {
        let lane = self.lanes.get_mut(&destination);
        let waiting = lane.map(|lane| std::mem::take(&mut lane.waiting)).unwrap_or_default();
        self.waiting -= waiting.len();
        waiting.into_iter().map(|(claim, _)| claim).collect()
    }

    /// Records the end of an attempt that took `took`, which sets the lane's pace.
    pub fn done(&mut self, destination: DestinationId, took: Duration, now: Instant) {
        let pace = if took > self.bounds.slow { Pace::Slow } else { Pace::Prompt };
        if let Some(lane) = self.lanes.get_mut(&destination) {
            let slow_before = if lane.pace == Pace::Slow { lane.running } else { 0 };
            lane.running = lane.running.saturating_sub(1);
            lane.pace = pace;
            lane.used = now;
            lane.ended = Some(now);
            let slow_after = if pace == Pace::Slow { lane.running } else { 0 };
            self.running = self.running.saturating_sub(1);
            self.running_slow = (self.running_slow + slow_after).saturating_sub(slow_before);
        }
        if self.lanes.len() > self.bounds.remembered {
            self.forget(now);
        }
    }

    /// Forgets the idle half that was used longest ago.
    fn forget(&mut self, now: Instant) {
        let mut idle: Vec<(Instant, DestinationId)> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.running == 0 && lane.waiting.is_empty())
            .filter(|(_, lane)| lane.rests_until.is_none_or(|until| until <= now))
            .map(|(id, lane)| (lane.used, *id))
            .collect();
        idle.sort_unstable();
        for (_, destination) in idle.iter().take(idle.len().div_ceil(2)) {
            self.lanes.remove(destination);
        }
    }

    /// Tells whether more may be claimed for this lane. For a prompt one, more is claimed while a
    /// few claims still wait.
    fn takes_more(&self, lane: &Lane<T>, now: Instant) -> bool {
        let open = match lane.pace {
            Pace::Prompt if self.room() > 0 => lane.waiting.len() < self.bounds.ahead,
            _ => lane.waiting.is_empty() && self.may_start(lane),
        };
        open && lane.rests_until.is_none_or(|until| until <= now)
    }

    fn may_start(&self, lane: &Lane<T>) -> bool {
        let cap = match lane.pace {
            Pace::Unknown => 1,
            Pace::Prompt => self.bounds.places_per_destination,
            Pace::Slow => {
                // A quarter of the free places, so that the first slow lanes leave some for the
                // next.
                let left = self.bounds.places_slow.saturating_sub(self.running_slow);
                if left == 0 { 0 } else { (left / 4).clamp(1, self.bounds.places_per_destination) }
            }
        };
        self.free() > 0 && lane.running < cap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn bounds() -> Bounds {
        Bounds {
            places: 20,
            places_per_destination: 4,
            places_slow: 8,
            ahead: 3,
            slow: SECOND,
            patience: SECOND * 40,
            lease: SECOND * 60,
            remembered: 50,
        }
    }

    fn id(number: u128) -> DestinationId {
        DestinationId(uuid::Uuid::from_u128(number))
    }

    fn started<T>(offer: &Offer<T>) -> bool {
        matches!(offer, Offer::Start(_))
    }

    fn lanes() -> (Lanes<u32>, Instant) {
        (Lanes::new(bounds()), Instant::now())
    }

    /// Runs one attempt that takes `took` through the lane of `destination`.
    fn shown(lanes: &mut Lanes<u32>, destination: u128, took: Duration, now: Instant) {
        assert!(started(&lanes.offer(id(destination), 0, now)));
        lanes.done(id(destination), took, now);
    }

    #[test]
    fn an_unknown_lane_has_one_place_and_a_prompt_one_the_cap() {
        let (mut lanes, now) = lanes();
        let first: Vec<_> = (0..3).map(|n| started(&lanes.offer(id(1), n, now))).collect();
        assert_eq!(first, [true, false, false]);
        assert_eq!(lanes.busy(now), [id(1)]);
        lanes.done(id(1), Duration::ZERO, now);
        assert_eq!(lanes.ready(now), [1, 2]);
        assert_eq!(lanes.busy(now), []);
        let more: Vec<_> = (0..3).map(|n| started(&lanes.offer(id(1), n, now))).collect();
        assert_eq!(more, [true, true, false]);
    }

    #[test]
    fn what_follows_at_once_is_taken_to_go_on() {
        let (mut lanes, now) = lanes();
        assert!(started(&lanes.offer(id(1), 0, now)));
        assert!(!lanes.is_followed(id(1), now), "it is the first");
        assert!(!started(&lanes.offer(id(1), 1, now)));
        assert!(lanes.is_followed(id(1), now), "another one waits");
        lanes.done(id(1), Duration::ZERO, now);
        assert_eq!(lanes.ready(now), [1]);
        assert!(lanes.is_followed(id(1), now), "the last one has just ended");
        lanes.done(id(1), Duration::ZERO, now);
        assert!(started(&lanes.offer(id(1), 2, now + AT_ONCE)));
        assert!(!lanes.is_followed(id(1), now + AT_ONCE));
        assert!(!lanes.is_followed(id(2), now));
    }

    #[test]
    fn slow_lanes_together_leave_places_for_the_others() {
        let (mut lanes, now) = lanes();
        for destination in 1..=40 {
            shown(&mut lanes, destination, SECOND * 20, now);
        }
        for destination in 1..=40 {
            for n in 0..10 {
                lanes.offer(id(destination), n, now);
            }
        }
        assert_eq!(lanes.running, 8);
        assert_eq!(lanes.running_slow, 8);
        let prompt: Vec<_> = (0..5).map(|n| started(&lanes.offer(id(99), n, now))).collect();
        assert_eq!(prompt, [true, false, false, false, false]);
    }

    #[test]
    fn a_slow_lane_that_answers_promptly_leaves_the_pool() {
        let (mut lanes, now) = lanes();
        shown(&mut lanes, 1, SECOND * 2, now);
        assert!(started(&lanes.offer(id(1), 1, now)));
        assert_eq!(lanes.running_slow, 1);
        lanes.done(id(1), Duration::ZERO, now);
        assert_eq!(lanes.running_slow, 0);
    }

    #[test]
    fn what_waited_too_long_is_put_back() {
        let (mut lanes, now) = lanes();
        for n in 0..3 {
            lanes.offer(id(1), n, now);
        }
        let late = now + SECOND * 41;
        lanes.done(id(1), SECOND * 41, late);
        assert_eq!(lanes.ready(late), Vec::<u32>::new());
        assert_eq!((lanes.waiting, lanes.running), (0, 0));
        assert_eq!(lanes.busy(late), []);
    }

    #[test]
    fn what_finds_no_room_makes_its_lane_rest_until_the_lease_ends() {
        let (mut lanes, now) = lanes();
        for n in 0..30 {
            lanes.offer(id(1), n, now);
        }
        assert_eq!((lanes.running, lanes.waiting), (1, 20));
        lanes.done(id(1), Duration::ZERO, now);
        for _ in 0..10 {
            for _ in lanes.ready(now) {
                lanes.done(id(1), Duration::ZERO, now);
            }
        }
        assert_eq!((lanes.running, lanes.waiting), (0, 0));
        assert_eq!(lanes.busy(now), [id(1)]);
        assert_eq!(lanes.busy(now + SECOND * 61), []);
    }

    #[test]
    fn what_waits_for_one_that_rests_is_taken_out_and_nothing_else() {
        let (mut lanes, now) = lanes();
        for n in 0..4 {
            lanes.offer(id(1), n, now);
        }
        lanes.offer(id(2), 7, now);
        lanes.offer(id(2), 8, now);
        assert_eq!(lanes.withdraw(id(1)), [1, 2, 3]);
        assert_eq!(lanes.withdraw(id(3)), Vec::<u32>::new());
        assert_eq!((lanes.running, lanes.waiting), (2, 1));
        lanes.done(id(2), Duration::ZERO, now);
        assert_eq!(lanes.ready(now), [8]);
    }

    #[test]
    fn places_and_memory_are_bounded() {
        let (mut lanes, now) = lanes();
        for destination in 0..1000 {
            lanes.offer(id(destination), 0, now);
        }
        assert_eq!((lanes.running, lanes.free(), lanes.waiting), (20, 0, 20));
        let (mut lanes, now) = (Lanes::new(bounds()), now);
        for destination in 0..1000 {
            shown(&mut lanes, destination, Duration::ZERO, now);
            assert!(lanes.lanes.len() <= 51);
        }
    }
}
