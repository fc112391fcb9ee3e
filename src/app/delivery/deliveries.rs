//! Deliveries: listing them, and sending one again.

use super::destinations::Destinations;
use super::error::DestinationError;
use crate::domain::id::{AccountId, DeliveryId, DestinationId};
use crate::store::{Cursor, DeliveryFilter, DeliveryRecord, Page, Redelivery, StoreError};

impl Destinations {
    /// Lists matching deliveries to this destination, newest first.
    pub async fn deliveries(
        &self,
        destination: DestinationId,
        filter: &DeliveryFilter,
        page: &Page,
    ) -> Result<Vec<DeliveryRecord>, StoreError> {
        let attempts = self.rules.attempt.shown_per_delivery;
        self.store.deliveries(destination, filter, page, attempts).await
    }

    /// Returns the place of a delivery in the list of its destination, or None if it is not one of
    /// them.
    pub async fn place_of(
        &self,
        account: AccountId,
        destination: DestinationId,
        id: DeliveryId,
    ) -> Result<Option<Cursor>, StoreError> {
        let found = self.store.delivery(account, id, 0).await?;
        let found = found.filter(|one| one.destination == destination);
        Ok(found.map(|one| Cursor { at: one.created_at, id: one.id.0 }))
    }

    /// Returns a delivery to a destination that the account has or had.
    pub async fn delivery(
        &self,
        account: AccountId,
        id: DeliveryId,
    ) -> Result<DeliveryRecord, DestinationError> {
        let attempts = self.rules.attempt.shown_per_delivery;
        self.store.delivery(account, id, attempts).await?.ok_or(DestinationError::NoDelivery)
    }

    /// Makes an ended delivery pending again, under the same event id.
    pub async fn redeliver(
        &self,
        account: AccountId,
        id: DeliveryId,
    ) -> Result<(), DestinationError> {
        match self.store.replay_delivery(account, id, self.act()).await? {
            Redelivery::Done => Ok(()),
            Redelivery::Pending => Err(DestinationError::Pending),
            Redelivery::Removed => Err(DestinationError::Removed),
            Redelivery::Disabled => Err(DestinationError::Disabled),
            Redelivery::NoDelivery => Err(DestinationError::NoDelivery),
        }
    }
}
