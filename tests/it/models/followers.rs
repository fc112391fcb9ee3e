//! A reader that waits for more of the log, in one process (`app/delivery/log.rs` and below): one
//! task looks for events, keeps the bodies of new ones for all readers, and wakes those that they
//! concern. A reader goes to sleep, is woken, reads, leaves and comes back; events get their
//! positions at any moment, from any gateway.

use stateright::{Model, Property};

use super::{breaks, holds};

const EVENTS: u8 = 3;

/// The next act of the task of `EventLog::run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Task {
    Look,
    /// It has read the last position: nobody was told anything before.
    Begin(u8),
    /// It has read the events behind one position up to another.
    Append(u8, u8),
    Wake(u8, u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Away,
    Reading,
    /// It has read to the end, and shows that.
    HasRead,
    Waiting,
    /// Its permit is taken, `Reader::quiet` not yet.
    Woken,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// By position from 1, whether the event concerns the reader.
    events: Vec<bool>,
    task: Task,
    /// The position up to which readers were told.
    seen: Option<u8>,
    /// `Ring`: `low` and `high`.
    ring: Option<(u8, u8)>,
    phase: Phase,
    /// It has a place among the waiters.
    joined: bool,
    permit: bool,
    quiet: Option<u8>,
    begun_at: u8,
    after: u8,
    shown: [u8; EVENTS as usize + 1],
    /// Another reader waits.
    other: bool,
    /// How often readers may still leave, or another may come.
    moves: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// An event gets its position, and concerns the reader or does not.
    Place(bool),
    /// The next step of `EventLog::follow`; `placed_after` returns one event at most, or all.
    Follow {
        one: bool,
    },
    /// `EventLog::wait`, behind the place where it was before.
    Join,
    /// `EventLog::read_on`, of one event at most, or of all.
    Read {
        one: bool,
    },
    /// `Waiting::changed`: it begins to wait, takes the permit, then the lock.
    Hear,
    Leave,
    OtherMoves,
}

#[derive(Clone, Copy, Debug)]
struct Followers {
    /// A reader that is woken while it reads looks again (`Notify::notify_one`).
    permits: bool,
    /// New bodies are there before their readers are woken.
    appends_first: bool,
    /// When the first reader is noticed, all are woken.
    wakes_all: bool,
    /// The place before the first batch counts until the reader looks, not that of a later one.
    first_kept: bool,
    /// A reader before the oldest body that is kept reads from the store.
    has_low: bool,
}

const REAL: Followers = Followers {
    permits: true,
    appends_first: true,
    wakes_all: true,
    first_kept: true,
    has_low: true,
};

impl State {
    fn last(&self) -> u8 {
        u8::try_from(self.events.len()).unwrap()
    }

    /// The events of the reader behind a place, up to another.
    fn concerning(&self, behind: u8, until: u8) -> Vec<u8> {
        (behind + 1..=until).filter(|one| self.events[usize::from(*one) - 1]).collect()
    }

    fn leave(&mut self) {
        (self.joined, self.permit, self.quiet) = (false, false, None);
    }
}

impl Followers {
    fn wake(self, state: &mut State, quiet: u8) {
        if state.joined {
            state.permit |= self.permits || state.phase == Phase::Waiting;
            state.quiet = Some(quiet);
        }
    }

    fn follow(self, state: &mut State, one: bool) {
        state.task = match (state.task, state.seen) {
            (Task::Look, _) if !state.joined && !state.other => {
                (state.ring, state.seen) = (None, None);
                Task::Look
            }
            (Task::Look, None) => Task::Begin(state.last()),
            (Task::Look, Some(from)) if from == state.last() => Task::Look,
            (Task::Look, Some(from)) => {
                let to = if one { from + 1 } else { state.last() };
                if self.appends_first { Task::Append(from, to) } else { Task::Wake(from, to) }
            }
            (Task::Begin(last), _) => {
                (state.ring, state.seen) = (Some((last, last)), Some(last));
                if self.wakes_all {
                    self.wake(state, 0);
                }
                Task::Look
            }
            (Task::Append(from, to), _) => {
                state.ring = state.ring.map(|(low, _)| (low, to));
                state.seen = Some(to);
                if self.appends_first { Task::Wake(from, to) } else { Task::Look }
            }
            (Task::Wake(from, to), _) => {
                if !state.concerning(from, to).is_empty() {
                    let kept = state.quiet.filter(|_| self.first_kept);
                    self.wake(state, kept.unwrap_or(from));
                }
                if self.appends_first { Task::Look } else { Task::Append(from, to) }
            }
        };
    }

    fn read(self, state: &mut State, one: bool) {
        let kept = state.ring.filter(|(low, _)| state.after >= *low || !self.has_low);
        let until = kept.map_or(state.last(), |(_, high)| high);
        let mut found: Vec<u8> = state.concerning(state.after, until);
        // The ring has no others.
        found.retain(|event| kept.is_none_or(|(low, _)| *event > low));
        let more = one && found.len() > 1;
        found.truncate(if one { 1 } else { found.len() });
        for event in &found {
            state.shown[usize::from(*event)] += 1;
        }
        let through = kept.filter(|_| !more).map(|(_, high)| high);
        state.after = through.or(found.last().copied()).unwrap_or(0).max(state.after);
        state.phase = if more { Phase::Reading } else { Phase::HasRead };
    }
}

impl Model for Followers {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            events: Vec::new(),
            task: Task::Look,
            seen: None,
            ring: None,
            phase: Phase::Away,
            joined: false,
            permit: false,
            quiet: None,
            begun_at: 0,
            after: 0,
            shown: Default::default(),
            other: false,
            moves: 3,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.last() < EVENTS {
            steps.extend([Step::Place(true), Step::Place(false)]);
        }
        steps.extend([true, false].map(|one| Step::Follow { one }));
        match state.phase {
            Phase::Away => steps.push(Step::Join),
            Phase::Reading => steps.extend([true, false].map(|one| Step::Read { one })),
            Phase::Waiting if !state.permit => {}
            Phase::HasRead | Phase::Waiting | Phase::Woken => steps.push(Step::Hear),
        }
        if state.moves > 0 {
            steps.push(Step::OtherMoves);
            steps.extend((state.phase != Phase::Away).then_some(Step::Leave));
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Place(concerns) => state.events.push(concerns),
            Step::Follow { one } => self.follow(&mut state, one),
            Step::Join => (state.phase, state.joined) = (Phase::Reading, true),
            Step::Read { one } => self.read(&mut state, one),
            Step::Hear if before.phase == Phase::HasRead => state.phase = Phase::Waiting,
            Step::Hear if before.phase == Phase::Waiting => {
                (state.phase, state.permit) = (Phase::Woken, false);
            }
            Step::Hear => {
                state.phase = Phase::Reading;
                state.after = state.after.max(state.quiet.take().unwrap_or(0));
            }
            Step::Leave => {
                state.leave();
                (state.phase, state.moves) = (Phase::Away, state.moves - 1);
            }
            Step::OtherMoves => (state.other, state.moves) = (!state.other, state.moves - 1),
        }
        Some(state).filter(|state| state != before)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NONE_PASSED, |_, state: &State| {
                let passed = state.concerning(state.begun_at, state.after);
                passed.iter().all(|event| state.shown[usize::from(*event)] > 0)
            }),
            Property::always("no event is shown again", |_, state: &State| {
                state.shown.iter().all(|times| *times <= 1)
            }),
            Property::always(NO_SLEEP, |_, state: &State| {
                let sleeps = state.phase == Phase::Waiting && !state.permit;
                let is_told = state.task == Task::Look && state.seen == Some(state.last());
                let behind = state.concerning(state.after, state.last());
                !(sleeps && is_told) || behind.is_empty()
            }),
            Property::sometimes("all are shown", |_, state: &State| state.shown == [0, 1, 1, 1]),
        ]
    }
}

const NONE_PASSED: &str = "no event is passed over";
const NO_SLEEP: &str = "nobody sleeps behind an event that was told";

#[test]
fn who_waits_for_events_sleeps_through_none() {
    holds(REAL, 61_772);
}

#[test]
fn without_one_of_its_guards_a_reader_sleeps_or_misses_an_event() {
    breaks(Followers { permits: false, ..REAL }, NO_SLEEP);
    breaks(Followers { appends_first: false, ..REAL }, NO_SLEEP);
    breaks(Followers { wakes_all: false, ..REAL }, NO_SLEEP);
    breaks(Followers { first_kept: false, ..REAL }, NONE_PASSED);
    breaks(Followers { has_low: false, ..REAL }, NONE_PASSED);
}
