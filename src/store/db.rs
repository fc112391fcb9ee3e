//! Opening the store, and the two doors to it: reading and writing.

use std::path::{Path, PathBuf};
use std::time::Duration;

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
        std::fs::create_dir_all(folder).map_err(|source| StoreError::Open {
            path: folder.clone(),
            source: sqlx::Error::Io(source),
        })?;
        Self::connect(folder, mint, true).await
    }

    /// Opens a store that exists and brings it to this version.
    pub async fn open(location: &Location, mint: Mint) -> Result<Self, StoreError> {
        let Location::Folder(folder) = location;
        if !folder.join(FILE).exists() {
            return Err(StoreError::Missing { path: folder.clone() });
        }
        Self::connect(folder, mint, false).await
    }

    async fn connect(folder: &Path, mint: Mint, create: bool) -> Result<Self, StoreError> {
        let path = folder.join(FILE);
        let open_error = |source| StoreError::Open { path: path.clone(), source };
        let options = SqliteConnectOptions::new()
            .filename(&path)
            .create_if_missing(create)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(BUSY)
            .connect_with(options.clone())
            .await
            .map_err(open_error)?;
        sqlx::migrate!("migrations/sqlite").run(&writer).await.map_err(StoreError::Migrate)?;
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

/// A writing transaction; dropped without `commit`, it leaves nothing.
pub(super) struct Transaction {
    inner: sqlx::Transaction<'static, sqlx::Sqlite>,
    broken: CancellationToken,
}

impl Transaction {
    /// Durable once this returned Ok.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let result = self.inner.commit().await.map_err(StoreError::from);
        if let Err(StoreError::NotDurable(_)) = &result {
            self.broken.cancel();
        }
        result
    }

    /// The connection to run statements on.
    pub(super) fn on(&mut self) -> &mut sqlx::SqliteConnection {
        &mut self.inner
    }
}
