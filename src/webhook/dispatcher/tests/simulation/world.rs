//! The one state of a simulation: deliveries, receivers, what is known of gateways, and what was
//! broken. Each of its calls is one step of a store that loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::{Claim, Outcome, State, TAKEN_OF_EACH};
use crate::domain::id::{DeliveryId, DestinationId, EventId};
use crate::domain::ports::Wake as _;
use crate::rules::WebhookRules;
use crate::testkit::dice::Dice;
use crate::webhook::dispatcher::Bell;
use crate::webhook::sample;

/// The wall clock at the start of each simulation.
const START: Timestamp = Timestamp::from_millis(1_718_463_400_000);

/// One fault that a simulation must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The store hands out deliveries that another gateway has.
    Shares,
    /// The store forgets whom it has handed an ordered destination's first delivery.
    Overtakes,
    /// The store takes the end of an attempt whose claim holds no longer.
    ForgetsFences,
    /// The store counts a delivery as made that was only claimed.
    Invents,
}

/// How a receiver behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Receiver {
    Prompt,
    /// Answers within twenty-two seconds, two more than an attempt may take.
    Slow,
    /// Fails as it comes, with and without having taken the event.
    Flaky,
    /// Cannot be reached for so long.
    Down(Duration),
    /// Says 410 after so many events.
    Leaves(u64),
}

pub(super) struct Target {
    receiver: Receiver,
    ordered: bool,
    /// Requests that arrived.
    arrivals: u64,
    /// It has said 410.
    pub(super) has_left: bool,
    /// Attempts under way, by gateway.
    under_way: BTreeMap<usize, usize>,
}

pub(super) struct Row {
    claim: Claim,
    due: Timestamp,
    /// The name that has claimed it, and until when.
    lease: Option<(i64, Timestamp)>,
    pub(super) state: State,
    pub(super) recorded: u32,
    pub(super) arrivals: u32,
}

impl Row {
    pub(super) fn target(&self) -> DestinationId {
        self.claim.destination.id
    }
}

pub(super) struct Deeds {
    pub(super) dice: Dice,
    pub(super) rows: BTreeMap<DeliveryId, Row>,
    pub(super) targets: BTreeMap<DestinationId, Target>,
    /// One for each gateway that ever ran, dead ones too, which hear nothing.
    bells: Vec<Bell>,
    /// Names whose claims others may take.
    dead: BTreeSet<i64>,
    /// The gateway of each name; the first name is 1.
    names: Vec<usize>,
    /// Gateways, each with a destination that it knows to get nothing more.
    told: BTreeSet<(usize, DestinationId)>,
    pub(super) broken: Vec<String>,
    /// A digest of all that happened, in its order.
    trace: DefaultHasher,
}

pub(super) struct World {
    pub(super) rules: Arc<WebhookRules>,
    /// Calls fail and take long, and replies are lost.
    pub(super) is_rough: bool,
    pub(super) flaw: Option<Flaw>,
    start: Instant,
    /// From then on nothing fails but receivers.
    pub(super) calm_from: Duration,
    deeds: Mutex<Deeds>,
}

impl World {
    pub(super) fn new(seed: u64, rules: &Arc<WebhookRules>, flaw: Option<Flaw>) -> Arc<Self> {
        let mut dice = Dice(seed);
        // One in eight is calm throughout.
        let is_rough = !dice.once_in(8);
        let mut targets = BTreeMap::new();
        for number in 1..=2 + dice.below(4) {
            let receiver = match dice.below(8) {
                0..4 => Receiver::Prompt,
                4 => Receiver::Slow,
                5 if is_rough => Receiver::Flaky,
                6 if is_rough => Receiver::Down(dice.within(Duration::from_secs(400))),
                7 => Receiver::Leaves(1 + dice.below(20)),
                _ => Receiver::Prompt,
            };
            let (ordered, under_way) = (dice.once_in(3), BTreeMap::new());
            let id = DestinationId(uuid::Uuid::from_u128(number.into()));
            let target = Target { receiver, ordered, arrivals: 0, has_left: false, under_way };
            targets.insert(id, target);
        }
        let deeds = Deeds {
            dice,
            rows: BTreeMap::new(),
            targets,
            bells: Vec::new(),
            dead: BTreeSet::new(),
            names: Vec::new(),
            told: BTreeSet::new(),
            broken: Vec::new(),
            trace: DefaultHasher::new(),
        };
        Arc::new(Self {
            rules: Arc::clone(rules),
            is_rough,
            flaw,
            start: Instant::now(),
            calm_from: Duration::from_secs(120),
            deeds: Mutex::new(deeds),
        })
    }

    pub(super) fn deeds(&self) -> MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap()
    }

    /// The simulated time, as tasks see it.
    pub(super) fn clock(&self) -> Clock {
        let start = self.start;
        Clock::new(move || START.plus(start.elapsed()))
    }

    fn now(&self) -> Timestamp {
        START.plus(self.start.elapsed())
    }

    pub(super) fn is_calm(&self) -> bool {
        !self.is_rough || self.start.elapsed() >= self.calm_from
    }

    /// Whether gateways still come and go.
    pub(super) fn is_early(&self) -> bool {
        self.start.elapsed() < self.calm_from
    }

    /// Notes what happened, for the comparison of two runs of a seed.
    pub(super) fn trace(&self, what: impl Hash) {
        let at = self.start.elapsed();
        (at, what).hash(&mut self.deeds().trace);
    }

    pub(super) fn traced(&self) -> u64 {
        self.deeds().trace.finish()
    }

    /// One way between a gateway and the store: mostly at once, at times longer than a lease, and at
    /// times no arrival.
    pub(super) async fn way(&self) -> Result<(), ()> {
        let lease = self.rules.dispatcher.lease();
        let (takes, arrives) = {
            let is_calm = self.is_calm();
            let dice = &mut self.deeds().dice;
            let most = match dice.below(100) {
                _ if is_calm => Duration::from_millis(2),
                0..90 => Duration::from_millis(5),
                90..99 => Duration::from_secs(4),
                _ => lease + lease / 2,
            };
            (dice.within(most), is_calm || !dice.once_in(20))
        };
        sleep(takes).await;
        arrives.then_some(()).ok_or(())
    }

    /// A new event for this destination.
    pub(super) fn add(&self, destination: DestinationId) {
        let mut deeds = self.deeds();
        let number = u128::try_from(deeds.rows.len()).unwrap() + 1;
        let mut sample = sample::destination(destination.0.as_u128(), "http://receiver.example/");
        sample.wants.ordered = deeds.targets[&destination].ordered;
        let target = &deeds.targets[&destination];
        let state = if target.has_left { State::Cancelled } else { State::Pending };
        let claim = sample::claim(number, &sample);
        let (id, due) = (claim.delivery, self.now());
        let row = Row { claim, due, lease: None, state, recorded: 0, arrivals: 0 };
        deeds.rows.insert(id, row);
    }

    /// Returns the number of a new gateway.
    pub(super) fn joins(&self, bell: Bell) -> usize {
        let bells = &mut self.deeds().bells;
        bells.push(bell);
        bells.len() - 1
    }

    /// Tells all gateways that deliveries are due.
    pub(super) fn rings(&self) {
        self.deeds().bells.iter().for_each(Bell::wake);
    }

    /// A name for this gateway under which nobody has claimed yet.
    pub(super) fn name(&self, gateway: usize) -> i64 {
        let mut deeds = self.deeds();
        deeds.names.push(gateway);
        i64::try_from(deeds.names.len()).unwrap()
    }

    /// Others may take what was claimed under this name.
    pub(super) fn buries(&self, name: i64) {
        self.trace(("dead", name));
        self.deeds().dead.insert(name);
    }

    /// Claims as the store does, asked at `now`.
    pub(super) fn claim(
        &self,
        name: i64,
        now: Timestamp,
        limit: usize,
        busy: &[DestinationId],
    ) -> Vec<Claim> {
        let until = now.plus(self.rules.dispatcher.lease());
        let mut deeds = self.deeds();
        let Deeds { rows, dead, .. } = &mut *deeds;
        let mut rooms = BTreeSet::new();
        let mut taken: BTreeMap<DestinationId, usize> = BTreeMap::new();
        let mut due: Vec<&mut Row> = rows
            .values_mut()
            .filter(|row| row.state == State::Pending)
            .filter(|row| {
                let is_first = rooms.insert(row.claim.destination.id);
                let overtakes = self.flaw == Some(Flaw::Overtakes);
                is_first || overtakes || !row.claim.destination.wants.ordered
            })
            .filter(|row| row.due <= now && !busy.contains(&row.claim.destination.id))
            .filter(|row| {
                let holds = |(name, until)| until > now && !dead.contains(&name);
                self.flaw == Some(Flaw::Shares) || !row.lease.is_some_and(holds)
            })
            .collect();
        due.sort_by_key(|row| (row.due, row.claim.delivery));
        let due = due.into_iter().filter(|row| {
            let of_it = taken.entry(row.claim.destination.id).or_default();
            *of_it += 1;
            *of_it <= TAKEN_OF_EACH
        });
        let claims = due.take(limit).map(|row| {
            row.lease = Some((name, until));
            row.claim.fence += 1;
            if self.flaw == Some(Flaw::Invents) {
                row.state = State::Delivered;
            }
            row.claim.clone()
        });
        claims.collect()
    }

    /// Records the end of an attempt as the store does. Returns whether nothing more may be sent to
    /// its destination.
    pub(super) fn finish(&self, claim: &Claim, outcome: Outcome) -> bool {
        let mut deeds = self.deeds();
        let row = deeds.rows.get_mut(&claim.delivery).unwrap();
        let holds = row.claim.fence == claim.fence || self.flaw == Some(Flaw::ForgetsFences);
        if !holds || row.state != State::Pending {
            return false;
        }
        row.recorded += 1;
        row.claim.attempts += 1;
        row.claim.fence += 1;
        row.lease = None;
        let destination = claim.destination.id;
        match outcome {
            Outcome::Delivered => row.state = State::Delivered,
            Outcome::RetryAt(at) => row.due = at,
            Outcome::Exhausted => row.state = State::Exhausted,
            Outcome::Gone => {
                let rows = deeds.rows.values_mut();
                rows.filter(|row| row.claim.destination.id == destination)
                    .filter(|row| row.state == State::Pending)
                    .for_each(|row| row.state = State::Cancelled);
            }
        }
        outcome == Outcome::Gone
    }

    pub(super) fn release(&self, claims: &[Claim]) {
        let mut deeds = self.deeds();
        for claim in claims {
            let row = deeds.rows.get_mut(&claim.delivery).unwrap();
            if row.claim.fence == claim.fence {
                row.lease = None;
            }
        }
    }

    /// A gateway learnt that it may send nothing more to a destination.
    pub(super) fn tells(&self, gateway: usize, destination: DestinationId) {
        self.deeds().told.insert((gateway, destination));
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let deeds = self.deeds();
        deeds.rows.values().filter(|row| row.state == State::Pending).map(|row| row.due).min()
    }

    /// An attempt begins. Notes what no gateway may do.
    pub(super) fn begins(&self, gateway: usize, event: EventId) -> DestinationId {
        let (now, timeout) = (self.now(), self.rules.attempt.timeout());
        let dispatcher = &self.rules.dispatcher;
        self.trace(("begins", gateway, event.0));
        let mut deeds = self.deeds();
        let Deeds { rows, targets, told, broken, dead, names, .. } = &mut *deeds;
        let row = rows.get(&DeliveryId(event.0)).unwrap();
        let destination = row.claim.destination.id;
        let of = |what: &str| format!("{what}: event {} of gateway {gateway}", event.0.as_u128());
        let is_own = |name: i64| {
            !dead.contains(&name) && names[usize::try_from(name - 1).unwrap()] == gateway
        };
        match row.lease {
            Some((holder, until)) if is_own(holder) => {
                if until < now.plus(timeout) {
                    broken.push(of("an attempt may outlast its lease"));
                }
            }
            _ => broken.push(of("an attempt begins without a claim")),
        }
        if told.contains(&(gateway, destination)) {
            broken.push(of("an attempt begins after 410"));
        }
        let target = targets.get_mut(&destination).unwrap();
        let of_it = target.under_way.entry(gateway).or_default();
        *of_it += 1;
        if *of_it > dispatcher.concurrency_per_destination {
            broken.push(of("too many attempts at a time to one destination"));
        }
        let all = targets.values().filter_map(|target| target.under_way.get(&gateway));
        if all.sum::<usize>() > dispatcher.concurrency {
            broken.push(of("too many attempts at a time"));
        }
        destination
    }

    pub(super) fn ends(&self, gateway: usize, destination: DestinationId) {
        let mut deeds = self.deeds();
        let target = deeds.targets.get_mut(&destination).unwrap();
        *target.under_way.get_mut(&gateway).unwrap() -= 1;
    }

    pub(super) fn receiver(&self, destination: DestinationId) -> Receiver {
        self.deeds().targets[&destination].receiver
    }

    pub(super) fn is_down(&self, receiver: Receiver) -> bool {
        matches!(receiver, Receiver::Down(until) if self.start.elapsed() < until)
    }

    /// The request reached its receiver. Returns whether the receiver says that it has left.
    pub(super) fn arrives(&self, destination: DestinationId, event: EventId) -> bool {
        self.trace(("arrives", event.0));
        let mut deeds = self.deeds();
        let Deeds { rows, targets, broken, .. } = &mut *deeds;
        let target = targets.get_mut(&destination).unwrap();
        target.arrivals += 1;
        let limit = match target.receiver {
            Receiver::Leaves(after) => after,
            _ => u64::MAX,
        };
        target.has_left |= target.arrivals > limit;
        let id = DeliveryId(event.0);
        rows.get_mut(&id).unwrap().arrivals += 1;
        let row = &rows[&id];
        let mut before = rows.range(..id).map(|(_, row)| row);
        let is_overtaking = target.ordered
            && row.arrivals == 1
            && before.any(|other| {
                other.claim.destination.id == destination && other.state == State::Pending
            });
        if is_overtaking {
            broken.push(format!("event {} overtakes one before it", event.0.as_u128()));
        }
        target.has_left
    }
}
