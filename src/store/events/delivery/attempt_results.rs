//! Records ended attempts in groups, with their consequences for deliveries and destinations.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::destinations::retire;
use super::disabling::{self, Why};
use super::health::{self, Fared};
use crate::domain::account::Lineage;
use crate::domain::audit::{Actor, Change, Deed};
use crate::domain::breaker::Ending;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::{Attempt, Claim, Outcome, State};
use crate::domain::destination::Destination;
use crate::domain::id::{AccountId, DeliveryId};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, retry_conflicts};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::group::GroupedWork;
use crate::store::engine::many::many;
use crate::store::engine::row::{Columns, organization_of};
use crate::store::engine::sql::Value;
use crate::store::tenancy::accounts;
use crate::store::tenancy::audit::{self, Note};

pub struct Ended {
    delivery: DeliveryId,
    /// The organization of the event.
    organization: i64,
    fence: i64,
    attempt: Attempt,
    outcome: Outcome,
    /// End of the attempt, in steady time.
    ended: Timestamp,
    destination: Destination,
}

/// Result of recording an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// False if the claim no longer held: nothing was recorded.
    pub recorded: bool,
    /// Nothing more may be sent to its destination: it rests, is disabled or was removed.
    pub halts: bool,
}

pub struct Attempts {
    base: Base,
}

impl Ended {
    pub(in crate::store) fn new(
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
        clock: &Clock,
    ) -> Self {
        Self {
            delivery: claim.delivery,
            organization: organization_of(&claim.event.lineage),
            fence: claim.fence,
            attempt: attempt.clone(),
            outcome,
            // Never later than now, even if the wall clock was set back meanwhile.
            ended: clock.steady_of(ended_at(attempt)).min(clock.steady()),
            destination: claim.destination.clone(),
        }
    }
}

impl GroupedWork for Attempts {
    type Job = Ended;
    type Answer = Finished;

    fn size(job: &Ended) -> (usize, usize) {
        (1, job.attempt.response.len())
    }

    fn organization(job: &Ended) -> i64 {
        job.organization
    }

    async fn write(&self, group: &[Ended]) -> Result<Vec<Finished>, StoreError> {
        retry_conflicts!(self.try_write(group))
    }
}

impl Attempts {
    pub(in crate::store) const fn new(base: Base) -> Self {
        Self { base }
    }

    async fn try_write(&self, group: &[Ended]) -> Result<Vec<Finished>, StoreError> {
        let mut tx = self.base.begin().await?;
        let gone: Vec<&Ended> = group.iter().filter(|one| one.outcome == Outcome::Gone).collect();
        let failing = self.close_gates(&mut tx, group, &gone).await?;
        let recorded = settle_deliveries(&mut tx, group).await?;
        insert_attempts(&mut tx, group, &recorded).await?;
        let counts = |one: &&Ended| recorded.get(&one.delivery) == Some(&one.fence);
        let endings = group.iter().filter(counts).map(|one| (one.destination.id, one.ending()));
        let breaker = &self.base.deliveries.breaker;
        if group.iter().any(Ended::failed) {
            self.base.gateway_registry.require_beat();
        }
        let mut fared = health::note(&mut tx, breaker, endings).await?;
        for one in gone.into_iter().filter(counts) {
            let most = self.base.deliveries.cancel_at_once;
            let was_in_use = retire(&mut tx, one.destination.id, one.attempt.at, most).await?;
            if was_in_use {
                self.note_gone(&mut tx, one).await?;
            }
            fared.insert(one.destination.id, Fared::Halts);
        }
        for one in group.iter().filter(counts) {
            let id = one.destination.id;
            let Some(Fared::GivenUp { since }) = fared.get(&id).copied() else { continue };
            // Only a failure whose gate was closed above disables; otherwise a later failure does.
            let lineage = failing.get(&one.destination.account).filter(|_| one.failed());
            if let Some(lineage) = lineage {
                self.give_up(&mut tx, one, since, *lineage).await?;
                fared.insert(id, Fared::Halts);
            }
        }
        tx.commit().await?;
        let of = |one: &Ended| Finished {
            recorded: counts(&one),
            halts: fared.get(&one.destination.id) == Some(&Fared::Halts),
        };
        Ok(group.iter().map(of).collect())
    }

    /// Closes the gates of accounts whose destinations may be removed or disabled. Returns the
    /// lineages of accounts where one may be disabled, and passes their gates, because destinations
    /// above get the event.
    async fn close_gates(
        &self,
        tx: &mut Transaction,
        group: &[Ended],
        gone: &[&Ended],
    ) -> Result<HashMap<AccountId, Lineage>, StoreError> {
        let breaker = &self.base.deliveries.breaker;
        let mut failing = HashMap::new();
        for one in group.iter().filter(|one| one.failed()) {
            let (account, since) = (one.destination.account, one.destination.health.failing_since);
            if breaker.may_give_up(since, one.ended)
                && !failing.contains_key(&account)
                && let Some(found) = accounts::find(tx, account).await?
            {
                failing.insert(account, found.lineage);
            }
        }
        let closed = gone.iter().map(|one| one.destination.account);
        let closed: BTreeSet<AccountId> = closed.chain(failing.keys().copied()).collect();
        let passed = failing.values().flat_map(Lineage::ids).collect();
        if !closed.is_empty() {
            gates::close_and_pass(tx, &closed, &passed).await?;
        }
        Ok(failing)
    }

    async fn give_up(
        &self,
        tx: &mut Transaction,
        one: &Ended,
        since: Timestamp,
        lineage: Lineage,
    ) -> Result<(), StoreError> {
        let days = self.base.deliveries.breaker.disable_after.as_secs() / 3600;
        let why = Why {
            reason: format!(
                "all attempts failed for {days} hours: repair the receiver, then enable the webhook"
            ),
            failing_since: Some(self.base.mint().clock().wall_of(since)),
            last_status: one.attempt.status,
            error: one.attempt.error.clone(),
        };
        let act = Actor::GATEWAY.at(ended_at(&one.attempt));
        disabling::disable(tx, &self.base, (&one.destination, lineage), &why, act).await
    }

    /// Notes the removal after a 410 in the audit log, so that its owner can find the cause.
    async fn note_gone(&self, tx: &mut Transaction, one: &Ended) -> Result<(), StoreError> {
        let changes = [
            Change::gone("type", one.destination.category),
            Change::made("reason", "the receiver answered 410"),
        ];
        let (account, object) = (one.destination.account, one.destination.id.to_string());
        let removed = Note { account, deed: Deed::WebhookRemoved, object, changes: &changes };
        let act = Actor::GATEWAY.at(one.attempt.at);
        audit::note(tx, self.base.mint(), act, removed).await
    }
}

impl Ended {
    /// Returns the delivery's new state, and when it is due (steady) or ended (wall clock).
    const fn state(&self) -> (State, Timestamp) {
        match self.outcome {
            Outcome::Delivered => (State::Delivered, self.attempt.at),
            Outcome::RetryAt(at) => (State::Pending, at),
            Outcome::Exhausted => (State::Exhausted, self.attempt.at),
            Outcome::Gone => (State::Cancelled, self.attempt.at),
        }
    }

    const fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::RetryAt(_) | Outcome::Exhausted)
    }

    /// Returns the result for the health of the destination. A 410 is no failure. A delivery that
    /// was claimed after a rest is the probe.
    fn ending(&self) -> Ending {
        if self.failed() {
            let probe = self.destination.health.rests_until.is_some();
            Ending::Failure { at: self.ended, probe }
        } else {
            Ending::Success
        }
    }
}

/// Returns the end of the attempt by the wall clock.
fn ended_at(attempt: &Attempt) -> Timestamp {
    attempt.at.plus(Duration::from_millis(attempt.latency_ms.into()))
}

/// Updates the deliveries whose claims still hold; returns them with the fences of those claims.
async fn settle_deliveries(
    tx: &mut Transaction,
    group: &[Ended],
) -> Result<HashMap<DeliveryId, i64>, StoreError> {
    let rows = group.iter().map(|one| {
        let (state, next) = one.state();
        vec![one.delivery.0.into(), one.fence.into(), state.as_str().into(), next.into()]
    });
    let done = many(
        "WITH given (delivery, claimed, becomes, due) AS ({rows})
         UPDATE deliveries
         SET state = given.becomes, next_attempt_at = given.due, lease_until = 0,
             attempts = attempts + 1, fence = fence + 1
         FROM given
         WHERE deliveries.id = given.delivery AND fence = given.claimed AND state = 'pending'
         RETURNING id, fence",
        rows.collect(),
    )
    .fetch_all(tx.on())
    .await?;
    done.iter()
        .map(|row| {
            let columns = Columns { table: "deliveries", row };
            Ok((DeliveryId(columns.uuid("id")?), columns.integer("fence")? - 1))
        })
        .collect()
}

async fn insert_attempts(
    tx: &mut Transaction,
    group: &[Ended],
    recorded: &HashMap<DeliveryId, i64>,
) -> Result<(), StoreError> {
    let rows = group.iter().filter(|one| recorded.get(&one.delivery) == Some(&one.fence));
    let rows = rows.map(|Ended { delivery, attempt, organization, .. }| -> Vec<Value> {
        vec![
            attempt.id.0.into(),
            delivery.0.into(),
            attempt.at.into(),
            i64::from(attempt.latency_ms).into(),
            attempt.status.map(i64::from).into(),
            attempt.response.as_slice().into(),
            attempt.error.clone().into(),
            (*organization).into(),
        ]
    });
    many(
        "INSERT INTO attempts (id, delivery_id, at, latency_ms, status, response, error,
             organization_id) {rows}",
        rows.collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}
