//! Positions of the event log (`store/events/event_log.rs`), as a reader that continues behind its
//! last one sees them (`Base::events`). On PostgreSQL transactions commit in another order than they
//! began, so a row gets its position behind its commit, from one gateway at a time. SQLite has one
//! writer, and writes it with the row.

use stateright::{Model, Property};

use super::{breaks, holds};

const EVENTS: usize = 3;
/// Events of one room.
const ROOM: [usize; 2] = [0, 1];

/// A row of `events`, and the transaction that writes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Event {
    phase: Phase,
    /// 0 before it has one.
    arrived: u8,
    position: u8,
}

const GONE: Event = Event { phase: Phase::Gone, arrived: 0, position: 0 };

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Phase {
    #[default]
    Coming,
    Written,
    Committed,
    /// Rolled back or erased.
    Gone,
}

/// A gateway that gives positions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Placer {
    #[default]
    Idle,
    HasTurn,
    /// Its statement has written these events with their positions.
    Placed(Vec<(usize, u8)>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Reader {
    begun_at: Option<u8>,
    after: u8,
    seen: [u8; EVENTS],
    last_of_room: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct State {
    events: [Event; EVENTS],
    placers: [Placer; 2],
    readers: [Reader; 2],
    /// `event_numbers`.
    sequence: u8,
    /// `event_log.last_position`.
    last: u8,
    /// Positions of what was erased.
    erased: Vec<u8>,
    twice: bool,
    disordered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// `announcements::numbers` and the row.
    Write(usize),
    /// `Transaction::commit`.
    Commit(usize),
    RollBack(usize),
    /// Retention, or an erasure, deletes the row.
    Erase(usize),
    /// `gates::take_turn` for `event log`.
    Turn(usize),
    /// The statement `PLACE`, of a batch of so many, and `last_position`.
    Place(usize, usize),
    /// The commit of `place_events`.
    EndTurn(usize),
    Crash(usize),
    /// `EventLog::begin`: the first reader with the oldest event, the second from now on.
    Begin(usize),
    /// `Base::events`: a page of at most so many.
    Read(usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Positions {
    sqlite: bool,
    /// PostgreSQL: a row gets its position behind its commit, not with it.
    behind: bool,
    /// One at a time gives positions: a transaction of SQLite, or a gateway.
    in_turn: bool,
    /// The last position is kept in a row of its own.
    kept: bool,
    /// Numbers of events are taken behind the lock of their room (`rooms::add_messages`).
    room_locked: bool,
}

const POSTGRES: Positions =
    Positions { sqlite: false, behind: true, in_turn: true, kept: true, room_locked: true };
const SQLITE: Positions = Positions { sqlite: true, ..POSTGRES };

impl State {
    fn with(&self, phase: Phase) -> impl Iterator<Item = (usize, Event)> {
        self.events.into_iter().enumerate().filter(move |(_, one)| one.phase == phase)
    }

    /// Returns the rows that `Base::events` finds behind a place, in the order of positions.
    fn behind(&self, after: u8) -> Vec<(u8, usize)> {
        let found = self.with(Phase::Committed).map(|(event, one)| (one.position, event));
        let mut found: Vec<_> = found.filter(|(position, _)| *position > after).collect();
        found.sort_unstable();
        found
    }

    fn give(&mut self, event: usize, position: u8) {
        let others = self.events.iter().enumerate().filter(|(other, _)| *other != event);
        let is_taken = others.map(|(_, one)| one.position).any(|other| other == position);
        self.twice |= is_taken || self.erased.contains(&position);
        self.events[event].position = position;
    }
}

impl Positions {
    fn last(self, state: &State) -> u8 {
        let placed = state.behind(0);
        if self.kept { state.last } else { placed.last().map_or(0, |(position, _)| *position) }
    }

    /// Returns the rows without a position, in the order of arrival.
    fn waiting(state: &State) -> Vec<usize> {
        let all = state.with(Phase::Committed).map(|(event, _)| event);
        let mut waiting: Vec<_> = all.filter(|one| state.events[*one].position == 0).collect();
        waiting.sort_unstable_by_key(|one| state.events[*one].arrived);
        waiting
    }

    fn write(self, state: &mut State, event: usize) {
        state.sequence += 1;
        let number = if self.sqlite { self.last(state) + 1 } else { state.sequence };
        (state.events[event].phase, state.events[event].arrived) = (Phase::Written, number);
        if self.sqlite || !self.behind {
            state.give(event, number);
        }
    }

    fn commit(state: &mut State, event: usize) {
        state.events[event].phase = Phase::Committed;
        state.last = state.last.max(state.events[event].position);
    }

    fn end_turn(state: &mut State, number: usize) {
        let Placer::Placed(mut given) = std::mem::take(&mut state.placers[number]) else { return };
        state.last = given.iter().map(|(_, position)| *position).fold(state.last, u8::max);
        // A row that was erased meanwhile leaves a gap.
        given.retain(|(event, _)| state.events[*event].phase == Phase::Committed);
        given.into_iter().for_each(|(event, position)| state.give(event, position));
    }

    fn read(state: &mut State, number: usize, most: usize) {
        for (position, event) in state.behind(state.readers[number].after).into_iter().take(most) {
            let (arrived, reader) = (state.events[event].arrived, &mut state.readers[number]);
            reader.after = position;
            reader.seen[event] += 1;
            if ROOM.contains(&event) {
                state.disordered |= arrived < reader.last_of_room;
                reader.last_of_room = arrived;
            }
        }
    }

    /// Returns the steps of the transactions that write events.
    fn steps_of_writers(self, state: &State) -> Vec<Step> {
        let writing: Vec<usize> = state.with(Phase::Written).map(|(event, _)| event).collect();
        let is_waiting = |event: &usize| {
            let for_room = self.room_locked && ROOM.contains(event);
            self.sqlite && self.in_turn && !writing.is_empty()
                || for_room && writing.iter().any(|other| ROOM.contains(other))
        };
        let mut steps = Vec::new();
        for (event, one) in state.events.iter().enumerate() {
            match one.phase {
                Phase::Coming if is_waiting(&event) => {}
                Phase::Coming => steps.push(Step::Write(event)),
                Phase::Written => steps.extend([Step::Commit(event), Step::RollBack(event)]),
                Phase::Committed if state.erased.is_empty() => steps.push(Step::Erase(event)),
                Phase::Committed | Phase::Gone => {}
            }
        }
        steps
    }

    fn steps_of_placers(self, state: &State) -> Vec<Step> {
        let is_taken = self.in_turn && state.placers.iter().any(|one| *one != Placer::Idle);
        let mut steps = Vec::new();
        for (number, placer) in state.placers.iter().enumerate() {
            match placer {
                Placer::Idle if is_taken || Self::waiting(state).is_empty() => {}
                Placer::Idle => steps.push(Step::Turn(number)),
                Placer::HasTurn => steps.extend([1, EVENTS].map(|most| Step::Place(number, most))),
                Placer::Placed(_) => steps.extend([Step::EndTurn(number), Step::Crash(number)]),
            }
        }
        steps
    }
}

impl Model for Positions {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::default()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend(self.steps_of_writers(state));
        steps.extend(self.steps_of_placers(state));
        for (number, reader) in state.readers.iter().enumerate() {
            if reader.begun_at.is_none() {
                steps.push(Step::Begin(number));
            } else if !state.behind(reader.after).is_empty() {
                steps.extend([1, EVENTS].map(|most| Step::Read(number, most)));
            }
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        match step {
            Step::Write(event) => self.write(&mut state, event),
            Step::Commit(event) => Self::commit(&mut state, event),
            Step::RollBack(event) => state.events[event] = GONE,
            Step::Erase(event) => {
                state.erased.push(std::mem::replace(&mut state.events[event], GONE).position);
            }
            Step::Turn(number) => state.placers[number] = Placer::HasTurn,
            Step::Place(number, most) => {
                let given =
                    Self::waiting(before).into_iter().take(most).zip(self.last(before) + 1..);
                state.placers[number] = Placer::Placed(given.collect());
            }
            Step::EndTurn(number) => Self::end_turn(&mut state, number),
            Step::Crash(number) => state.placers[number] = Placer::Idle,
            Step::Begin(number) => {
                let (reader, now) = (&mut state.readers[number], self.last(before));
                reader.after = if number == 0 { 0 } else { now };
                reader.begun_at = Some(reader.after);
            }
            Step::Read(number, most) => Self::read(&mut state, number, most),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(MISSES_NONE, |_, state: &State| {
                state.readers.iter().all(|reader| {
                    let passed = state.behind(reader.begun_at.unwrap_or(u8::MAX));
                    passed.iter().all(|(at, event)| *at > reader.after || reader.seen[*event] > 0)
                })
            }),
            Property::always("nobody sees an event again", |_, state: &State| {
                state.readers.iter().flat_map(|reader| reader.seen).all(|times| times <= 1)
            }),
            Property::always(NONE_TWICE, |_, state: &State| !state.twice),
            Property::always(IN_ORDER, |_, state: &State| !state.disordered),
            Property::sometimes("who began with the oldest sees all", |_, state: &State| {
                state.readers[0].seen == [1; EVENTS]
            }),
            Property::sometimes("who began later sees the rest", |_, state: &State| {
                state.readers[1].begun_at == Some(1) && state.readers[1].seen == [0, 1, 1]
            }),
        ]
    }
}

const MISSES_NONE: &str = "nobody misses an event at a place that it has passed";
const NONE_TWICE: &str = "no position is given twice";
const IN_ORDER: &str = "a room is seen in the order of its commits";

#[test]
fn a_reader_of_the_log_misses_nothing_that_commits_late() {
    holds(POSTGRES, 49_334);
    holds(SQLITE, 3911);
}

#[test]
fn without_one_of_its_guards_the_log_hides_an_event() {
    breaks(Positions { behind: false, ..POSTGRES }, MISSES_NONE);
    breaks(Positions { in_turn: false, ..POSTGRES }, MISSES_NONE);
    breaks(Positions { kept: false, ..POSTGRES }, NONE_TWICE);
    breaks(Positions { room_locked: false, ..POSTGRES }, IN_ORDER);
    breaks(Positions { in_turn: false, ..SQLITE }, NONE_TWICE);
    breaks(Positions { kept: false, ..SQLITE }, NONE_TWICE);
}
