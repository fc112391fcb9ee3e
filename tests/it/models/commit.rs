//! The standing of a message, decided first and read again by its commit, while a sender is removed,
//! an account suspended and an address claimed (`store/commit/batch.rs`, `store/engine/gates.rs`).
//! Two gateways take one message each. A transaction sees its rows as they are committed, as READ
//! COMMITTED does; SQLite has one writer, and no gates.

use stateright::{Model, Property};

use super::{breaks, holds};

const MAILS: usize = 2;

/// Gates in the one order of locks.
const ORGANIZATION: usize = 0;
const AGENT: usize = 1;
const DOMAIN: usize = 2;
/// The turn of SQLite's writer.
const WRITER: usize = 3;

/// A transaction: of a message, or of the change of one fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Process {
    phase: Phase,
    /// The number of its gates that it has locked.
    locked: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// `judge_all`: the first time by the standing that is remembered, if any.
    Deciding {
        anew: bool,
    },
    /// To be accepted: its standing was good.
    Decided,
    /// The standing was read again, and has not changed.
    Checked,
    Changing,
    Ended(End),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum End {
    Accepted,
    Refused,
    Deferred,
    Changed,
}

/// The committed facts: the account is active, the sender listed, the address the Agent's.
type Facts = [bool; 3];

const GOOD: Facts = [true; 3];

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    processes: Vec<Process>,
    facts: Facts,
    crashes: u8,
    /// A message was committed by a standing that was not in force.
    wrong: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `Gateway::judge_all`: remembered, or read in one statement.
    Decide(usize),
    /// `gates::pass_all`, `close_account`, `close_domain`; `Writer::turn`: the next lock.
    Lock(usize),
    /// `batch::stale`.
    Check(usize),
    /// `Transaction::commit`; of a change also its statement, which nobody sees before.
    Commit(usize),
    /// The gateway dies, or loses its connection: its locks are free.
    Crash(usize),
}

#[derive(Clone, Copy, Debug)]
struct Commits {
    sqlite: bool,
    /// A message passes the gates of its accounts and of its domain.
    passes: bool,
    /// A change closes the gates of what it changes.
    closes: bool,
    /// The standing is read again.
    checks: bool,
    /// It is read by a later statement than the one that waits at the gates.
    behind: bool,
    /// All take their locks in one order.
    ordered: bool,
}

const POSTGRES: Commits = Commits {
    sqlite: false,
    passes: true,
    closes: true,
    checks: true,
    behind: true,
    ordered: true,
};
const SQLITE: Commits = Commits { sqlite: true, ..POSTGRES };

impl Commits {
    /// Returns the gates of a process, and whether it closes them, in the order of its locks.
    fn gates(self, process: usize) -> Vec<(usize, bool)> {
        let is_mail = process < MAILS;
        if self.sqlite {
            return vec![(WRITER, true)];
        }
        if if is_mail { !self.passes } else { !self.closes } {
            return Vec::new();
        }
        match process.checked_sub(MAILS) {
            None => vec![(ORGANIZATION, false), (AGENT, false), (DOMAIN, false)],
            // `set_active`.
            Some(0) => vec![(ORGANIZATION, true)],
            // `remove_senders`: destinations of the accounts above get its event.
            Some(1) => vec![(ORGANIZATION, false), (AGENT, true)],
            // `addresses::claim`.
            Some(_) if self.ordered => vec![(AGENT, true), (DOMAIN, true)],
            Some(_) => vec![(DOMAIN, true), (AGENT, true)],
        }
    }

    fn may_lock(self, state: &State, process: usize) -> bool {
        let Some(&(gate, closes)) = self.gates(process).get(state.processes[process].locked) else {
            return false;
        };
        let is_free = |(other, its): (usize, &Process)| {
            let held = &self.gates(other)[..its.locked];
            other == process
                || !held.iter().any(|(one, closed)| *one == gate && (closes || *closed))
        };
        state.processes.iter().enumerate().all(is_free)
    }

    /// The next step of a process, if it need not wait.
    fn next(self, state: &State, process: usize) -> Option<Step> {
        let Process { phase, locked } = state.processes[process];
        let all_locked = locked == self.gates(process).len();
        let lock = || self.may_lock(state, process).then_some(Step::Lock(process));
        match phase {
            Phase::Deciding { .. } => Some(Step::Decide(process)),
            Phase::Decided if all_locked || !self.behind => Some(Step::Check(process)),
            Phase::Checked | Phase::Changing if all_locked => Some(Step::Commit(process)),
            Phase::Decided | Phase::Checked | Phase::Changing => lock(),
            Phase::Ended(_) => None,
        }
    }
}

impl Model for Commits {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let process = |phase| Process { phase, locked: 0 };
        let mut processes = vec![process(Phase::Deciding { anew: false }); MAILS];
        processes.extend([process(Phase::Changing); 3]);
        // The second gateway remembers nothing.
        processes[1].phase = Phase::Deciding { anew: true };
        vec![State { processes, facts: GOOD, crashes: 1, wrong: false }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (process, its) in state.processes.iter().enumerate() {
            steps.extend(self.next(state, process));
            if state.crashes > 0 && !matches!(its.phase, Phase::Ended(_)) {
                steps.push(Step::Crash(process));
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        let (Step::Decide(process)
        | Step::Lock(process)
        | Step::Check(process)
        | Step::Commit(process)
        | Step::Crash(process)) = step;
        let one = &mut state.processes[process];
        let ended = |end| Process { phase: Phase::Ended(end), locked: 0 };
        match (step, one.phase) {
            (Step::Lock(_), _) => one.locked += 1,
            (Step::Decide(_), Phase::Deciding { anew }) => {
                let standing = if anew { before.facts } else { GOOD };
                match standing == GOOD {
                    true => one.phase = Phase::Decided,
                    false => *one = ended(End::Refused),
                }
            }
            (Step::Check(_), Phase::Decided) => {
                if before.facts == GOOD || !self.checks {
                    one.phase = Phase::Checked;
                } else {
                    *one = Process { phase: Phase::Deciding { anew: true }, locked: 0 };
                }
            }
            (Step::Commit(_), Phase::Checked) => {
                *one = ended(End::Accepted);
                state.wrong |= before.facts != GOOD;
            }
            (Step::Commit(_), _) => {
                *one = ended(End::Changed);
                state.facts[process - MAILS] = false;
            }
            (Step::Crash(_), _) => {
                *one = ended(End::Deferred);
                state.crashes -= 1;
            }
            _ => return None,
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(IN_FORCE, |_, state: &State| !state.wrong),
            Property::always(NO_CIRCLE, |model, state: &State| {
                let all = 0..state.processes.len();
                let is_done = |one: &Process| matches!(one.phase, Phase::Ended(_));
                state.processes.iter().all(is_done)
                    || all.into_iter().any(|one| model.next(state, one).is_some())
            }),
            Property::sometimes("one is accepted, the other refused", |_, state: &State| {
                let end = |mail: usize| state.processes[mail].phase;
                [end(0), end(1)] == [Phase::Ended(End::Refused), Phase::Ended(End::Accepted)]
            }),
            Property::sometimes("both are accepted before all changes", |_, state: &State| {
                let ends = state.processes.iter().map(|one| one.phase);
                ends.eq([End::Accepted, End::Accepted, End::Changed, End::Changed, End::Changed]
                    .map(Phase::Ended))
            }),
        ]
    }
}

const IN_FORCE: &str = "a message is committed by the standing in force";
const NO_CIRCLE: &str = "nobody waits in a circle";

#[test]
fn no_message_is_committed_by_a_standing_that_is_not_in_force() {
    holds(POSTGRES, 2842);
    holds(SQLITE, 1115);
}

#[test]
fn without_one_of_its_guards_a_commit_comes_after_a_removal_or_hangs() {
    breaks(Commits { passes: false, ..POSTGRES }, IN_FORCE);
    breaks(Commits { closes: false, ..POSTGRES }, IN_FORCE);
    breaks(Commits { checks: false, ..POSTGRES }, IN_FORCE);
    breaks(Commits { behind: false, ..POSTGRES }, IN_FORCE);
    breaks(Commits { ordered: false, ..POSTGRES }, NO_CIRCLE);
    breaks(Commits { checks: false, ..SQLITE }, IN_FORCE);
}
