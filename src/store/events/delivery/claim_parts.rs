//! Loads everything that attempts need. A delivery that cannot be read fails no other one.

use std::collections::HashMap;

use uuid::Uuid;

use super::destination_row::destination;
use super::destinations;
use super::event_context::{Subjects, read_by_id};
use crate::domain::delivery::Claim;
use crate::domain::destination::Destination;
use crate::domain::id::{DeliveryId, EventId};
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::Row;
use crate::store::events::event_row::event_of;

/// Destinations, events and subjects of claims, or the errors of reading these.
pub struct ClaimParts {
    destinations: HashMap<Uuid, Result<Destination, StoreError>>,
    subjects: Subjects,
}

impl ClaimParts {
    pub(in crate::store) async fn load(
        tx: &mut Transaction,
        rows: &[Row],
    ) -> Result<Self, StoreError> {
        // A delivery whose ids cannot be read is put off.
        let named = rows.iter().filter_map(|row| row.get::<Uuid>("destination_id").ok());
        let found = destinations::by_ids(tx.on(), named).await?;
        let destinations = read_by_id(&found, destination);
        let events: Vec<EventId> = rows.iter().filter_map(|row| event_of(row).ok()).collect();
        let subjects = Subjects::load(tx.on(), &events).await?;
        Ok(Self { destinations, subjects })
    }

    /// Makes the claim of a row. Fails with `Corrupt` if anything is missing or cannot be read.
    pub(in crate::store) fn claim(&self, row: &Row) -> Result<Claim, StoreError> {
        let columns = Columns { table: "deliveries", row };
        let missing = |what: &str| columns.corrupt(format!("its {what} is missing"));
        let destination = self.destinations.get(&columns.uuid("destination_id")?);
        let destination = destination.cloned().ok_or_else(|| missing("destination"))??;
        let found = self.subjects.find(event_of(row)?)?;
        let (event, subject) = found.ok_or_else(|| missing("event"))?;
        Ok(Claim {
            delivery: DeliveryId(columns.uuid("id")?),
            attempts: u32::try_from(columns.integer("attempts")?)
                .map_err(|e| columns.corrupt(e))?,
            fence: columns.integer("fence")?,
            destination,
            subject,
            event,
        })
    }
}
