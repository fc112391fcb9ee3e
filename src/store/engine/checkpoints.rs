//! Copies the log (WAL) of the embedded database into its file, over a connection of its own. If
//! the writing connection did so in a commit, its callers would wait ten times as long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};
use tokio::sync::Mutex;

use super::error::StoreError;
use super::sql::{Connection, sql};
use super::trust::Trust;
use super::writer::Writer;

/// Commits between two checks of the log.
const BETWEEN_LOOKS: u32 = 16;
/// The writing connection copies the rest of the log at this multiple of `pages`. The log grows
/// during copies, and SQLite starts it anew only when all of it has been copied.
const LOG: u32 = 4;

/// Shared by all writers of one database.
#[derive(Debug)]
pub struct Checkpoints {
    connection: SqlitePool,
    writer: Writer,
    /// Uncopied pages of the log that start a copy.
    pages: u32,
    commits: AtomicU32,
    under_way: Arc<Mutex<()>>,
}

impl Checkpoints {
    /// Connects at the first check.
    pub fn new(
        options: SqliteConnectOptions,
        writer: Writer,
        pages: u32,
        patience: Duration,
    ) -> Self {
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(patience)
            .test_before_acquire(false);
        Self {
            connection: pool.connect_lazy_with(options),
            writer,
            pages,
            commits: AtomicU32::default(),
            under_way: Arc::default(),
        }
    }

    /// Returns the length of the log, in pages, at which the writing connection copies the rest.
    const fn most(&self) -> u32 {
        self.pages.saturating_mul(LOG).saturating_add(self.pages / LOG)
    }

    /// Checks the log every [`BETWEEN_LOOKS`] commits, in a task that copies it if it is long.
    /// Transactions wait only while the writing connection copies. A failure is logged.
    pub fn committed(self: &Arc<Self>, trust: &Trust) {
        let count = self.commits.fetch_add(1, Ordering::Relaxed);
        if !count.is_multiple_of(BETWEEN_LOOKS) {
            return;
        }
        let Ok(turn) = Arc::clone(&self.under_way).try_lock_owned() else { return };
        let (this, trust) = (Arc::clone(self), trust.clone());
        tokio::spawn(async move {
            // The log still holds every page that was not copied: nothing is lost.
            if let Err(error) = this.copy(&trust).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "cannot copy the database log into its file");
            }
            drop(turn);
        });
    }

    async fn copy(&self, trust: &Trust) -> Result<(), StoreError> {
        // Reports the length of the log, and does nothing else.
        let on = Connection::SqlitePool(&self.connection, trust);
        let log = sql("PRAGMA wal_checkpoint(NOOP)").fetch_one(on).await?;
        let (pages, copied) = (log.get::<i64>("log")?, log.get::<i64>("checkpointed")?);
        let copy = "PRAGMA wal_checkpoint(PASSIVE)";
        if pages - copied >= i64::from(self.pages) {
            let on = Connection::SqlitePool(&self.connection, trust);
            sql(copy).fetch_one(on).await?;
        }
        // Left to SQLite, this copy would run behind a commit, and report a failure nowhere.
        if pages >= i64::from(self.most()) {
            let turn = self.writer.turn().await;
            let mut turn = turn.map_err(|error| trust.record_loss(error))?;
            sql(copy).fetch_one(Connection::Sqlite(turn.connection(), trust)).await?;
        }
        Ok(())
    }

    /// Closes the connection after the copy under way.
    pub async fn close(&self) {
        self.connection.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::embedded;
    use super::*;
    use crate::rules::Rules;
    use crate::store::engine::schema::Opening;

    /// Returns the pages of the log already copied into the file, and all its pages.
    async fn log(store: &embedded::Embedded) -> (i64, i64) {
        let trust = Trust::default();
        let on = Connection::SqlitePool(&store.checkpoints.connection, &trust);
        let log = sql("PRAGMA wal_checkpoint(NOOP)").fetch_one(on).await.unwrap();
        (log.get("checkpointed").unwrap(), log.get("log").unwrap())
    }

    #[tokio::test]
    async fn the_log_is_copied_behind_the_commits_and_does_not_grow_without_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut rules = Rules::defaults().unwrap().store.connections;
        rules.embedded_checkpoint_pages = 100;
        let store =
            embedded::open(&folder.path().join("data"), &rules, Opening::Create).await.unwrap();
        let trust = Trust::default();
        let write = async |text| {
            let mut turn = store.writer.turn().await.unwrap();
            sql(text).execute(Connection::Sqlite(turn.connection(), &trust)).await.unwrap();
        };
        write("CREATE TABLE t (a BLOB)").await;
        let mut behind = false;
        let most = i64::from(store.checkpoints.most());
        for round in 0..200 {
            // Thirty pages each time.
            write("INSERT INTO t VALUES (randomblob(61440))").await;
            let (before, _) = log(&store).await;
            store.checkpoints.committed(&trust);
            // Locking waits for the copy to end.
            drop(store.checkpoints.under_way.lock().await);
            let (copied, all) = log(&store).await;
            assert!(all < most + 17 * 32 + 100, "round {round}: {all} pages");
            behind |= copied > before && copied < most;
            // Sixteen rounds between two checks, and the current round.
            assert!(all - copied < 17 * 32 + 100, "round {round}: {copied} of {all}");
        }
        assert!(behind, "nothing was copied but by the connection that writes");
    }
}
