//! Webhook destinations. A removed one keeps its row, so that its deliveries can be explained.

use url::Url;
use uuid::Uuid;

use super::destination_row::{self, destination, note_about, select};
use crate::domain::audit::{Act, Change, Deed};
use crate::domain::clock::Timestamp;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::{AccountId, DestinationId};
use crate::store::base::Base;
use crate::store::engine::database::{Transaction, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::gates;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;
use crate::store::tenancy::audit;

/// Result of adding a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewDestination {
    Created,
    /// The account already has this destination: the same URL and category.
    Exists(Box<Destination>),
    /// The account has as many destinations as it may.
    TooMany,
}

/// At least one category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SomeCategories<'a> {
    pub first: Category,
    pub others: &'a [Category],
}

impl Base {
    /// Adds a destination, unless it exists or the account has `most` already. On PostgreSQL,
    /// additions to one account wait for each other, because they are counted.
    pub async fn insert_destination(
        &self,
        new: &Destination,
        most: u64,
        act: Act<'_>,
    ) -> Result<NewDestination, StoreError> {
        transact!(self, async |tx| {
            gates::take_turn(&mut tx, "destinations", new.account.get()).await?;
            let same = select(
                "WHERE account_id = $1 AND category = $2 AND url = $3 AND removed_at IS NULL",
            )
            .bind(new.account.get())
            .bind(new.category.as_str())
            .bind(new.url.as_str())
            .fetch_optional(tx.on())
            .await?;
            if let Some(row) = same {
                return Ok(NewDestination::Exists(Box::new(destination(&row)?)));
            }
            let row = sql("SELECT COUNT(*) AS kept FROM destinations
                           WHERE account_id = $1 AND removed_at IS NULL")
            .bind(new.account)
            .fetch_one(tx.on())
            .await?;
            if (Columns { table: "destinations", row: &row }).count("kept")? >= most {
                return Ok(NewDestination::TooMany);
            }
            sql("INSERT INTO destinations (id, account_id, url, category, label, secret, created_at,
                                           ordered, payload, headers)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
            .bind(new.id.0)
            .bind(new.account.get())
            .bind(new.url.as_str())
            .bind(new.category.as_str())
            .bind(new.label.clone())
            .bind(new.secret.expose())
            .bind(new.created_at.millis())
            .bind(i64::from(new.wants.ordered))
            .bind(new.wants.payload.as_str())
            .bind(destination_row::headers(&new.wants.headers))
            .execute(tx.on())
            .await?;
            // Shows only the origin of the URL: paths contain secrets.
            let changes = [
                Change::made("origin", new.url.origin().ascii_serialization()),
                Change::made("type", new.category),
                Change::made("label", &new.label),
            ];
            let note = note_about(new, Deed::WebhookAdded, &changes);
            audit::note(&mut tx, self.mint(), act, note).await?;
            tx.commit().await?;
            Ok(NewDestination::Created)
        })
    }

    /// Returns the destinations of an account, oldest first.
    pub async fn destinations(&self, account: AccountId) -> Result<Vec<Destination>, StoreError> {
        let rows = select("WHERE account_id = $1 AND removed_at IS NULL ORDER BY id")
            .bind(account.get())
            .fetch_all(self.reader())
            .await?;
        rows.iter().map(destination).collect()
    }

    /// Returns the destinations of all accounts, oldest first.
    pub async fn all_destinations(&self) -> Result<Vec<Destination>, StoreError> {
        let rows = select("WHERE removed_at IS NULL ORDER BY id").fetch_all(self.reader()).await?;
        rows.iter().map(destination).collect()
    }

    /// Removes and returns the account's destinations that match each condition given (if
    /// `categories`, one of them). No claim takes their pending deliveries any more.
    pub async fn remove_destinations(
        &self,
        account: AccountId,
        id: Option<DestinationId>,
        url: Option<&Url>,
        categories: Option<SomeCategories<'_>>,
        act: Act<'_>,
    ) -> Result<Vec<Destination>, StoreError> {
        transact!(self, async |tx| {
            // Waits for commits that have passed the gate: their deliveries must be cancelled, too.
            gates::close_account(&mut tx, account).await?;
            let mut query = select("WHERE removed_at IS NULL AND account_id = ");
            query.push_value(account);
            if let Some(id) = id {
                query.push(" AND id = ").push_value(id.0);
            }
            if let Some(url) = url {
                query.push(" AND url = ").push_value(url.as_str());
            }
            if let Some(SomeCategories { first, others }) = categories {
                query.push(" AND category IN (").push_value(first.as_str());
                for other in others {
                    query.push(", ").push_value(other.as_str());
                }
                query.push(")");
            }
            query.push(" ORDER BY id");
            let rows = query.locking("FOR NO KEY UPDATE").fetch_all(tx.on()).await?;
            let removed: Vec<Destination> =
                rows.iter().map(destination).collect::<Result<_, _>>()?;
            for destination in &removed {
                self.mark_removed(&mut tx, destination.id, act.at).await?;
                let note = note_about(destination, Deed::WebhookRemoved, &[]);
                audit::note(&mut tx, self.mint(), act, note).await?;
            }
            tx.commit().await?;
            Ok(removed)
        })
    }

    /// Removes a destination with its secrets and headers, and cancels a batch of its deliveries,
    /// which no claim takes any more; `drain_more` cancels the rest. Returns false if it was
    /// removed before.
    pub(in crate::store) async fn mark_removed(
        &self,
        tx: &mut Transaction,
        id: DestinationId,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let removed = sql("UPDATE destinations
             SET removed_at = $2, draining = 1, secret = $3, former_secrets = '[]', headers = '[]'
             WHERE id = $1 AND removed_at IS NULL")
        .bind(id.0)
        .bind(now.millis())
        .bind([].as_slice())
        .execute(tx.on())
        .await?;
        self.drain(tx, id.0, now).await?;
        Ok(removed > 0)
    }

    /// Gives up a batch of the pending deliveries of a draining destination. Logs an error instead
    /// of returning it, so that no claim is lost; a later claim tries again.
    pub(in crate::store) async fn drain_more(&self, destination: Uuid, now: Timestamp) {
        if let Err(error) = transact!(self, async |tx| {
            // Separate from the claim, so that this transaction waits for no lock while it holds
            // the destination. Locked by a separate statement, because the destination may have
            // been enabled since it was found: deliveries that were made after that must stay.
            let drained = sql("SELECT id FROM destinations WHERE id = $1 AND draining = 1")
                .bind(destination)
                .locking("FOR NO KEY UPDATE SKIP LOCKED")
                .fetch_optional(tx.on())
                .await?;
            if drained.is_some() {
                self.drain(&mut tx, destination, now).await?;
            }
            tx.commit().await
        }) {
            let error = &error as &(dyn std::error::Error + 'static);
            tracing::warn!(
                error,
                "cannot cancel the waiting deliveries of a webhook that is not in use"
            );
        }
    }

    /// Ends a batch of pending deliveries at `now` (wall clock): cancelled if the destination was
    /// removed, exhausted (may be replayed) if it is disabled. When none is left, the draining
    /// ends. The transaction holds the destination's row, or the destination was removed before.
    pub(in crate::store) async fn drain(
        &self,
        tx: &mut Transaction,
        destination: Uuid,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        sql("UPDATE deliveries SET fence = fence + 1, next_attempt_at = $3,
                 state = (SELECT CASE WHEN removed_at IS NULL THEN 'exhausted' ELSE 'cancelled' END
                          FROM destinations WHERE id = $1)
             WHERE rowid IN (SELECT rowid FROM deliveries INDEXED BY deliveries_by_destination
                             WHERE destination_id = $1 AND state = 'pending'
                             ORDER BY created_at, id LIMIT $2)")
        // Skips deliveries whose attempts are being recorded: a later batch takes them.
        .on_postgres(
            "WITH taken AS (
                 SELECT id FROM deliveries WHERE destination_id = $1 AND state = 'pending'
                 ORDER BY created_at, id LIMIT $2 FOR UPDATE SKIP LOCKED)
             UPDATE deliveries SET fence = fence + 1, next_attempt_at = $3,
                 state = (SELECT CASE WHEN removed_at IS NULL THEN 'exhausted' ELSE 'cancelled' END
                          FROM destinations WHERE id = $1)
             WHERE id IN (SELECT id FROM taken)",
        )
        .bind(destination)
        .bind(i64::from(self.cancel_at_once()))
        .bind(now)
        .execute(tx.on())
        .await?;
        sql("UPDATE destinations SET draining = 0
             WHERE id = $1 AND draining = 1 AND NOT EXISTS (
                 SELECT 1 FROM deliveries WHERE destination_id = $1 AND state = 'pending')")
        .bind(destination)
        .execute(tx.on())
        .await
        .map(drop)
    }
}
