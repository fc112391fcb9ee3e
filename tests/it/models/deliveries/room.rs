//! The rows and the gateways, and the steps that each state allows.

use super::Deliveries;

/// A row of `deliveries`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub(super) pending: bool,
    pub(super) due: Due,
    pub(super) leased: bool,
    pub(super) holder: u8,
    pub(super) fence: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Due {
    Now,
    Later,
    /// Replayed: when the lease of the room's former head ends (`due_by_room`).
    BehindLease,
}

/// A claim in the memory of its gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claim {
    pub(super) fence: u8,
    pub(super) holder: u8,
    pub(super) leased: bool,
    /// Whether the receiver got it, once it was sent.
    pub(super) sent: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Gateway {
    /// Its id of now; 0 while its process is down.
    pub(super) id: u8,
    /// Its beat is fresh: nobody may take it for dead.
    pub(super) fresh: bool,
    /// The head that its open claim has read.
    pub(super) head: Option<usize>,
    pub(super) claims: [Option<Claim>; 2],
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) rows: Vec<Row>,
    pub(super) gateways: [Gateway; 2],
    /// By id, whether the gateway is marked dead.
    pub(super) dead: Vec<bool>,
    pub(super) troubles: u8,
    pub(super) jumped: bool,
    pub(super) received: [bool; 2],
    pub(super) ended: [bool; 2],
    /// The second was sent before the first had ended.
    pub(super) passed: bool,
    /// An attempt was begun beside another one of the room, whose lease ran.
    pub(super) beside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// `CommitWriter::try_write`: a message, its event and its delivery.
    Commit,
    /// `claim_deliveries`: the statement `HEADS`.
    ReadHead(usize),
    /// `claim_deliveries`: the statement `CLAIM`, and the commit.
    Take(usize),
    /// `Dispatcher::start`; whether the receiver gets it.
    Begin(usize, usize, bool),
    /// `finish_delivery` (`settle_deliveries`): delivered, or to be tried again.
    Finish(usize, usize, bool),
    /// `release_deliveries` (`give_back`).
    GiveBack(usize, usize),
    /// It waited too long (`Lanes::ready`), or no record of its end could be written (`record`).
    Forget(usize, usize),
    /// Its beat is so old that `Base::holder` is None.
    FallSilent(usize),
    /// `Base::beat` of the other gateway (`mark_dead`).
    MarkDead(u8),
    /// `Base::beat`, which joins anew if it was marked.
    Beat(usize),
    Crash(usize),
    /// `Base::join`.
    Start(usize),
    LeaseEnds(usize),
    /// A clock jumps: a gateway takes a running lease for one that has ended.
    ClockJumps(usize),
    ComesDue(usize),
    /// `replay_delivery` of the first (`make_pending`).
    Replay,
}

impl State {
    pub(super) fn is_free(&self, row: Row) -> bool {
        !row.leased || self.dead[usize::from(row.holder)]
    }

    pub(super) fn join(&mut self, gateway: usize) {
        self.gateways[gateway].id = u8::try_from(self.dead.len()).unwrap();
        self.gateways[gateway].fresh = true;
        self.dead.push(false);
    }

    /// Whether a gateway has the latest claim of this delivery.
    pub(super) fn is_held(&self, event: usize) -> bool {
        let fence = Some(self.rows[event].fence);
        self.gateways.iter().any(|one| one.claims[event].map(|claim| claim.fence) == fence)
    }

    pub(super) fn end_lease(&mut self, event: usize) {
        self.rows[event].leased = false;
        for one in self.gateways.iter_mut().filter_map(|one| one.claims[event].as_mut()) {
            one.leased = false;
        }
    }

    pub(super) fn replay(&mut self) {
        let is_free = self.rows.get(1).is_none_or(|head| !head.pending || self.is_free(*head));
        let row = &mut self.rows[0];
        (row.pending, row.leased) = (true, false);
        row.due = if is_free { Due::Now } else { Due::BehindLease };
        row.fence += 1;
    }

    pub(super) fn begin(&mut self, gateway: usize, event: usize, arrives: bool) {
        let is_beside = |one: &Claim| {
            one.sent.is_some() && one.leased && !self.dead[usize::from(one.holder)] && !self.jumped
        };
        let others = self.gateways.iter().flat_map(|one| one.claims).flatten();
        self.beside |= others.filter(is_beside).count() > 0;
        self.passed |= event == 1 && !self.ended[0];
        self.received[event] |= arrives;
        if let Some(claim) = self.gateways[gateway].claims[event].as_mut() {
            claim.sent = Some(arrives);
        }
    }
}

impl Deliveries {
    pub(super) fn may_begin(self, gateway: &Gateway) -> bool {
        gateway.id > 0 && (gateway.fresh || !self.holder)
    }

    pub(super) fn head_of(self, state: &State) -> Option<usize> {
        let is_due = |row: &Row| row.pending && row.due == Due::Now && state.is_free(*row);
        let found = state.rows.iter().position(|row| row.pending && (self.head || is_due(row)));
        found.filter(|head| is_due(&state.rows[*head]))
    }

    pub(super) fn take(self, state: &mut State, number: usize) {
        let Some(event) = state.gateways[number].head.take() else { return };
        let (row, id) = (state.rows[event], state.gateways[number].id);
        let is_due = row.pending && row.due == Due::Now && state.is_free(row);
        if is_due || !self.recheck {
            let fence = row.fence + 1;
            state.end_lease(event);
            state.rows[event] = Row { leased: true, holder: id, fence, ..row };
            let claim = Claim { fence, holder: id, leased: true, sent: None };
            state.gateways[number].claims[event] = Some(claim);
        }
    }

    pub(super) fn finish(self, state: &mut State, number: usize, event: usize, delivered: bool) {
        let Some(claim) = state.gateways[number].claims[event].take() else { return };
        let row = &mut state.rows[event];
        if row.pending && (row.fence == claim.fence || !self.fence) {
            (row.pending, row.leased) = (!delivered, false);
            row.due = if delivered { Due::Now } else { Due::Later };
            row.fence += 1;
            state.ended[event] |= delivered;
        }
    }

    /// Returns the steps that come by themselves, whatever else happens.
    pub(super) fn progress(self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend((state.rows.len() < 2).then_some(Step::Commit));
        for (number, gateway) in state.gateways.iter().enumerate() {
            if gateway.id == 0 {
                steps.push(Step::Start(number));
            } else if !gateway.fresh {
                steps.push(Step::Beat(number));
            }
            if gateway.head.is_some() {
                steps.push(Step::Take(number));
            } else if self.may_begin(gateway) && self.head_of(state).is_some() {
                steps.push(Step::ReadHead(number));
            }
            for (event, claim) in gateway.claims.iter().enumerate() {
                let Some(claim) = claim else { continue };
                steps.extend(match claim.sent {
                    Some(arrived) => Some(Step::Finish(number, event, arrived)),
                    None if self.patience && !claim.leased => Some(Step::Forget(number, event)),
                    None if self.holder && claim.holder != gateway.id => {
                        Some(Step::GiveBack(number, event))
                    }
                    None => self.may_begin(gateway).then_some(Step::Begin(number, event, true)),
                });
            }
        }
        for (event, row) in state.rows.iter().enumerate().filter(|(_, row)| row.pending) {
            let waits = row.due == Due::BehindLease && state.rows.iter().any(|one| one.leased);
            steps.extend((row.due != Due::Now && !waits).then_some(Step::ComesDue(event)));
            let is_lost = self.lease && row.leased && !state.is_held(event);
            steps.extend(is_lost.then_some(Step::LeaseEnds(event)));
            let lives = state.gateways.iter().any(|one| one.id == row.holder && one.fresh);
            let may_mark = row.leased && !lives && !state.dead[usize::from(row.holder)];
            steps.extend(may_mark.then_some(Step::MarkDead(row.holder)));
        }
        steps
    }

    /// Returns faults, and what is asked for.
    pub(super) fn trouble(self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for (number, gateway) in state.gateways.iter().enumerate().filter(|(_, one)| one.id > 0) {
            steps.push(Step::Crash(number));
            steps.extend(gateway.fresh.then_some(Step::FallSilent(number)));
            for (event, claim) in gateway.claims.iter().enumerate() {
                match claim.map(|claim| claim.sent) {
                    Some(None) => {
                        steps.push(Step::GiveBack(number, event));
                        let begun = Step::Begin(number, event, true);
                        let may_begin = self.progress(state).contains(&begun);
                        steps.extend(may_begin.then_some(Step::Begin(number, event, false)));
                    }
                    Some(Some(arrived)) => {
                        steps.push(Step::Forget(number, event));
                        // Its answer came too late.
                        steps.extend(arrived.then_some(Step::Finish(number, event, false)));
                    }
                    None => {}
                }
            }
        }
        for (event, row) in state.rows.iter().enumerate() {
            if row.leased && state.is_held(event) {
                steps.extend([Step::LeaseEnds(event), Step::ClockJumps(event)]);
            }
        }
        let is_open = self.gate && state.gateways.iter().any(|one| one.head.is_some());
        let has_ended = state.rows.first().is_some_and(|row| !row.pending);
        steps.extend((has_ended && !is_open).then_some(Step::Replay));
        steps
    }
}
