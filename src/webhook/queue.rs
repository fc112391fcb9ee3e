//! Implements the dispatcher's queue by the outbox of the store.

use super::dispatcher::{Queue, QueueError};
use crate::app::delivery::Outbox;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::{Attempt, Claim, Outcome};
use crate::domain::id::DestinationId;
use crate::store::StoreError;

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        Self::Failed(Box::new(error))
    }
}

impl Queue for Outbox {
    async fn claim(&self, limit: usize, busy: &[DestinationId]) -> Result<Vec<Claim>, QueueError> {
        Ok(self.claim(limit, busy).await?)
    }

    async fn finish(
        &self,
        claim: &Claim,
        attempt: Attempt,
        outcome: Outcome,
    ) -> Result<bool, QueueError> {
        Ok(self.finish(claim, &attempt, outcome).await?)
    }

    fn holder(&self) -> Option<i64> {
        self.holder()
    }

    async fn release(&self, claims: &[Claim]) -> Result<(), QueueError> {
        Ok(self.release(claims).await?)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, QueueError> {
        Ok(self.next_due().await?)
    }
}
