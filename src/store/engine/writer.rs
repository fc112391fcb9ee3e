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

const BEGIN: &str = "BEGIN IMMEDIATE";

/// When the rows of a commit reach the disk of the embedded store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// Before the commit returns.
    Now,
    /// With the next commit that is flushed now. A crash of the machine, not of this process, may
    /// undo the transaction: for work that is then done again. PostgreSQL, whose gateways live on,
    /// flushes now.
    Later,
}

/// Shared by all who write.
#[derive(Clone, Debug)]
pub struct Writer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
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
    /// The value of `PRAGMA synchronous`, if it is known.
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
        let seat = Arc::new(Mutex::new(Some(Seat::connect(&options).await?)));
        Ok(Self(Arc::new(Shared { options, patience, seat })))
    }

    /// Waits for the turn; what the former user left open is rolled back.
    pub(super) async fn turn(&self) -> Result<Turn, sqlx::Error> {
        let Shared { options, patience, seat } = &*self.0;
        let taking = async {
            let seat = Arc::clone(seat).lock_owned().await;
            let seat = OwnedMutexGuard::try_map(seat, Option::as_mut);
            let mut seat = seat.map_err(|_| sqlx::Error::PoolClosed)?;
            if seat.is_begun {
                seat.end(options).await?;
            }
            Ok(Turn { seat, writer: self.clone() })
        };
        let taken = tokio::time::timeout(*patience, taking).await;
        taken.unwrap_or(Err(sqlx::Error::PoolTimedOut))
    }

    /// Closes the connection behind its last user.
    pub async fn close(&self) {
        let Some(seat) = self.0.seat.lock().await.take() else { return };
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
        // Those who wait roll back by themselves; this is for when nobody waits.
        runtime.spawn(async move { writer.turn().await.map(drop) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::many::{Many, many};
    use crate::store::engine::sql::{Connection, Row, sql};
    use crate::store::engine::trust::Trust;

    async fn writer(folder: &tempfile::TempDir) -> Writer {
        let options = SqliteConnectOptions::new()
            .filename(folder.path().join("gatepost.db"))
            .create_if_missing(true)
            .busy_timeout(Duration::ZERO);
        Writer::connect(options, Duration::from_secs(10)).await.unwrap()
    }

    async fn run(turn: &mut Turn, text: &'static str) -> u64 {
        let trust = Trust::default();
        sql(text).execute(Connection::Sqlite(turn.connection(), &trust)).await.unwrap()
    }

    async fn number(turn: &mut Turn, text: &'static str) -> i64 {
        let trust = Trust::default();
        let row = sql(text).fetch_one(Connection::Sqlite(turn.connection(), &trust)).await.unwrap();
        row.get("number").unwrap()
    }

    #[tokio::test]
    async fn a_transaction_that_is_dropped_is_rolled_back_whether_somebody_waits_or_not() {
        let folder = tempfile::tempdir().unwrap();
        let (here, beside) = (writer(&folder).await, writer(&folder).await);
        let mut turn = here.turn().await.unwrap();
        run(&mut turn, "PRAGMA journal_mode = WAL").await;
        run(&mut turn, "CREATE TABLE t (a)").await;
        turn.begin(Flush::Now).await.unwrap();
        run(&mut turn, "INSERT INTO t VALUES (1)").await;
        // Somebody waits.
        let waiting = here.turn();
        drop(turn);
        let mut turn = waiting.await.unwrap();
        assert_eq!(number(&mut turn, "SELECT COUNT(*) AS number FROM t").await, 0);
        turn.begin(Flush::Now).await.unwrap();
        run(&mut turn, "INSERT INTO t VALUES (2)").await;
        drop(turn);
        // Nobody waits here, and another program writes.
        let mut other = beside.turn().await.unwrap();
        let wrote = tokio::time::timeout(Duration::from_secs(10), async {
            while other.begin(Flush::Now).await.is_err() {
                tokio::task::yield_now().await;
            }
        });
        wrote.await.unwrap();
        run(&mut other, "INSERT INTO t VALUES (3)").await;
        run(&mut other, "COMMIT").await;
        other.ended();
        assert_eq!(number(&mut other, "SELECT SUM(a) AS number FROM t").await, 3);
    }

    #[tokio::test]
    async fn each_transaction_is_flushed_as_it_asks() {
        let folder = tempfile::tempdir().unwrap();
        let here = writer(&folder).await;
        for flush in [Flush::Later, Flush::Now, Flush::Now, Flush::Later, Flush::Later] {
            let mut turn = here.turn().await.unwrap();
            turn.begin(flush).await.unwrap();
            let now =
                number(&mut turn, "SELECT synchronous AS number FROM pragma_synchronous").await;
            assert_eq!(now, if flush == Flush::Now { 2 } else { 1 });
        }
        // SQLite ends some transactions by itself.
        let mut turn = here.turn().await.unwrap();
        turn.begin(Flush::Now).await.unwrap();
        run(&mut turn, "ROLLBACK").await;
        drop(turn);
        here.turn().await.unwrap().begin(Flush::Now).await.unwrap();
        here.close().await;
        assert!(matches!(here.turn().await.unwrap_err(), sqlx::Error::PoolClosed));
    }

    #[tokio::test]
    async fn several_questions_in_one_call_have_their_own_answers() {
        let folder = tempfile::tempdir().unwrap();
        let here = writer(&folder).await;
        let mut turn = here.turn().await.unwrap();
        let list = |count: i64| -> Many {
            let rows = (0..count).map(|one| vec![one.into(), "text".into()]).collect();
            many("WITH given (a, b) AS ({rows}) SELECT a AS number FROM given WHERE a < $1", rows)
                .bind(1000)
        };
        let trust = Trust::default();
        // The last list of these is too long for one call.
        for counts in [[2, 0, 3], [0, 0, 0], [1, 0, 0], [0, 5, 200]] {
            let on = Connection::Sqlite(turn.connection(), &trust);
            let found = Many::fetch_each(counts.map(list), on).await.unwrap();
            let sums = found.map(|rows| {
                let number = |row: &Row| row.get::<i64>("number").unwrap();
                rows.iter().map(number).sum::<i64>()
            });
            assert_eq!(sums, counts.map(|count| count * (count - 1) / 2), "{counts:?}");
        }
    }
}
