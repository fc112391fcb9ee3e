//! Checks for `/readyz` whether the store could take a message in now. Cheap.

use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::sql::sql;

/// The step at which the blob store failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OriginalsFault {
    #[error("it cannot be read whose it is")]
    Owner(#[source] StoreError),
    #[error("an object cannot be written")]
    Put(#[source] StoreError),
    #[error("a written object cannot be read")]
    Get(#[source] StoreError),
    #[error("a written object cannot be removed")]
    Delete(#[source] StoreError),
}

impl Base {
    /// Commits a real transaction, to see whether one would be durable now: SQLite writes one page
    /// (its `user_version`), PostgreSQL an empty record into its log.
    pub async fn check_commit(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if let Some(embedded) = self.embedded() {
            // In the transaction, so that no two checks overlap: an older length would look like
            // damage.
            embedded.check_length().await?;
        }
        sql("PRAGMA user_version = 1")
            .on_postgres("SELECT pg_logical_emit_message(true, 'gatepost', '')")
            .execute(tx.on())
            .await?;
        tx.commit().await
    }

    /// Checks whether a large original could be stored now, if those lie outside of the database.
    pub async fn check_originals(&self) -> Result<(), StoreError> {
        match self.blobs() {
            Some(blobs) => blobs.probe().await,
            None => Ok(()),
        }
    }

    /// Writes, reads and removes an object, and reads whose blob store it is. Returns its place, or
    /// None if all originals lie in the database. Claims nothing.
    pub async fn exercise_originals(&self) -> Result<Option<String>, OriginalsFault> {
        let Some(blobs) = self.blobs() else { return Ok(None) };
        let identity = self.known_identity().await.map_err(OriginalsFault::Owner)?;
        blobs.check_owner(identity).await.map_err(OriginalsFault::Owner)?;
        let probe = blobs.put_probe().await.map_err(OriginalsFault::Put)?;
        let read = blobs.get(probe.path.as_ref(), probe.size, probe.digest).await;
        let removed = blobs.remove(&probe.path).await;
        read.map_err(OriginalsFault::Get)?;
        removed.map_err(OriginalsFault::Delete)?;
        Ok(Some(blobs.at.clone()))
    }
}
