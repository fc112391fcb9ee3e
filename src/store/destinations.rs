//! Webhook destinations. A removed one keeps its row, so that its deliveries can be explained.

use sqlx::sqlite::SqliteRow;
use url::Url;

use super::db::{Store, Transaction};
use super::error::StoreError;
use super::row::Columns;
use crate::domain::clock::Timestamp;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::{AccountId, DestinationId};
use crate::domain::secret::Secret;

/// What became of a new destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewDestination {
    Created,
    /// The same account, URL and category is there already.
    Exists(Box<Destination>),
    /// The account has as many as it may.
    TooMany,
}

impl Store {
    /// Keeps a new destination, unless it exists or the account has `most` already.
    pub async fn insert_destination(
        &self,
        new: &Destination,
        most: u64,
    ) -> Result<NewDestination, StoreError> {
        let mut tx = self.begin().await?;
        let same = sqlx::query(
            "SELECT * FROM destinations
             WHERE account_id = $1 AND category = $2 AND url = $3 AND removed_at IS NULL",
        )
        .bind(new.account.get())
        .bind(new.category.as_str())
        .bind(new.url.as_str())
        .fetch_optional(tx.on())
        .await?;
        if let Some(row) = same {
            return Ok(NewDestination::Exists(Box::new(destination(&row)?)));
        }
        let count: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM destinations WHERE account_id = $1 AND removed_at IS NULL",
        )
        .bind(new.account.get())
        .fetch_one(tx.on())
        .await?;
        if u64::try_from(count).unwrap_or_default() >= most {
            return Ok(NewDestination::TooMany);
        }
        sqlx::query(
            "INSERT INTO destinations (id, account_id, url, category, label, secret, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(new.id.0)
        .bind(new.account.get())
        .bind(new.url.as_str())
        .bind(new.category.as_str())
        .bind(&new.label)
        .bind(new.secret.expose())
        .bind(new.created_at.millis())
        .execute(tx.on())
        .await?;
        tx.commit().await?;
        Ok(NewDestination::Created)
    }

    /// The destinations of an account, oldest first.
    pub async fn destinations(&self, account: AccountId) -> Result<Vec<Destination>, StoreError> {
        let rows = sqlx::query(
            "SELECT * FROM destinations WHERE account_id = $1 AND removed_at IS NULL ORDER BY id",
        )
        .bind(account.get())
        .fetch_all(self.reader())
        .await?;
        rows.iter().map(destination).collect()
    }

    /// Removes those destinations of an account that match all that is given, cancels what waits
    /// for them, and answers them.
    pub async fn remove_destinations(
        &self,
        account: AccountId,
        id: Option<DestinationId>,
        url: Option<&Url>,
        category: Option<Category>,
        now: Timestamp,
    ) -> Result<Vec<Destination>, StoreError> {
        let mut tx = self.begin().await?;
        let rows = sqlx::query(
            "SELECT * FROM destinations
             WHERE account_id = $1 AND removed_at IS NULL
               AND ($2 IS NULL OR id = $2) AND ($3 IS NULL OR url = $3)
               AND ($4 IS NULL OR category = $4)
             ORDER BY id",
        )
        .bind(account.get())
        .bind(id.map(|id| id.0))
        .bind(url.map(Url::as_str))
        .bind(category.map(Category::as_str))
        .fetch_all(tx.on())
        .await?;
        let removed: Vec<Destination> = rows.iter().map(destination).collect::<Result<_, _>>()?;
        for destination in &removed {
            retire(&mut tx, destination.id, now).await?;
        }
        tx.commit().await?;
        Ok(removed)
    }
}

/// Takes a destination out of use and cancels what waits for it.
pub(super) async fn retire(
    tx: &mut Transaction,
    id: DestinationId,
    now: Timestamp,
) -> Result<(), StoreError> {
    sqlx::query("UPDATE destinations SET removed_at = $2 WHERE id = $1 AND removed_at IS NULL")
        .bind(id.0)
        .bind(now.millis())
        .execute(tx.on())
        .await?;
    sqlx::query(
        "UPDATE deliveries SET state = 'cancelled', fence = fence + 1
         WHERE destination_id = $1 AND state = 'pending'",
    )
    .bind(id.0)
    .execute(tx.on())
    .await?;
    Ok(())
}

pub(super) fn destination(row: &SqliteRow) -> Result<Destination, StoreError> {
    let columns = Columns { table: "destinations", row };
    Ok(Destination {
        id: DestinationId(columns.uuid("id")?),
        account: columns.account("account_id")?,
        url: columns.word("url")?,
        category: columns.word("category")?,
        label: columns.text("label")?,
        secret: Secret::new(columns.bytes("secret")?),
        created_at: columns.time("created_at")?,
    })
}
