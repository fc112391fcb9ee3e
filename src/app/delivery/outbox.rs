//! The dispatcher's side of the store: claim what is due, record what became of it.

use std::time::Duration;

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::DestinationId;
use crate::store::{Store, StoreError};

/// Deliveries that are due, one claimant at a time.
#[derive(Clone, Debug)]
pub struct Outbox {
    store: Store,
    clock: Clock,
    lease: Duration,
}

impl Outbox {
    /// Claims from this store for `lease` at a time.
    pub const fn new(store: Store, clock: Clock, lease: Duration) -> Self {
        Self { store, clock, lease }
    }

    /// Claims up to `limit` deliveries that are due, none for a destination in `busy`.
    pub async fn claim(
        &self,
        limit: usize,
        busy: &[DestinationId],
    ) -> Result<Vec<Claim>, StoreError> {
        let now = self.clock.steady();
        self.store.claim_deliveries(now, now.plus(self.lease), limit, busy).await
    }

    /// Records an attempt and what follows from it. A claim that was taken over in the meantime
    /// changes nothing: whoever holds it now records its own. Answers whether nothing more of its
    /// destination is to be begun: it rests, is disabled or was removed.
    pub async fn finish(
        &self,
        claim: &Claim,
        attempt: &Attempt,
        outcome: Outcome,
    ) -> Result<bool, StoreError> {
        Ok(self.store.finish_delivery(claim, attempt, outcome).await?.halts)
    }

    /// Gives claims back that were not begun.
    pub async fn release(&self, claims: &[Claim]) -> Result<(), StoreError> {
        self.store.release_deliveries(claims).await
    }

    /// The name under which it claims; none while what it has claimed may be somebody else's.
    pub fn holder(&self) -> Option<i64> {
        self.store.holder()
    }

    /// When the next delivery is due.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.store.next_due(self.clock.steady()).await
    }
}
