//! Checks for `/readyz` whether the store could take a message in now. Cheap.

use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::sql::sql;

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
}
