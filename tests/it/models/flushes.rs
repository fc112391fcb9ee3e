//! The embedded store over a loss of power (`store/engine/writer.rs`). A commit of mail, and an end
//! of a delivery that announces something, are flushed before anybody hears of them. Claims and
//! successes of deliveries are flushed later (`Flush::Later`), and done again if they are lost. The
//! file keeps transactions in their order, so a crash leaves the first of them.

use stateright::{Model, Property};

use super::{breaks, holds};

/// A message, and the event that its webhook was disabled.
const MESSAGE: usize = 0;
const DISABLED: usize = 1;

/// A delivery, with the event that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    pending: bool,
    fence: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    rows: [Option<Row>; 2],
    /// The rows that a loss of power leaves.
    durable: [Option<Row>; 2],
    is_up: bool,
    /// The fence of the claim that this process has, and whether it was sent.
    claims: [Option<(u8, bool)>; 2],
    acknowledged: bool,
    received: [bool; 2],
    ends: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `Base::join`: on the embedded store all claims of earlier processes are free.
    Start,
    /// `CommitWriter::try_write`, and 250.
    Commit,
    /// `claim_deliveries`, with `Flush::Later`.
    Claim(usize),
    /// `Dispatcher::start`: the receiver gets it.
    Send(usize),
    /// `finish_delivery` of a success, with `Flush::Later`.
    Deliver(usize),
    /// `finish_delivery` of the last failure (`disabling::disable`).
    Disable,
    /// The system flushes by itself.
    Flush,
    /// The process is killed: its file stays as it is.
    Kill,
    LosePower,
}

#[derive(Clone, Copy, Debug)]
struct Flushes {
    /// A commit of mail is flushed before its answer.
    commit: bool,
    /// An end that announces something is flushed before it is announced.
    announcing: bool,
}

const REAL: Flushes = Flushes { commit: true, announcing: true };

impl State {
    fn add(&mut self, event: usize, flushed: bool) {
        self.rows[event] = Some(Row { pending: true, fence: 0 });
        if flushed {
            self.durable = self.rows;
        }
    }

    /// Settles the delivery if the claim is the latest one.
    fn settle(&mut self, event: usize) -> bool {
        let (claim, row) = (self.claims[event].take(), self.rows[event].as_mut());
        let held = row.filter(|row| row.pending && claim == Some((row.fence, true)));
        held.is_some_and(|row| {
            *row = Row { pending: false, fence: row.fence + 1 };
            true
        })
    }

    fn progress(&self) -> Vec<Step> {
        if !self.is_up {
            return vec![Step::Start];
        }
        let mut steps = Vec::new();
        steps.extend((!self.acknowledged).then_some(Step::Commit));
        for event in [MESSAGE, DISABLED] {
            match self.claims[event] {
                Some((_, true)) => steps.push(Step::Deliver(event)),
                Some((_, false)) => steps.push(Step::Send(event)),
                None if self.rows[event].is_some_and(|row| row.pending) => {
                    steps.push(Step::Claim(event));
                }
                None => {}
            }
        }
        steps
    }
}

impl Model for Flushes {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { ends: 3, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend(state.progress());
        steps.push(Step::Flush);
        if state.is_up && matches!(state.claims[MESSAGE], Some((_, true))) {
            steps.push(Step::Disable);
        }
        if state.is_up && state.ends > 0 {
            steps.extend([Step::Kill, Step::LosePower]);
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Start => state.is_up = true,
            Step::Commit => {
                state.add(MESSAGE, self.commit);
                state.acknowledged = true;
            }
            Step::Claim(event) => {
                let row = state.rows[event].as_mut()?;
                row.fence += 1;
                state.claims[event] = Some((row.fence, false));
            }
            Step::Send(event) => {
                state.claims[event] = state.claims[event].map(|(fence, _)| (fence, true));
                state.received[event] = true;
            }
            Step::Deliver(event) => drop(state.settle(event)),
            Step::Disable => {
                if state.settle(MESSAGE) && state.rows[DISABLED].is_none() {
                    state.add(DISABLED, self.announcing);
                }
            }
            Step::Flush => state.durable = state.rows,
            Step::Kill | Step::LosePower => {
                (state.is_up, state.claims, state.ends) = (false, [None; 2], state.ends - 1);
                if step == Step::LosePower {
                    state.rows = state.durable;
                }
            }
        }
        Some(state).filter(|state| state != before)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(KEPT, |_, state: &State| {
                !state.acknowledged || state.rows[MESSAGE].is_some()
            }),
            Property::always(STORED, |_, state: &State| {
                state.rows.iter().zip(state.received).all(|(row, got)| row.is_some() || !got)
            }),
            Property::always("in the end all that is stored arrived", |_, state: &State| {
                let arrived = |(row, got): (&Option<Row>, bool)| row.is_none() || got;
                !state.progress().is_empty() || state.rows.iter().zip(state.received).all(arrived)
            }),
            Property::sometimes("a success is forgotten and done again", |_, state: &State| {
                state.received[MESSAGE] && state.rows[MESSAGE].is_some_and(|row| row.fence == 0)
            }),
            Property::sometimes("both arrive", |_, state: &State| state.received == [true; 2]),
        ]
    }
}

const KEPT: &str = "what is acknowledged is there, whatever happens to the machine";
const STORED: &str = "nothing is announced that is not there afterwards";

#[test]
fn a_loss_of_power_costs_a_second_delivery_and_nothing_else() {
    holds(REAL, 630);
}

#[test]
fn without_its_flush_an_announcement_is_lost_with_the_power() {
    breaks(Flushes { commit: false, ..REAL }, KEPT);
    breaks(Flushes { announcing: false, ..REAL }, STORED);
}
