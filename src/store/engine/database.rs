//! The database, embedded or shared: connections for reading, and transactions for writing.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::checkpoints::Checkpoints;
use super::directory_mark::{Changing, DirectoryMark};
use super::embedded::{self, Embedded};
use super::error::StoreError;
use super::lease::{BEGIN, Lease, Pool};
use super::location::Location;
use super::many::{Many, together};
use super::postgres;
use super::schema::Opening;
use super::sql::{Connection, Row, sql};
use super::trust::Trust;
use super::writer::{Flush, Turn};
use crate::rules::StoreConnections as Connections;

#[derive(Clone, Debug)]
pub enum Database {
    Sqlite(Embedded),
    Postgres(Pool),
}

/// Ends a transaction of SQLite, and says so.
const END: &str = "COMMIT;\nSELECT 1 AS committed";

/// Attempts of a transaction that the database aborts in favour of another one.
pub const TRIES: u32 = 8;

/// Runs work that is one transaction, [`TRIES`] times at most while it fails with `Conflict`
/// (deadlock, failed serialisation, foreign key): nothing was written then.
macro_rules! retry_conflicts {
    ($work:expr) => {{
        let mut tries = 1;
        loop {
            match $work.await {
                Err(StoreError::Conflict(_)) if tries < crate::store::engine::database::TRIES => {
                    tries += 1
                }
                ended => break ended,
            }
        }
    }};
}
pub(in crate::store) use retry_conflicts;

/// Runs work in a transaction, which is begun anew after a conflict. The work commits if its rows
/// are to stay; they are flushed now unless it says when. A macro, because the future of an `AsyncFn` that borrows cannot be declared `Send`.
macro_rules! transact {
    ($base:expr, async |$tx:ident| $work:block) => {
        crate::store::engine::database::transact!(
            $base,
            crate::store::engine::writer::Flush::Now,
            async |$tx| $work
        )
    };
    ($base:expr, $flush:expr, async |$tx:ident| $work:block) => {
        crate::store::engine::database::retry_conflicts!(async {
            let mut $tx = $base.begin_flushed($flush).await?;
            $work
        })
    };
}
pub(in crate::store) use transact;

impl Database {
    /// Opens the database. Retries PostgreSQL for `patience`.
    pub async fn open(
        location: &Location,
        connections: &Connections,
        opening: Opening,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        Ok(match location {
            Location::Folder(folder) => {
                Self::Sqlite(embedded::open(folder, connections, opening).await?)
            }
            Location::Postgres(url) => {
                Self::Postgres(postgres::open(url, connections, opening, patience).await?)
            }
        })
    }

    /// Returns the same database with connections of its own: so many `readers` of SQLite, or so
    /// many `connections` to PostgreSQL, which also write.
    pub async fn apart(&self, readers: u32, connections: u32) -> Result<Self, StoreError> {
        Ok(match self {
            Self::Sqlite(embedded) => Self::Sqlite(embedded.apart(readers).await?),
            Self::Postgres(pool) => Self::Postgres(pool.apart(connections).await?),
        })
    }

    /// Returns the embedded database, or None on PostgreSQL.
    pub const fn embedded(&self) -> Option<&Embedded> {
        match self {
            Self::Sqlite(embedded) => Some(embedded),
            Self::Postgres(_) => None,
        }
    }

    /// Returns any connection, for one read.
    pub fn reader<'d>(&'d self, trust: &'d Trust) -> Connection<'d> {
        match self {
            Self::Sqlite(database) => Connection::SqlitePool(&database.reader, trust),
            Self::Postgres(pool) => Connection::PostgresPool(pool),
        }
    }

    /// Begins a writing transaction. On SQLite no other one writes until it ends (`BEGIN
    /// IMMEDIATE`), so rows that it reads cannot change. On PostgreSQL others run beside it: it
    /// must lock such rows. Fails if no connection is free in time, and once trust is lost. `bell`
    /// is for [`Transaction::ring`].
    pub async fn begin(
        &self,
        trust: &Trust,
        bell: &Arc<Notify>,
        flush: Flush,
    ) -> Result<Transaction, StoreError> {
        trust.check()?;
        let inner = match self {
            Self::Sqlite(database) => {
                let turn = database.writer.turn().await;
                let mut turn = turn.map_err(|error| trust.record_loss(error))?;
                // The turn's former user may have lost trust while this caller waited.
                trust.check()?;
                turn.begin(flush).await.map_err(|error| trust.record_loss(error))?;
                Inner::Sqlite {
                    turn,
                    checkpoints: Arc::clone(&database.checkpoints),
                    directory: Arc::clone(&database.directory),
                }
            }
            Self::Postgres(pool) => Inner::Postgres(pool.begin(BEGIN).await?),
        };
        trust.check()?;
        let (trust, bell) = (trust.clone(), Arc::clone(bell));
        let waiting = Vec::new();
        Ok(Transaction { inner, trust, bell, rings: false, waiting, changing: None })
    }

    /// Closes all connections after the work under way, however long it takes.
    pub async fn close(&self) {
        match self {
            Self::Sqlite(Embedded { reader, writer, checkpoints, .. }) => {
                reader.close().await;
                checkpoints.close().await;
                writer.close().await;
            }
            Self::Postgres(pool) => pool.close().await,
        }
    }
}

/// A writing transaction; dropped without `commit`, it is rolled back.
pub struct Transaction {
    inner: Inner,
    trust: Trust,
    bell: Arc<Notify>,
    rings: bool,
    /// Writes deferred by [`Self::later`].
    waiting: Vec<Many>,
    /// Held until the commit, or the rollback.
    changing: Option<Changing>,
}

enum Inner {
    Sqlite { turn: Turn, checkpoints: Arc<Checkpoints>, directory: Arc<DirectoryMark> },
    Postgres(Lease),
}

impl Transaction {
    /// Runs the deferred writes, then commits; durable once this returned Ok. The commit, once
    /// begun, continues when the future is dropped: a write that does not reach the disk must be
    /// noticed even if no caller waits any more.
    pub async fn commit(mut self) -> Result<(), StoreError> {
        let mut writes = together(std::mem::take(&mut self.waiting), self.has_concurrent_writers());
        let Self { inner, trust, bell, rings, changing, .. } = self;
        trust.check()?;
        let committing = tokio::spawn(async move {
            match inner {
                Inner::Sqlite { mut turn, checkpoints, .. } => {
                    // The last of them and the end are one call, whose answer is behind the end:
                    // sqlx says nothing of a thread of SQLite that ended early.
                    let end = match writes.pop() {
                        Some(mut last) => {
                            last.push(";\n").push(END);
                            last
                        }
                        None => sql(END),
                    };
                    for statement in writes {
                        statement.execute(Connection::Sqlite(turn.connection(), &trust)).await?;
                    }
                    // Behind the rows of the write, where it has some.
                    let rows = end.fetch_all(Connection::Sqlite(turn.connection(), &trust)).await?;
                    rows.last().ok_or(StoreError::NoRow)?.get::<i64>("committed")?;
                    turn.ended();
                    checkpoints.committed(&trust);
                }
                Inner::Postgres(mut inner) => {
                    for statement in writes {
                        statement.execute(Connection::Postgres(&mut inner)).await?;
                    }
                    inner.commit().await.map_err(|error| trust.record_loss(error))?;
                }
            }
            // Before the caller hears of the change.
            drop(changing);
            if rings {
                bell.notify_one();
            }
            Ok(())
        });
        committing.await.unwrap_or_else(|_| Err(StoreError::Ended))
    }

    /// Defers a write to the commit, where all deferred writes are one call. Its result is not
    /// returned, and statements before the commit do not see its rows.
    pub fn later(&mut self, write: Many) {
        self.waiting.push(write);
    }

    /// Asks all, in their order, and returns the rows of each: a batch costs its calls.
    pub(in crate::store) async fn ask<const N: usize>(
        &mut self,
        all: [Many; N],
    ) -> Result<[Vec<Row>; N], StoreError> {
        Many::fetch_each(all, self.on()).await
    }

    /// Runs the deferred writes now, for statements of this transaction that read their rows.
    pub(in crate::store) async fn write_now(&mut self) -> Result<(), StoreError> {
        for statement in together(std::mem::take(&mut self.waiting), self.has_concurrent_writers())
        {
            statement.execute(self.on()).await?;
        }
        Ok(())
    }

    /// Wakes the dispatcher after the commit: the transaction writes deliveries.
    pub const fn ring(&mut self) {
        self.rings = true;
    }

    /// Notes that the directory has this version once the transaction commits.
    pub fn directory_changes(&mut self, version: i64) -> Result<(), StoreError> {
        if let Inner::Sqlite { directory, .. } = &self.inner {
            let changing = directory.change(version);
            self.changing =
                Some(changing.map_err(|error| StoreError::from(sqlx::Error::Io(error)))?);
        }
        Ok(())
    }

    /// Returns the connection to run statements on.
    pub fn on(&mut self) -> Connection<'_> {
        match &mut self.inner {
            Inner::Sqlite { turn, .. } => Connection::Sqlite(turn.connection(), &self.trust),
            Inner::Postgres(inner) => Connection::Postgres(inner),
        }
    }

    /// Whether other transactions may write beside this one.
    pub fn has_concurrent_writers(&self) -> bool {
        matches!(self.inner, Inner::Postgres(_))
    }
}
