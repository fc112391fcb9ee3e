//! The dispatcher's queue: the deliveries that wait in the store.

use std::time::Duration;

use super::dispatcher::{Queue, QueueError};
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::DestinationId;
use crate::store::{Store, StoreError};

/// Due deliveries, each claimed by one gateway at a time.
#[derive(Clone, Debug)]
pub struct Outbox {
    store: Store,
    clock: Clock,
    lease: Duration,
}

impl Outbox {
    pub const fn new(store: Store, clock: Clock, lease: Duration) -> Self {
        Self { store, clock, lease }
    }
}

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotDurable(_) | StoreError::Damaged(_) => Self::Lost(Box::new(error)),
            error => Self::Failed(Box::new(error)),
        }
    }
}

impl Queue for Outbox {
    async fn claim(&self, limit: usize, busy: &[DestinationId]) -> Result<Vec<Claim>, QueueError> {
        let now = self.clock.steady();
        Ok(self.store.claim_deliveries(now, now.plus(self.lease), limit, busy).await?)
    }

    async fn finish(
        &self,
        claim: &Claim,
        attempt: Attempt,
        outcome: Outcome,
    ) -> Result<bool, QueueError> {
        Ok(self.store.finish_delivery(claim, &attempt, outcome).await?.halts)
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), QueueError> {
        Ok(self.store.release_deliveries(claims).await?)
    }

    fn holder(&self) -> Option<i64> {
        self.store.holder()
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, QueueError> {
        Ok(self.store.next_due(self.clock.steady()).await?)
    }
}
