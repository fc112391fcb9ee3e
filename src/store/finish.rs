//! What became of attempts, recorded together: each attempt, and what follows from it.

use std::collections::HashMap;

use super::audit::{self, Note};
use super::db::{Base, Store, Transaction, settled};
use super::destinations::retire;
use super::error::StoreError;
use super::gates;
use super::group::Together;
use super::many::many;
use super::row::Columns;
use super::sql::Value;
use crate::domain::audit::{Actor, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Attempt, Claim, Outcome, State};
use crate::domain::event::Category;
use crate::domain::id::{AccountId, DeliveryId, DestinationId};

/// An attempt that has ended.
pub(super) struct Ended {
    delivery: DeliveryId,
    fence: i64,
    attempt: Attempt,
    outcome: Outcome,
    destination: DestinationId,
    category: Category,
    account: AccountId,
}

/// Writes what attempts came to.
pub(super) struct Attempts {
    base: Base,
}

impl Store {
    /// Records an attempt and what follows from it, unless the claim was taken over meanwhile;
    /// answers whether it was recorded.
    pub async fn finish_delivery(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<bool, StoreError> {
        let ended = Ended {
            delivery: claim.delivery,
            fence: claim.fence,
            attempt: attempt.clone(),
            outcome,
            destination: claim.destination.id,
            category: claim.destination.category,
            account: claim.destination.account,
        };
        self.attempts.ask(ended).await
    }
}

impl Together for Attempts {
    type Job = Ended;
    type Answer = bool;

    fn size(job: &Ended) -> (usize, usize) {
        (1, job.attempt.response.len())
    }

    async fn write(&self, group: &[Ended]) -> Result<Vec<bool>, StoreError> {
        settled!(self.try_write(group))
    }
}

impl Attempts {
    pub(super) const fn new(base: Base) -> Self {
        Self { base }
    }

    async fn try_write(&self, group: &[Ended]) -> Result<Vec<bool>, StoreError> {
        let mut tx = self.base.begin().await?;
        let gone: Vec<&Ended> = group.iter().filter(|one| one.outcome == Outcome::Gone).collect();
        let accounts: Vec<AccountId> = gone.iter().map(|one| one.account).collect();
        gates::close_accounts(&mut tx, &accounts).await?;
        let recorded = settle_deliveries(&mut tx, group).await?;
        insert_attempts(&mut tx, group, &recorded).await?;
        for one in gone {
            if recorded.get(&one.delivery) == Some(&one.fence) {
                let most = self.base.cancel_at_once;
                let was_in_use = retire(&mut tx, one.destination, one.attempt.at, most).await?;
                if was_in_use {
                    self.note_gone(&mut tx, one).await?;
                }
            }
        }
        tx.commit().await?;
        let of = |one: &Ended| recorded.get(&one.delivery) == Some(&one.fence);
        Ok(group.iter().map(of).collect())
    }

    /// 410 takes a destination out for good, so who looks for it later must find why.
    async fn note_gone(&self, tx: &mut Transaction, one: &Ended) -> Result<(), StoreError> {
        let changes = [
            Change::gone("type", one.category),
            Change::made("reason", "the receiver answered 410"),
        ];
        let (account, object) = (one.account, one.destination.to_string());
        let removed = Note { account, deed: Deed::WebhookRemoved, object, changes: &changes };
        let act = Actor::GATEWAY.at(one.attempt.at);
        audit::note(tx, self.base.mint(), act, removed).await
    }
}

impl Ended {
    /// Where its delivery stands now, and when it is due if it is to be tried again.
    const fn state(&self) -> (State, Timestamp) {
        match self.outcome {
            Outcome::Delivered => (State::Delivered, self.attempt.at),
            Outcome::RetryAt(at) => (State::Pending, at),
            Outcome::Exhausted => (State::Exhausted, self.attempt.at),
            Outcome::Gone => (State::Cancelled, self.attempt.at),
        }
    }
}

/// Moves the deliveries on whose claims still hold; answers them with the fences of their claims.
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
    let rows = rows.map(|Ended { delivery, attempt, .. }| -> Vec<Value> {
        vec![
            attempt.id.0.into(),
            delivery.0.into(),
            attempt.at.into(),
            i64::from(attempt.latency_ms).into(),
            attempt.status.map(i64::from).into(),
            attempt.response.as_slice().into(),
            attempt.error.clone().into(),
        ]
    });
    many(
        "INSERT INTO attempts (id, delivery_id, at, latency_ms, status, response, error) {rows}",
        rows.collect(),
    )
    .execute(tx.on())
    .await
    .map(drop)
}
