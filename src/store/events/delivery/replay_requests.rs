//! Deliveries that a customer requests: tests and replays. A request for a replay is stored here;
//! claims work it off (`replays.rs`).

use uuid::Uuid;

use super::destination_changes::find_in_use;
use super::destination_row::note_about;
use crate::domain::account::Account;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Extent;
use crate::domain::event::EventName;
use crate::domain::id::{AccountId, DeliveryId, DestinationId, EventId};
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;
use crate::store::events::announcements::{AccountEvent, announce_to};
use crate::store::events::event_data::{TestData, event_data};
use crate::store::tenancy::audit;

/// The deliveries of a destination that are to be sent again: those of this extent, since a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayRequest {
    pub since: Timestamp,
    pub extent: Extent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    Sent(EventId, DeliveryId),
    Disabled,
    NoDestination,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// The id of the stored request; of the earlier one, if an equal request still waits.
    Accepted(Uuid),
    /// The destination has as many waiting requests as it may.
    TooMany,
    Disabled,
    NoDestination,
}

impl Base {
    /// Sends a test event to this destination alone, whatever its category.
    pub async fn test_destination(
        &self,
        account: &Account,
        id: DestinationId,
        act: Act<'_>,
    ) -> Result<Tested, StoreError> {
        transact!(self, async |tx| {
            // A removal or a disabling of the destination waits, and then gives up this delivery.
            gates::pass_accounts(&mut tx, account.lineage.ids().collect()).await?;
            let Some(destination) = find_in_use(&mut tx, account.id, id, "FOR SHARE").await? else {
                return Ok(Tested::NoDestination);
            };
            if destination.disabled.is_some() {
                return Ok(Tested::Disabled);
            }
            let event = AccountEvent {
                name: EventName::WebhookTest,
                at: act.at,
                lineage: account.lineage,
                data: event_data(&TestData::of(account, &destination)),
            };
            let event = event.with_new_id(self.mint());
            let delivery = announce_to(&mut tx, self.mint(), &event, &destination).await?;
            let changes = [Change::made("event", event.id)];
            let note = note_about(&destination, Deed::WebhookTested, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Tested::Sent(event.id, delivery))
        })
    }

    /// Stores a request to replay deliveries since a time; at most `most` of a destination wait.
    pub async fn request_replay(
        &self,
        account: AccountId,
        id: DestinationId,
        ReplayRequest { since, extent }: ReplayRequest,
        most: u64,
        act: Act<'_>,
    ) -> Result<Replayed, StoreError> {
        transact!(self, async |tx| {
            // Locked, because the waiting requests are counted.
            let lock = "FOR NO KEY UPDATE";
            let Some(destination) = find_in_use(&mut tx, account, id, lock).await? else {
                return Ok(Replayed::NoDestination);
            };
            if destination.disabled.is_some() {
                return Ok(Replayed::Disabled);
            }
            let waiting = sql("SELECT id, what, since FROM replays WHERE destination_id = $1")
                .bind(id.0)
                .fetch_all(tx.on())
                .await?;
            for row in &waiting {
                let columns = Columns { table: "replays", row };
                if columns.time("since")? == since && columns.word::<Extent>("what")? == extent {
                    return Ok(Replayed::Accepted(columns.uuid("id")?));
                }
            }
            if u64::try_from(waiting.len()).unwrap_or(u64::MAX) >= most {
                return Ok(Replayed::TooMany);
            }
            let replay = self.mint().uuid();
            sql("INSERT INTO replays (id, destination_id, what, since, created_at)
             VALUES ($1, $2, $3, $4, $5)")
            .bind(replay)
            .bind(id.0)
            .bind(extent.as_str())
            .bind(since)
            .bind(act.at)
            .execute(tx.on())
            .await?;
            let changes = [Change::made("only", extent), Change::made("since", since)];
            let note = note_about(&destination, Deed::WebhookReplayed, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Replayed::Accepted(replay))
        })
    }
}
