//! RCPT is answered from memory, as of a version of the directory (`app/intake/directory.rs`), which
//! the embedded store reads again only if a file tells of a change (`store/engine/directory_mark.rs`).
//! Two sessions ask about one address, while two processes change the directory, or die at it.

use stateright::{Model, Property};

use super::{breaks, holds};

/// A transaction that changes the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    ToCome,
    /// The file is locked, and has this version as its mark; nothing is committed.
    Announced(u8),
    Committed(u8),
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// So many questions are left.
    Idle(u8),
    /// An answer is remembered: the version is asked for.
    Asking,
    /// To be read from the database, behind this mark.
    Reading(Option<u8>),
    Read(Option<u8>, u8),
    Version(u8),
    LookingUp,
    Found(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Session {
    phase: Phase,
    /// Questions left after this one.
    left: u8,
    /// The number of changes when it asked.
    since: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    /// Every version that was committed, the latest last.
    versions: Vec<u8>,
    changes: [Change; 2],
    last_version: u8,
    mark: u8,
    /// `DirectoryMark::known`: a mark, and the version that was read behind it.
    known: Option<(u8, u8)>,
    /// `Memory`: its version, and that of the answer.
    memory: (u8, Option<u8>),
    sessions: [Session; 2],
    old: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `directory::changed` (`DirectoryMark::change`).
    Announce(usize),
    Commit(usize),
    /// The transaction fails, or its process dies: the file is unlocked.
    RollBack(usize),
    /// `Changing` is dropped: the change is answered behind this.
    Unlock(usize),
    /// RCPT: `Directory::list` looks into its memory.
    Ask(usize),
    /// The session's next step, one of those of `Directory::list`.
    GoOn(usize),
}

#[derive(Clone, Copy, Debug)]
struct Directory {
    embedded: bool,
    /// The mark is written before the commit.
    ahead: bool,
    /// A mark is read where nobody has locked the file.
    locked: bool,
    /// The mark is read before the version that is remembered with it.
    before: bool,
    /// An answer is used only if it has the version of now.
    compared: bool,
}

const EMBEDDED: Directory =
    Directory { embedded: true, ahead: true, locked: true, before: true, compared: true };
const SHARED: Directory = Directory { embedded: false, ..EMBEDDED };

impl State {
    fn version(&self) -> u8 {
        self.versions.last().copied().unwrap_or(0)
    }

    /// `Memory::forget_unless`.
    fn forget_unless(&mut self, version: u8) {
        if self.memory.0 != version {
            self.memory = (version, None);
        }
    }

    fn reply(&mut self, session: usize, version: u8) {
        let Session { left, since, .. } = self.sessions[session];
        // It was the answer of some moment since the question.
        self.old |= !self.versions[since..].contains(&version);
        self.sessions[session].phase = Phase::Idle(left);
    }
}

impl Directory {
    fn is_locked(self, state: &State) -> bool {
        let holds = |one: &Change| matches!(one, Change::Announced(_) | Change::Committed(_));
        self.locked && self.ahead && state.changes.iter().any(holds)
    }

    /// `Store::directory_version`, as far as the mark.
    fn ask_mark(self, state: &State) -> Phase {
        if !self.embedded || self.is_locked(state) {
            return Phase::Reading(None);
        }
        match state.known {
            Some((mark, version)) if mark == state.mark => Phase::Version(version),
            _ => Phase::Reading(Some(state.mark)),
        }
    }

    fn go_on(self, state: &mut State, session: usize) {
        let next = match state.sessions[session].phase {
            Phase::Idle(_) => return,
            Phase::Asking => self.ask_mark(state),
            Phase::Reading(mark) => Phase::Read(mark, state.version()),
            Phase::Read(mark, version) => {
                let mark = if self.before { mark } else { mark.map(|_| state.mark) };
                state.known = mark.map(|mark| (mark, version)).or(state.known);
                Phase::Version(version)
            }
            Phase::Version(version) => {
                state.forget_unless(if self.compared { version } else { state.memory.0 });
                match state.memory.1 {
                    Some(answer) if answer == version || !self.compared => {
                        return state.reply(session, answer);
                    }
                    _ => Phase::LookingUp,
                }
            }
            Phase::LookingUp => Phase::Found(state.version()),
            Phase::Found(version) => {
                state.forget_unless(version);
                state.memory.1 = Some(version);
                return state.reply(session, version);
            }
        };
        state.sessions[session].phase = next;
    }

    /// Returns the next steps of a change; no other transaction writes until it ends.
    fn steps_of_change(state: &State, number: usize) -> Vec<Step> {
        match state.changes[number] {
            Change::ToCome => {
                let is_writing = |one: &Change| matches!(one, Change::Announced(_));
                let may_begin = !state.changes.iter().any(is_writing);
                may_begin.then_some(Step::Announce(number)).into_iter().collect()
            }
            Change::Announced(_) => vec![Step::Commit(number), Step::RollBack(number)],
            Change::Committed(_) => vec![Step::Unlock(number)],
            Change::Ended => Vec::new(),
        }
    }
}

impl Model for Directory {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let asks = |times| Session { phase: Phase::Idle(times), left: 0, since: 0 };
        vec![State {
            versions: vec![0],
            changes: [Change::ToCome; 2],
            last_version: 0,
            mark: 0,
            known: None,
            memory: (0, None),
            sessions: [asks(2), asks(1)],
            old: false,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend((0..2).flat_map(|number| Self::steps_of_change(state, number)));
        for (number, session) in state.sessions.iter().enumerate() {
            match session.phase {
                Phase::Idle(0) => {}
                Phase::Idle(_) => steps.push(Step::Ask(number)),
                _ => steps.push(Step::GoOn(number)),
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Announce(number) => {
                state.last_version += 1;
                state.changes[number] = Change::Announced(state.last_version);
                state.mark = if self.ahead { state.last_version } else { state.mark };
            }
            Step::Commit(number) => {
                let Change::Announced(version) = before.changes[number] else { return None };
                state.versions.push(version);
                state.changes[number] = Change::Committed(version);
            }
            Step::RollBack(number) => state.changes[number] = Change::Ended,
            Step::Unlock(number) => {
                let Change::Committed(version) = before.changes[number] else { return None };
                state.mark = if self.ahead { state.mark } else { version };
                state.changes[number] = Change::Ended;
            }
            Step::Ask(number) => {
                let Phase::Idle(left) = before.sessions[number].phase else { return None };
                let is_known = before.memory.1.is_some();
                let phase = if is_known { Phase::Asking } else { Phase::LookingUp };
                let since = before.versions.len() - 1;
                state.sessions[number] = Session { phase, left: left - 1, since };
            }
            Step::GoOn(number) => self.go_on(&mut state, number),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NOT_OLD, |_, state: &State| !state.old),
            Property::sometimes("a version is known by its mark", |model, state: &State| {
                let known = state.known.is_some_and(|(mark, _)| mark == state.mark && mark > 0);
                known || !model.embedded
            }),
            Property::sometimes("all is asked and changed", |_, state: &State| {
                state.versions.len() == 3
                    && state.sessions.iter().all(|one| one.phase == Phase::Idle(0))
            }),
        ]
    }
}

const NOT_OLD: &str = "no answer is older than its question";

#[test]
fn no_answer_to_rcpt_is_older_than_its_question() {
    holds(EMBEDDED, 56_721);
    holds(SHARED, 22_737);
}

#[test]
fn without_one_of_its_guards_rcpt_hears_an_old_answer() {
    breaks(Directory { ahead: false, ..EMBEDDED }, NOT_OLD);
    breaks(Directory { locked: false, ..EMBEDDED }, NOT_OLD);
    breaks(Directory { before: false, ..EMBEDDED }, NOT_OLD);
    breaks(Directory { compared: false, ..EMBEDDED }, NOT_OLD);
    breaks(Directory { compared: false, ..SHARED }, NOT_OLD);
}
