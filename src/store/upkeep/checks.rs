//! Whether the store could take a message in now, as `/readyz` asks: cheap, and no more than a
//! reading or a writing of what nobody reads.

use crate::store::base::Base;
use crate::store::engine::error::StoreError;
use crate::store::engine::sql::sql;

impl Base {
    /// Whether a transaction would be durable now. It is a real one: SQLite writes one page, into
    /// a number that it keeps for its users, PostgreSQL an empty record into its log.
    pub async fn check_commit(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if let Some(embedded) = self.embedded() {
            // In the transaction: no commit of ours is being copied into the file.
            embedded.check_length().await?;
        }
        sql("PRAGMA user_version = 1")
            .on_postgres("SELECT pg_logical_emit_message(true, 'gatepost', '')")
            .execute(tx.on())
            .await?;
        tx.commit().await
    }

    /// Whether a large original could be kept now, where those are kept outside of the database.
    pub async fn check_originals(&self) -> Result<(), StoreError> {
        match self.blobs() {
            Some(blobs) => blobs.probe().await,
            None => Ok(()),
        }
    }
}
