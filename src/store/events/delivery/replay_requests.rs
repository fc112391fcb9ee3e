//! What a customer asks a destination to be sent, beside what happens: a test, and once more what it
//! missed. A replay is written down here and worked off by the claims.

use uuid::Uuid;

use super::destination_changes::in_use;
use crate::domain::account::Account;
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::delivery::Extent;
use crate::domain::event::{Event, EventName};
use crate::domain::id::{AccountId, DeliveryId, DestinationId, EventId};
use crate::store::base::Base;
use crate::store::engine::database::transact;
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;
use crate::store::events::announcements;
use crate::store::events::told::{TestData, told};
use crate::store::tenancy::audit::{self, Note};

/// What became of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// An event of its own, and its one delivery.
    Sent(EventId, DeliveryId),
    Disabled,
    NoDestination,
}

/// What became of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It waits to be worked off; the same one that was asked for before and still waits is it.
    Accepted(Uuid),
    /// As many as may wait are waiting.
    TooMany,
    Disabled,
    NoDestination,
}

impl Base {
    /// Makes an event for this destination alone, whatever its type: an ordinary one, delivered as
    /// others are.
    pub async fn test_destination(
        &self,
        account: &Account,
        id: DestinationId,
        act: Act<'_>,
    ) -> Result<Tested, StoreError> {
        transact!(self, async |tx| {
            // Whoever removes or disables it waits, and gives up what this makes.
            gates::pass_accounts(&mut tx, account.lineage.ids().collect()).await?;
            let Some(destination) = in_use(&mut tx, account.id, id, "FOR SHARE").await? else {
                return Ok(Tested::NoDestination);
            };
            if destination.disabled.is_some() {
                return Ok(Tested::Disabled);
            }
            let event = Event {
                id: self.mint().event(),
                name: EventName::WebhookTest,
                at: act.at,
                lineage: account.lineage,
                message: None,
                contact: None,
                told: Some(told(&TestData::of(account, &destination))),
            };
            let delivery =
                announcements::announce_to(&mut tx, self.mint(), &event, &destination).await?;
            let changes = [Change::made("event", event.id)];
            let object = id.to_string();
            let note =
                Note { account: account.id, deed: Deed::WebhookTested, object, changes: &changes };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Tested::Sent(event.id, delivery))
        })
    }

    /// Writes down that a destination of this account is to be sent again what was made for it
    /// since then; at most `most` such wishes wait.
    pub async fn request_replay(
        &self,
        account: AccountId,
        id: DestinationId,
        (since, extent): (Timestamp, Extent),
        most: u64,
        act: Act<'_>,
    ) -> Result<Replayed, StoreError> {
        transact!(self, async |tx| {
            // One after the other: they are counted.
            let Some(destination) = in_use(&mut tx, account, id, "FOR NO KEY UPDATE").await? else {
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
            let object = id.to_string();
            let note = Note { account, deed: Deed::WebhookReplayed, object, changes: &changes };
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(Replayed::Accepted(replay))
        })
    }
}
