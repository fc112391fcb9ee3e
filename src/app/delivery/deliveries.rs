//! What became of deliveries, and sending one again.

use super::destinations::{DestinationError, Destinations, disabled};
use crate::domain::id::{AccountId, DeliveryId, DestinationId};
use crate::store::{DeliveryFilter, DeliveryRecord, Page, Redelivery, StoreError};

const NO_DELIVERY: DestinationError = DestinationError::NotFound("delivery");

impl Destinations {
    /// A page of the deliveries to this destination that match, the newest first.
    pub async fn deliveries(
        &self,
        destination: DestinationId,
        filter: &DeliveryFilter,
        page: &Page,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let attempts = self.rules.attempt.shown_per_delivery;
        self.store.deliveries(destination, filter, page, attempts).await
    }

    /// One delivery to a destination that the account has, or had.
    pub async fn delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
    ) -> Result<DeliveryRecord, DestinationError> {
        let attempts = self.rules.attempt.shown_per_delivery;
        self.store.delivery(account, id, attempts).await?.ok_or(NO_DELIVERY)
    }

    /// Sends one again, under the same event id, as if it were new.
    pub async fn redeliver(
        &self,
        account: AccountId,
        id: DeliveryId,
    ) -> Result<(), DestinationError> {
        let conflict = |detail: &str| Err(DestinationError::Conflict(detail.to_owned()));
        match self.store.replay_delivery(account, id, self.act()).await? {
            Redelivery::Done => Ok(()),
            Redelivery::Pending => conflict(
                "this delivery is pending: it is tried again by itself (see nextAttemptAt)",
            ),
            Redelivery::Removed => {
                conflict("its webhook was removed: events go to webhooks that are in use")
            }
            Redelivery::Disabled => Err(disabled()),
            Redelivery::NoDelivery => Err(NO_DELIVERY),
        }
    }
}
