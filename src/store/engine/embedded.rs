//! The embedded database: SQLite in a folder of its own. One connection writes (several would only
//! wait for each other), a few read. With WAL and `synchronous=FULL`, a commit that returned is on
//! the disk.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};

use super::checkpoints::Checkpoints;
use super::directory_mark::DirectoryMark;
use super::error::StoreError;
use super::schema::{self, Opening};
use super::sql::{Connection, Row, Statement};
use super::trust::Trust;
use super::writer::Writer;
use crate::disk;
use crate::rules::StoreConnections as Connections;

/// Prepared statements kept by a connection: statements about many rows come in several sizes.
const STATEMENTS: usize = 500;
pub const FILE: &str = "gatepost.db";
/// Bytes of a page of a new database. A message changes small rows in many places, and each changed
/// page is written whole: this size writes a third less than 4 KiB, at the same CPU cost.
const PAGE: u32 = 2048;
/// Locked while the schema is checked and migrated.
const LOCK_FILE: &str = "gatepost.lock";
/// A migration of a large store takes minutes.
const LOCK_PATIENCE: Duration = Duration::from_secs(300);
/// Steps of SQLite between two checks of the clock: less than a millisecond.
const STEPS: i32 = 10_000;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone, Debug)]
pub struct Embedded {
    pub folder: PathBuf,
    pub reader: SqlitePool,
    pub writer: Writer,
    pub checkpoints: Arc<Checkpoints>,
    pub directory: Arc<DirectoryMark>,
    /// Time limit of a statement that walks many rows.
    statement: Duration,
    /// Greatest length of the database file seen so far, in bytes.
    longest: Arc<AtomicU64>,
}

/// Opens the store in `folder`, and migrates it to this version. If there is none, creates it if
/// `create` is set, else fails with `Missing`.
pub async fn open(
    folder: &Path,
    rules: &Connections,
    opening: Opening,
) -> Result<Embedded, StoreError> {
    let at = || folder.display().to_string();
    let io_error = |source| StoreError::Open { at: at(), source: sqlx::Error::Io(source).into() };
    if opening == Opening::Create {
        make_private(folder).map_err(io_error)?;
    }
    let path = folder.join(FILE);
    if !path.try_exists().map_err(io_error)? {
        return Err(StoreError::Missing { at: at() });
    }
    let lock = lock(&folder.join(LOCK_FILE)).await.map_err(io_error)?;
    let open_error = |source| StoreError::opening(at(), source);
    let options = SqliteConnectOptions::new()
        .filename(&path)
        .page_size(PAGE)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(rules.acquire())
        .statement_cache_capacity(STATEMENTS)
        .pragma("cache_size", format!("-{}", u64::from(rules.embedded_cache_mib) * 1024))
        .pragma("wal_autocheckpoint", "0");
    let first = SqlitePoolOptions::new().max_connections(1);
    let first = first.connect_with(options.clone()).await.map_err(open_error)?;
    if opening != Opening::AsIs {
        migrate(&first).await?;
    } else if !is_current(&first).await? {
        return Err(StoreError::Older { at: at() });
    }
    // Statement journals would be files otherwise, one in ten commits. Readers keep files,
    // because their sorts are long.
    let writing = options.clone().pragma("temp_store", "memory");
    let writer = Writer::connect(writing, rules.acquire()).await.map_err(open_error)?;
    first.close().await;
    drop(lock);
    let (pages, patience) = (rules.embedded_checkpoint_pages, rules.acquire());
    let checkpoints = Checkpoints::new(options.clone(), writer.clone(), pages, patience).into();
    let reader = SqlitePoolOptions::new()
        .max_connections(rules.embedded_readers)
        .acquire_timeout(rules.acquire())
        .test_before_acquire(false)
        .connect_with(options.read_only(true))
        .await
        .map_err(open_error)?;
    let longest = Arc::new(AtomicU64::new(std::fs::metadata(&path).map_err(io_error)?.len()));
    let directory = Arc::new(DirectoryMark::open(&path).map_err(io_error)?);
    let (folder, statement) = (folder.to_owned(), rules.statement());
    Ok(Embedded { folder, reader, writer, checkpoints, directory, statement, longest })
}

async fn is_current(pool: &SqlitePool) -> Result<bool, StoreError> {
    let mut one = pool.acquire().await?;
    let names = sqlx::query_as(schema::NAMES).fetch_all(&mut *one).await?;
    schema::is_current(&mut *one, &migrations(), &names).await
}

/// Brings the schema to this version. A newer one is left as it is, if this program may use it.
async fn migrate(pool: &SqlitePool) -> Result<(), StoreError> {
    let mut known = migrations();
    match known.run(pool).await {
        Err(MigrateError::VersionMissing(_)) => {
            let names: Vec<schema::Applied> = sqlx::query_as(schema::NAMES).fetch_all(pool).await?;
            schema::check_newer(&known, &names)?;
            known.set_ignore_missing(true);
            Ok(known.run(pool).await?)
        }
        done => Ok(done?),
    }
}

impl Embedded {
    /// Returns the same database with readers of its own, which are connected at once.
    pub async fn apart(&self, readers: u32) -> Result<Self, StoreError> {
        let options = SqliteConnectOptions::clone(&self.reader.connect_options());
        let pool = self.reader.options().clone().max_connections(readers).min_connections(readers);
        let reader = pool.connect_with(options).await?;
        Ok(Self { reader, ..self.clone() })
    }

    /// Fails with `Damaged` if the database file has become shorter. This program never shortens
    /// it, and SQLite, which has pages in its cache, may not notice for a long time. Does not open
    /// the file: the close would release SQLite's locks in this process, and a command beside the
    /// server could remove the log (<https://sqlite.org/howtocorrupt.html>, 2.2).
    pub(in crate::store) async fn check_length(&self) -> Result<(), StoreError> {
        let looked = tokio::fs::metadata(self.folder.join(FILE)).await;
        let length = looked.map_err(|error| StoreError::from(sqlx::Error::Io(error)))?.len();
        if length < self.longest.fetch_max(length, Ordering::SeqCst) {
            return Err(StoreError::Damaged(None));
        }
        Ok(())
    }

    /// Fetches all rows of a statement, and interrupts it when it takes too long. The statement keeps
    /// its time limit when this future is dropped: a client that leaves takes no reader for longer.
    pub(in crate::store) async fn fetch_in_time(
        &self,
        query: Statement,
        trust: &Trust,
    ) -> Result<Vec<Row>, StoreError> {
        let (reader, limit, trust) = (self.reader.clone(), self.statement, trust.clone());
        let fetching = tokio::spawn(async move {
            let mut one = reader.acquire().await?;
            let until = Instant::now() + limit;
            one.lock_handle().await?.set_progress_handler(STEPS, move || Instant::now() < until);
            let rows = query.fetch_all(Connection::Sqlite(&mut one, &trust)).await;
            // Lest the next user of the connection is interrupted.
            one.lock_handle().await?.remove_progress_handler();
            rows
        });
        // A task that is gone ended with the runtime, or panicked.
        fetching.await.unwrap_or(Err(StoreError::Ended))
    }
}

pub fn migrations() -> Migrator {
    schema::migrator(&schema::EMBEDDED)
}

/// Creates the folder and the database file, for this user only: they hold messages and signing
/// secrets. SQLite gives its other files the mode of the database file.
fn make_private(folder: &Path) -> io::Result<()> {
    disk::make_folder(folder)?;
    open_private(&folder.join(FILE)).map(drop)
}

/// Opens the file to append to it; makes it, for this user only, if it is missing.
pub fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Locks the file, so that processes that start at once migrate one after the other (sqlx has no
/// lock of its own for SQLite). Dropping the file unlocks it. Fails after [`LOCK_PATIENCE`].
async fn lock(path: &Path) -> io::Result<File> {
    let file = open_private(path)?;
    let taken = async {
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_PAUSE).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    };
    match tokio::time::timeout(LOCK_PATIENCE, taken).await {
        Ok(taken) => taken.map(|()| file),
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "timed out waiting for another process to migrate the store",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::sql::sql;
    use super::*;
    use crate::rules::Rules;

    #[tokio::test]
    async fn a_statement_without_end_is_given_up_and_the_next_one_is_not() {
        let (folder, rules) = (tempfile::tempdir().unwrap(), Rules::defaults().unwrap());
        let mut connections = rules.store.connections;
        connections.embedded_readers = 1;
        let data = folder.path().join("data");
        let mut store = open(&data, &connections, Opening::Create).await.unwrap();
        store.statement = Duration::from_millis(20);
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                       SELECT COUNT(*) AS found FROM n";
        let given_up = store.fetch_in_time(sql(endless), &Trust::default()).await.err().unwrap();
        assert!(matches!(given_up, StoreError::Database(_)), "{given_up:?}");
        // This connection has no time limit any more.
        let long = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 300000)
                    SELECT COUNT(*) AS found FROM n";
        let on = Connection::SqlitePool(&store.reader, &Trust::default());
        let rows = sql(long).fetch_all(on).await.unwrap();
        assert_eq!(rows[0].get::<i64>("found").unwrap(), 300_000);
    }

    #[tokio::test]
    async fn a_statement_whose_caller_is_gone_ends_in_time_and_frees_its_reader() {
        let (folder, rules) = (tempfile::tempdir().unwrap(), Rules::defaults().unwrap());
        let mut connections = rules.store.connections;
        connections.embedded_readers = 1;
        let data = folder.path().join("data");
        let mut store = open(&data, &connections, Opening::Create).await.unwrap();
        store.statement = Duration::from_millis(200);
        let endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                       SELECT COUNT(*) AS found FROM n";
        let trust = Trust::default();
        let asking = store.fetch_in_time(sql(endless), &trust);
        // Long enough to begin, and too short to end.
        assert!(tokio::time::timeout(Duration::from_millis(50), asking).await.is_err());
        let on = Connection::SqlitePool(&store.reader, &trust);
        let rows = sql("SELECT 1 AS found").fetch_all(on).await.unwrap();
        assert_eq!(rows[0].get::<i64>("found").unwrap(), 1);
    }
}
