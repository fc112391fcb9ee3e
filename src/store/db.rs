//! Opening the store, and the two doors to it: reading and writing.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::migrate::MigrateError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use tokio_util::sync::CancellationToken;

use super::error::StoreError;
use crate::domain::id::Mint;

/// Where a store lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The embedded store: a folder of its own.
    Folder(PathBuf),
}

/// The store of one gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    reader: SqlitePool,
    writer: SqlitePool,
    mint: Mint,
    broken: CancellationToken,
}

/// Long enough for a checkpoint on a slow disk, short enough to answer the client in time.
const BUSY: Duration = Duration::from_secs(10);
/// Readers never block the writer; a few keep both cores of a small machine busy.
const READERS: u32 = 8;
const FILE: &str = "gatepost.db";

impl Store {
    /// Creates the store where there is none, brings it to this version, and opens it.
    pub async fn create(location: &Location, mint: Mint) -> Result<Self, StoreError> {
        let Location::Folder(folder) = location;
        make_private(folder).map_err(|source| StoreError::Open {
            path: folder.clone(),
            source: sqlx::Error::Io(source),
        })?;
        Self::connect(folder, mint).await
    }

    /// Opens a store that exists and brings it to this version.
    pub async fn open(location: &Location, mint: Mint) -> Result<Self, StoreError> {
        let Location::Folder(folder) = location;
        match folder.join(FILE).try_exists() {
            Ok(true) => Self::connect(folder, mint).await,
            Ok(false) => Err(StoreError::Missing { path: folder.clone() }),
            Err(source) => {
                Err(StoreError::Open { path: folder.clone(), source: sqlx::Error::Io(source) })
            }
        }
    }

    async fn connect(folder: &Path, mint: Mint) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        let open_error = |source| StoreError::Open { path: path.clone(), source };
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(BUSY)
            // SQLite ends a transaction by itself when the disk is full or a write fails, and sqlx
            // does not notice: the connection would refuse every later transaction.
            .before_acquire(|connection, _| {
                let clean = !connection.is_in_transaction();
                Box::pin(async move { Ok(clean) })
            })
            .connect_with(options.clone())
            .await
            .map_err(open_error)?;
        sqlx::migrate!("migrations/sqlite").run(&writer).await.map_err(|error| match error {
            MigrateError::VersionMissing(_) => StoreError::Newer { path: folder.to_owned() },
            error => StoreError::Migrate(error),
        })?;
        let reader = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(BUSY)
            .connect_with(options.read_only(true))
            .await
            .map_err(open_error)?;
        Ok(Self { reader, writer, mint, broken: CancellationToken::new() })
    }

    /// Resolves when a write has failed in a way that no later write can be trusted after.
    pub async fn broken(&self) {
        self.broken.cancelled().await;
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        if self.broken.is_cancelled() {
            return Err(StoreError::NotDurable(None));
        }
        sqlx::query("SELECT last FROM user_ids").execute(self.reader()).await?;
        Ok(())
    }

    /// Whether the store can be written to, as a server must know before it takes mail in.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        // SQLite finds out with the first row that it changes; without a commit it stays as it was.
        sqlx::query("UPDATE user_ids SET last = last").execute(tx.on()).await?;
        Ok(())
    }

    /// Ends all connections after the work under way.
    pub async fn close(&self) {
        self.reader.close().await;
        self.writer.close().await;
    }

    pub(super) fn reader(&self) -> &SqlitePool {
        &self.reader
    }

    pub(super) fn mint(&self) -> &Mint {
        &self.mint
    }

    /// A transaction that means to write from its first statement on (`BEGIN IMMEDIATE`), so that
    /// what it reads cannot change before it commits.
    pub(super) async fn begin(&self) -> Result<Transaction, StoreError> {
        if self.broken.is_cancelled() {
            return Err(StoreError::NotDurable(None));
        }
        let inner = self.writer.begin_with("BEGIN IMMEDIATE").await?;
        Ok(Transaction { inner, broken: self.broken.clone() })
    }
}

/// The folder and the file, for this user only: messages and signing secrets are in them. SQLite
/// gives its other files the mode of the first.
fn make_private(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = folder.join(FILE);
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}

/// A writing transaction; dropped without `commit`, it leaves nothing.
pub(super) struct Transaction {
    inner: sqlx::Transaction<'static, sqlx::Sqlite>,
    broken: CancellationToken,
}

impl Transaction {
    /// Durable once this returned Ok. Goes on when its future is dropped, because a write that does
    /// not reach the disk must be noticed even if nobody waits for it any more.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let Self { inner, broken } = self;
        let committing = tokio::spawn(async move {
            let result = inner.commit().await.map_err(StoreError::from);
            if let Err(StoreError::NotDurable(_)) = &result {
                broken.cancel();
            }
            result
        });
        committing.await.unwrap_or(Err(StoreError::Database(sqlx::Error::WorkerCrashed)))
    }

    /// The connection to run statements on.
    pub(super) fn on(&mut self) -> &mut sqlx::SqliteConnection {
        &mut self.inner
    }
}
