//! The connection of the embedded store that writes: transactions have it in turns.
//!
//! Not a pool of sqlx, which asks a connection for a sign of life whenever it comes back, and counts
//! its transactions by itself: SQLite ends one when the disk is full or a write fails.

use std::sync::Arc;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMappedMutexGuard, OwnedMutexGuard};

use super::database::Flush;

const BEGIN: &str = "BEGIN IMMEDIATE";

/// Shared by all who write.
#[derive(Clone, Debug)]
pub struct Writer {
    options: SqliteConnectOptions,
    patience: Duration,
    /// None once it is closed.
    seat: Arc<Mutex<Option<Seat>>>,
}

#[derive(Debug)]
struct Seat {
    connection: SqliteConnection,
    /// Whether a transaction was begun and, as far as is known, not ended.
    is_begun: bool,
    /// What `PRAGMA synchronous` says, if that is known.
    flush: Option<Flush>,
}

/// The connection, for one user at a time. A transaction that was not committed is rolled back
/// when this is dropped.
#[derive(Debug)]
pub struct Turn {
    seat: OwnedMappedMutexGuard<Option<Seat>, Seat>,
    writer: Writer,
}

impl Writer {
    /// Connects; the options flush each commit. Users wait for their turn for `patience`.
    pub async fn connect(
        options: SqliteConnectOptions,
        patience: Duration,
    ) -> Result<Self, sqlx::Error> {
        let seat = Seat::connect(&options).await?;
        Ok(Self { options, patience, seat: Arc::new(Mutex::new(Some(seat))) })
    }

    /// Waits for the turn; what the former user left open is rolled back.
    pub async fn turn(&self) -> Result<Turn, sqlx::Error> {
        let waiting = tokio::time::timeout(self.patience, Arc::clone(&self.seat).lock_owned());
        let seat = waiting.await.map_err(|_| sqlx::Error::PoolTimedOut)?;
        let seat = OwnedMutexGuard::try_map(seat, Option::as_mut);
        let mut seat = seat.map_err(|_| sqlx::Error::PoolClosed)?;
        if seat.is_begun {
            seat.end(&self.options).await?;
        }
        Ok(Turn { seat, writer: self.clone() })
    }

    /// Whether somebody has the turn.
    pub fn is_busy(&self) -> bool {
        self.seat.try_lock().is_err()
    }

    /// Closes the connection behind its last user.
    pub async fn close(&self) {
        let Some(seat) = self.seat.lock().await.take() else { return };
        if let Err(error) = seat.connection.close().await {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "cannot close the connection that writes");
        }
    }
}

impl Seat {
    async fn connect(options: &SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        let connection = options.connect().await?;
        Ok(Self { connection, is_begun: false, flush: None })
    }

    /// Rolls the open transaction back, if SQLite has not done so. A connection that cannot is replaced.
    async fn end(&mut self, options: &SqliteConnectOptions) -> Result<(), sqlx::Error> {
        match sqlx::raw_sql("ROLLBACK").execute(&mut self.connection).await {
            Ok(_) => {}
            // SQLITE_ERROR: no transaction is active.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("1") => {}
            Err(_) => *self = Self::connect(options).await?,
        }
        self.is_begun = false;
        Ok(())
    }
}

impl Turn {
    /// Begins a transaction, which no other one writes beside.
    pub async fn begin(&mut self, flush: Flush) -> Result<(), sqlx::Error> {
        let seat = &mut *self.seat;
        seat.is_begun = true;
        if seat.flush == Some(flush) {
            return sqlx::query(BEGIN).execute(&mut seat.connection).await.map(drop);
        }
        // In WAL mode NORMAL leaves out the fsync of a commit, and nothing else.
        let pragma = match flush {
            Flush::Now => "PRAGMA synchronous = FULL",
            Flush::Later => "PRAGMA synchronous = NORMAL",
        };
        seat.flush = None;
        // Not kept prepared: SQLite obeys this pragma when it prepares it.
        let both = AssertSqlSafe(format!("{pragma}; {BEGIN}"));
        sqlx::raw_sql(both).execute(&mut seat.connection).await?;
        seat.flush = Some(flush);
        Ok(())
    }

    /// Notes that the transaction has ended.
    pub fn ended(&mut self) {
        self.seat.is_begun = false;
    }

    pub fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.seat.connection
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.seat.is_begun {
            return;
        }
        // The end of the runtime closes the connection, and so the transaction.
        let Ok(runtime) = Handle::try_current() else { return };
        let writer = self.writer.clone();
        // Whoever waited before rolls back, too; this is for nobody waiting.
        runtime.spawn(async move { writer.turn().await.map(drop) });
    }
}
