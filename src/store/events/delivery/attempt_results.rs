//! Records ended attempts in groups, with their consequences for deliveries and destinations. Locks
//! gates (if a destination may be removed or disabled), then deliveries, then destinations by id.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::destination_row::note_about;
use super::disabling::{self, Disabling};
use super::health::{self, DestinationStatus};
use crate::domain::account::Lineage;
use crate::domain::audit::{Actor, Change, Deed};
use crate::domain::breaker::Ending;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::{Attempt, Claim, Outcome, State};
use crate::domain::destination::Destination;
use crate::domain::id::{AccountId, DeliveryId};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::group::GroupedWork;
use crate::store::engine::many::many;
use crate::store::engine::row::{Columns, organization_of};
use crate::store::engine::sql::Value;
use crate::store::engine::writer::Flush;
use crate::store::tenancy::{accounts, audit};

/// An attempt that has ended, with all that its consequences depend on.
pub struct EndedAttempt {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// False if the claim no longer held: nothing was recorded.
    pub recorded: bool,
    /// Nothing more may be sent to its destination: it rests, is disabled or was removed.
    pub halts: bool,
}

/// Writes attempts that ended at about the same time.
pub struct AttemptWriter {
    pub(in crate::store) base: Base,
}

impl EndedAttempt {
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

impl GroupedWork for AttemptWriter {
    type Job = EndedAttempt;
    type Answer = Finished;

    fn size(job: &EndedAttempt) -> (usize, usize) {
        (1, job.attempt.response.len())
    }

    fn organization(job: &EndedAttempt) -> i64 {
        job.organization
    }

    async fn write(&self, group: &[EndedAttempt]) -> Result<Vec<Finished>, StoreError> {
        // An event that the machine forgot to have delivered is delivered again, under its id. Other
        // ends may announce events themselves, whose ids must last.
        let delivered = group.iter().all(|one| one.outcome == Outcome::Delivered);
        let flush = if delivered { Flush::Later } else { Flush::Now };
        transact!(self.base, flush, async |tx| {
            let gone: Vec<&EndedAttempt> =
                group.iter().filter(|one| one.outcome == Outcome::Gone).collect();
            let lineages = self.close_gates(&mut tx, group, &gone).await?;
            let fences = settle_deliveries(&mut tx, group).await?;
            let recorded: Vec<&EndedAttempt> =
                group.iter().filter(|one| one.held(&fences)).collect();
            insert_attempts(&mut tx, &recorded).await?;
            if group.iter().any(EndedAttempt::failed) {
                self.base.gateway_registry.require_beat();
            }
            let endings = recorded.iter().map(|one| (one.destination.id, one.ending()));
            let breaker = &self.base.deliveries.breaker;
            let mut statuses = health::record_endings(&mut tx, breaker, endings).await?;
            for one in gone.into_iter().filter(|one| one.held(&fences)) {
                let id = one.destination.id;
                if self.base.mark_removed(&mut tx, id, one.attempt.at).await? {
                    self.note_gone(&mut tx, one).await?;
                }
                statuses.insert(id, DestinationStatus::Halted);
            }
            for one in recorded {
                let id = one.destination.id;
                let Some(DestinationStatus::GivenUp { since }) = statuses.get(&id).copied() else {
                    continue;
                };
                // Only a failure whose gate was closed above disables; else a later failure does.
                let lineage = lineages.get(&one.destination.account).filter(|_| one.failed());
                if let Some(lineage) = lineage {
                    self.disable(&mut tx, one, since, *lineage).await?;
                    statuses.insert(id, DestinationStatus::Halted);
                }
            }
            tx.commit().await?;
            let finished = |one: &EndedAttempt| Finished {
                recorded: one.held(&fences),
                halts: statuses.get(&one.destination.id) == Some(&DestinationStatus::Halted),
            };
            Ok(group.iter().map(finished).collect())
        })
    }
}

impl AttemptWriter {
    /// Closes the gates of accounts whose destinations may be removed or disabled. Returns the
    /// lineages of accounts where one may be disabled, and passes their gates, because destinations
    /// above get the event.
    async fn close_gates(
        &self,
        tx: &mut Transaction,
        group: &[EndedAttempt],
        gone: &[&EndedAttempt],
    ) -> Result<HashMap<AccountId, Lineage>, StoreError> {
        let breaker = &self.base.deliveries.breaker;
        let mut lineages = HashMap::new();
        for one in group.iter().filter(|one| one.failed()) {
            let (account, since) = (one.destination.account, one.destination.health.failing_since);
            if breaker.may_give_up(since, one.ended)
                && !lineages.contains_key(&account)
                && let Some(found) = accounts::find(tx, account).await?
            {
                lineages.insert(account, found.lineage);
            }
        }
        let closed = gone.iter().map(|one| one.destination.account);
        let closed: BTreeSet<AccountId> = closed.chain(lineages.keys().copied()).collect();
        let passed = lineages.values().flat_map(Lineage::ids).collect();
        if !closed.is_empty() {
            gates::close_and_pass(tx, &closed, &passed).await?;
        }
        Ok(lineages)
    }

    async fn disable(
        &self,
        tx: &mut Transaction,
        last: &EndedAttempt,
        since: Timestamp,
        lineage: Lineage,
    ) -> Result<(), StoreError> {
        let hours = self.base.deliveries.breaker.disable_after.as_secs() / 3600;
        let disabling = Disabling {
            destination: &last.destination,
            lineage,
            reason: format!(
                "all attempts failed for {hours} hours: repair the receiver, \
                 then enable the webhook"
            ),
            failing_since: Some(self.base.mint().clock().wall_of(since)),
            last_status: last.attempt.status,
            error: last.attempt.error.clone(),
        };
        let act = Actor::GATEWAY.at(ended_at(&last.attempt));
        disabling::disable(tx, &self.base, disabling, act).await
    }

    /// Notes the removal after a 410 in the audit log, so that its owner can find the cause.
    async fn note_gone(&self, tx: &mut Transaction, one: &EndedAttempt) -> Result<(), StoreError> {
        let changes = [
            Change::gone("type", one.destination.category),
            Change::made("reason", "the receiver answered 410"),
        ];
        let removed = note_about(&one.destination, Deed::WebhookRemoved, &changes);
        audit::note(tx, self.base.mint(), Actor::GATEWAY.at(one.attempt.at), removed).await
    }
}

impl EndedAttempt {
    /// Whether the claim still held, by the fences of the claims that did.
    fn held(&self, fences: &HashMap<DeliveryId, i64>) -> bool {
        fences.get(&self.delivery) == Some(&self.fence)
    }

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
    group: &[EndedAttempt],
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
    recorded: &[&EndedAttempt],
) -> Result<(), StoreError> {
    let row = |one: &&EndedAttempt| -> Vec<Value> {
        let attempt = &one.attempt;
        vec![
            attempt.id.0.into(),
            one.delivery.0.into(),
            attempt.at.into(),
            i64::from(attempt.latency_ms).into(),
            attempt.status.map(i64::from).into(),
            attempt.response.as_slice().into(),
            attempt.error.clone().into(),
            one.organization.into(),
        ]
    };
    many(
        "INSERT INTO attempts (id, delivery_id, at, latency_ms, status, response, error,
             organization_id) {rows}",
        recorded.iter().map(row).collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}
