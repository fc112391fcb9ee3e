//! Group commit (`store/engine/group.rs`): three sessions hand in a message each, two writers take
//! what waits into one transaction, try halves after a failure that one may have caused, and answer
//! each. One message cannot be written. Sessions are cut off or lose patience, connections are lost
//! during a commit, a flush fails, a writer panics; who heard no 250 sends again.

use stateright::{Model, Property};

use super::{breaks, holds};

const SESSIONS: usize = 3;
/// The message that cannot be written.
const BAD: usize = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Session {
    #[default]
    Sending,
    Waiting,
    Replied(Reply),
    /// Cut off without a reply.
    Cut,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reply {
    /// 250.
    Taken,
    /// 4xx, for a row of this message.
    Row,
    /// 4xx, and it may be written.
    Unsure,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Writer {
    /// The pieces of its group that are not written yet, the next last.
    pieces: Vec<Vec<usize>>,
    /// The jobs that get this answer.
    told: Vec<usize>,
    answer: Option<Reply>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    sessions: [Session; SESSIONS],
    queue: Vec<usize>,
    writers: [Writer; 2],
    /// Commits of each message, and whether the disk has it.
    stored: [u8; SESSIONS],
    durable: [bool; SESSIONS],
    replies: [u8; SESSIONS],
    /// A flush has failed: later commits are lost with it.
    lost_flush: bool,
    troubles: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `Group::ask`.
    HandIn(usize),
    /// `Line::gather`.
    Gather(usize),
    /// `settle`: `GroupedWork::write` of the next piece.
    Write(usize, Written),
    /// `settle`: an `answer.send`; after the last the writer is free.
    Answer(usize),
    /// `Group::ask` ends with `TooSlow`.
    LosePatience(usize),
    Cut(usize),
    /// The task of `settle` panics.
    Panic(usize),
    /// The client sends the message once more.
    SendAgain(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// As the rows are: committed, or an error of a row.
    AsItIs,
    /// The connection is lost during the commit, which is or is not done.
    Lost(bool),
    /// `StoreError::NotDurable`.
    FlushFailed,
}

#[derive(Clone, Copy, Debug)]
struct Groups {
    troubles: u8,
    /// Answers are sent behind the commit.
    behind: bool,
    /// After a failure that one may have caused, each half is tried.
    halves: bool,
    /// A repeat meets the row of its arrival (`arrivals::remember`).
    arrivals: bool,
    /// After a failed flush the store refuses everything (`Trust`).
    trust: bool,
    /// A caller that has stopped waiting hears nothing more (`oneshot::Sender`).
    once: bool,
}

const REAL: Groups =
    Groups { troubles: 2, behind: true, halves: true, arrivals: true, trust: true, once: true };

impl State {
    fn reply(&mut self, session: usize, reply: Reply) {
        self.sessions[session] = Session::Replied(reply);
        self.replies[session] += 1;
    }

    fn waits(&self, session: usize) -> bool {
        self.sessions[session] == Session::Waiting
    }
}

impl Groups {
    fn commit(self, state: &mut State, piece: &[usize]) {
        for &job in piece {
            if !self.arrivals || state.stored[job] == 0 {
                state.stored[job] += 1;
                state.durable[job] = !state.lost_flush;
            }
        }
    }

    fn write(self, state: &mut State, number: usize, written: Written) {
        let Some(mut piece) = state.writers[number].pieces.pop() else { return };
        piece.retain(|job| state.waits(*job));
        let answer = match written {
            _ if piece.is_empty() => return,
            _ if state.lost_flush && self.trust => Reply::Unsure,
            Written::AsItIs if piece.contains(&BAD) => {
                if piece.len() > 1 && self.halves {
                    let second = piece.split_off(piece.len() / 2);
                    state.writers[number].pieces.extend([second, piece]);
                    return;
                }
                Reply::Row
            }
            Written::AsItIs => {
                self.commit(state, if self.behind { &piece } else { &[] });
                Reply::Taken
            }
            Written::Lost(done) => {
                let is_done = done && !piece.contains(&BAD);
                self.commit(state, if is_done { &piece } else { &[] });
                Reply::Unsure
            }
            Written::FlushFailed => {
                state.lost_flush = true;
                Reply::Unsure
            }
        };
        (state.writers[number].told, state.writers[number].answer) = (piece, Some(answer));
    }

    fn answer(self, state: &mut State, number: usize) {
        let Some(answer) = state.writers[number].answer else { return };
        let Some(job) = state.writers[number].told.pop() else {
            state.writers[number].answer = None;
            return;
        };
        if state.waits(job) || !self.once {
            state.reply(job, answer);
        }
        if !self.behind && answer == Reply::Taken {
            self.commit(state, &[job]);
        }
    }

    fn progress(self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, session) in state.sessions.iter().enumerate() {
            steps.extend((*session == Session::Sending).then_some(Step::HandIn(number)));
        }
        for (number, writer) in state.writers.iter().enumerate() {
            steps.extend(match writer {
                Writer { answer: Some(_), .. } => Some(Step::Answer(number)),
                Writer { pieces, .. } if !pieces.is_empty() => {
                    Some(Step::Write(number, Written::AsItIs))
                }
                _ => (!state.queue.is_empty()).then_some(Step::Gather(number)),
            });
        }
        steps
    }

    fn trouble(state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, session) in state.sessions.iter().enumerate() {
            match session {
                Session::Waiting => steps.extend([Step::LosePatience(number), Step::Cut(number)]),
                Session::Replied(Reply::Row | Reply::Unsure) | Session::Cut => {
                    steps.push(Step::SendAgain(number));
                }
                Session::Sending | Session::Replied(Reply::Taken) => {}
            }
        }
        for (number, writer) in state.writers.iter().enumerate() {
            if writer.answer.is_none() && !writer.pieces.is_empty() {
                let lost = [true, false].map(Written::Lost);
                let written = lost.into_iter().chain([Written::FlushFailed]);
                steps.extend(written.map(|written| Step::Write(number, written)));
                steps.push(Step::Panic(number));
            }
        }
        steps
    }
}

impl Model for Groups {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { troubles: self.troubles, ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend(self.progress(state));
        if state.troubles > 0 {
            steps.extend(Self::trouble(state));
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        if !self.progress(before).contains(&step) {
            state.troubles -= 1;
        }
        match step {
            Step::HandIn(session) => {
                state.sessions[session] = Session::Waiting;
                state.queue.push(session);
            }
            Step::Gather(writer) => {
                let group = std::mem::take(&mut state.queue);
                state.writers[writer].pieces.push(group);
            }
            Step::Write(writer, written) => self.write(&mut state, writer, written),
            Step::Answer(writer) => self.answer(&mut state, writer),
            Step::LosePatience(session) => state.reply(session, Reply::Unsure),
            Step::Cut(session) => state.sessions[session] = Session::Cut,
            Step::Panic(writer) => {
                let mut left = std::mem::take(&mut state.writers[writer]).pieces.concat();
                left.retain(|job| state.waits(*job));
                left.into_iter().for_each(|job| state.reply(job, Reply::Unsure));
            }
            Step::SendAgain(session) => {
                (state.sessions[session], state.replies[session]) = (Session::Sending, 0);
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(DURABLE, |_, state: &State| {
                let taken = |one: &usize| state.sessions[*one] == Session::Replied(Reply::Taken);
                (0..SESSIONS).filter(taken).all(|one| state.durable[one])
            }),
            Property::always(OWN_FAULT, |_, state: &State| {
                let row = Session::Replied(Reply::Row);
                state.sessions[..BAD].iter().all(|one| *one != row) && state.stored[BAD] == 0
            }),
            Property::always(NO_COPY, |_, state: &State| state.stored.iter().all(|one| *one <= 1)),
            Property::always(ONE_REPLY, |_, state: &State| {
                state.replies.iter().all(|one| *one <= 1)
            }),
            Property::always("in the end nobody waits", |model, state: &State| {
                !model.progress(state).is_empty() || (0..SESSIONS).all(|one| !state.waits(one))
            }),
            Property::sometimes("the others of a group are taken", |_, state: &State| {
                let replies = [Reply::Taken, Reply::Taken, Reply::Row];
                state.sessions == replies.map(Session::Replied)
            }),
            Property::sometimes("one is stored and told to try again", |_, state: &State| {
                state.stored[0] == 1 && state.sessions[0] == Session::Replied(Reply::Unsure)
            }),
        ]
    }
}

const DURABLE: &str = "250 only behind a durable commit";
const OWN_FAULT: &str = "nobody is refused for the fault of another";
const NO_COPY: &str = "nothing is stored twice";
const ONE_REPLY: &str = "nobody is answered twice";

#[test]
fn each_of_a_group_gets_its_own_answer_behind_its_commit() {
    holds(REAL, 48_983);
}

#[test]
fn without_one_of_its_guards_a_group_answers_wrongly() {
    breaks(Groups { behind: false, ..REAL }, DURABLE);
    breaks(Groups { trust: false, ..REAL }, DURABLE);
    breaks(Groups { halves: false, ..REAL }, OWN_FAULT);
    breaks(Groups { arrivals: false, ..REAL }, NO_COPY);
    breaks(Groups { once: false, ..REAL }, ONE_REPLY);
}
