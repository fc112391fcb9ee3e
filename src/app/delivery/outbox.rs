//! The dispatcher's access to the store: claiming due deliveries, and recording attempts.

use std::time::Duration;

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

    /// Claims up to `limit` due deliveries, none for a destination in `busy`.
    pub async fn claim(
        &self,
        limit: usize,
        busy: &[DestinationId],
    ) -> Result<Vec<Claim>, StoreError> {
        let now = self.clock.steady();
        self.store.claim_deliveries(now, now.plus(self.lease), limit, busy).await
    }

    /// Records an attempt and its outcome. Changes nothing if the claim was taken over: the new
    /// holder records its own attempt. Returns true if no delivery to this destination should begin
    /// now: it rests, is disabled, or was removed.
    pub async fn finish(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<bool, StoreError> {
        Ok(self.store.finish_delivery(claim, attempt, outcome).await?.halts)
    }

    /// Returns claims whose attempts have not begun.
    pub async fn release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        self.store.release_deliveries(claims).await
    }

    /// The name under which this gateway claims; `None` while others may have taken over its
    /// claims.
    pub fn holder(&self) -> Option<i64> {
        self.store.holder()
    }

    pub async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.store.next_due(self.clock.steady()).await
    }
}
