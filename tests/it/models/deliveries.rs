//! Two deliveries of one room of an `ordered` destination: claimed under leases and fences by two
//! gateways that fall silent, are taken for dead, crash and start again (`store/events/delivery`,
//! `webhook`). Time is no number: a lease ends, and a retry comes due, at any moment. So each order
//! of these is tried, whatever the clocks show.

mod room;

use stateright::{Model, Property};

use self::room::{Claim, Due, Row, State, Step};
use super::{breaks, holds};

#[derive(Clone, Copy, Debug)]
struct Deliveries {
    /// The most faults in a run.
    troubles: u8,
    /// A result or a return counts only with the fence of the latest claim.
    fence: bool,
    /// Only the head of a room is claimed.
    head: bool,
    /// `CLAIM` looks again at the row that `HEADS` found.
    recheck: bool,
    /// No gateway claims while a replay puts deliveries into rooms (`close_rooms`).
    gate: bool,
    /// A gateway that may be taken for dead begins nothing (`Base::holder`).
    holder: bool,
    /// A claim that waited too long is not begun (`Lanes::ready`).
    patience: bool,
    /// Leases of gateways that are gone end.
    lease: bool,
}

const REAL: Deliveries = Deliveries {
    troubles: 2,
    fence: true,
    head: true,
    recheck: true,
    gate: true,
    holder: true,
    patience: true,
    lease: true,
};

impl Model for Deliveries {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        // No gateway has the id 0.
        let mut state = State { troubles: self.troubles, dead: vec![false], ..State::default() };
        state.join(0);
        state.join(1);
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        steps.extend(self.progress(state));
        if state.troubles > 0 {
            steps.extend(self.trouble(state));
        }
    }

    fn next_state(&self, before: &State, step: Step) -> Option<State> {
        let mut state = before.clone();
        if !self.progress(before).contains(&step) {
            state.troubles -= 1;
        }
        match step {
            Step::Commit => state.rows.push(Row {
                pending: true,
                due: Due::Now,
                leased: false,
                holder: 0,
                fence: 0,
            }),
            Step::ReadHead(gateway) => state.gateways[gateway].head = self.head_of(before),
            Step::Take(gateway) => self.take(&mut state, gateway),
            Step::Begin(gateway, event, arrives) => state.begin(gateway, event, arrives),
            Step::Finish(gateway, event, delivered) => {
                self.finish(&mut state, gateway, event, delivered);
            }
            Step::GiveBack(gateway, event) => {
                let claim = state.gateways[gateway].claims[event].take()?;
                let row = &mut state.rows[event];
                row.leased &= self.fence && row.fence != claim.fence;
            }
            Step::Forget(gateway, event) => state.gateways[gateway].claims[event] = None,
            Step::FallSilent(gateway) => state.gateways[gateway].fresh = false,
            Step::MarkDead(id) => state.dead[usize::from(id)] = true,
            Step::Beat(gateway) if state.dead[usize::from(state.gateways[gateway].id)] => {
                state.join(gateway);
            }
            Step::Beat(gateway) => state.gateways[gateway].fresh = true,
            Step::Crash(gateway) => state.gateways[gateway] = Default::default(),
            Step::Start(gateway) => state.join(gateway),
            Step::LeaseEnds(event) => state.end_lease(event),
            Step::ClockJumps(event) => (state.rows[event].leased, state.jumped) = (false, true),
            Step::ComesDue(event) => state.rows[event].due = Due::Now,
            Step::Replay => state.replay(),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("nothing passes an unsettled delivery", |_, state: &State| {
                !state.passed
            }),
            Property::always("one by one, but for clocks that jump", |_, state: &State| {
                !state.beside
            }),
            Property::always(
                "whatever happened, each event arrives in the end",
                |model, state: &State| {
                    let arrived = |(row, got): (&Row, &bool)| !row.pending && *got;
                    !model.progress(state).is_empty()
                        || state.rows.iter().zip(&state.received).all(arrived)
                },
            ),
            Property::sometimes("a result is too late and counts nothing", |_, state: &State| {
                let late = |(row, claim): (&Row, Option<Claim>)| {
                    claim.is_some_and(|claim| claim.fence < row.fence && claim.sent.is_some())
                };
                let gateways = &mut state.gateways.iter();
                gateways.any(|one| state.rows.iter().zip(one.claims).any(late))
            }),
            Property::sometimes("both have arrived", |_, state: &State| state.ended == [true; 2]),
        ]
    }
}

#[test]
fn a_room_goes_in_order_and_loses_nothing_whatever_two_gateways_go_through() {
    holds(REAL, 71_977);
}

#[test]
fn without_one_of_its_guards_a_delivery_is_lost_or_passed() {
    let beside = "one by one, but for clocks that jump";
    breaks(Deliveries { fence: false, ..REAL }, beside);
    breaks(Deliveries { recheck: false, ..REAL }, beside);
    breaks(Deliveries { gate: false, ..REAL }, beside);
    breaks(Deliveries { holder: false, ..REAL }, beside);
    breaks(Deliveries { patience: false, ..REAL }, beside);
    breaks(Deliveries { head: false, ..REAL }, "nothing passes an unsettled delivery");
    let lost = "whatever happened, each event arrives in the end";
    breaks(Deliveries { lease: false, ..REAL }, lost);
}
