//! Connections to PostgreSQL: how the pool lends them, and how they come back.
//!
//! A server may fall silent: the machine is gone, or a firewall has dropped the connection. sqlx
//! pings a connection that comes back, and waits for the answer as long as TCP does, a quarter of
//! an hour. Meanwhile its place in the pool is taken, and soon all places are. Here every wait ends
//! by the deadline of `policies/store.toml`, and a silent connection is closed.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, Postgres};

use super::deadline::in_time;
use super::error::StoreError;
use super::servers::Servers;
use crate::domain::repeats::{LogCause, Repeats};

pub const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// Begins a read-only transaction for a search. A token index can only be read by bitmap scans,
/// which our connections have off (`postgres.rs`).
pub const BEGIN_SEARCH: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
    SET LOCAL enable_bitmapscan = on; SET LOCAL enable_seqscan = off";

#[derive(Clone, Debug)]
pub struct Pool {
    connections: PgPool,
    deadline: Duration,
    servers: Servers,
    repeats: Repeats,
}

/// Attempts to lend a connection, while the server that is written to is another one each time.
const MOVES: u32 = 3;

impl Pool {
    /// A pool that follows to the server that can be written to.
    pub fn new(connections: PgPool, deadline: Duration, servers: Servers) -> Self {
        servers.lead(&connections);
        Self { connections, deadline, servers, repeats: Repeats::default() }
    }

    /// Opens another pool, of so many connections to the same server.
    pub async fn apart(&self, connections: u32) -> Result<Self, sqlx::Error> {
        let options = PgConnectOptions::clone(&self.connections.connect_options());
        let pool = self.connections.options().clone().max_connections(connections);
        let pool = pool.connect_with(options).await?;
        Ok(Self::new(pool, self.deadline, self.servers.clone()))
    }

    /// Lends a connection that answered just now; fails if none does in time.
    pub(in crate::store) async fn lend(&self) -> Result<Lease, sqlx::Error> {
        let mut tries = 1;
        loop {
            let moves = self.servers.moves();
            let error = match self.servers.answer(moves, self.connections.acquire()).await {
                Ok(connection) => {
                    let answers =
                        Answers { deadline: self.deadline, servers: self.servers.clone(), moves };
                    let repeats = self.repeats.clone();
                    return Ok(Lease { connection, answers, in_transaction: false, repeats });
                }
                Err(error) => error,
            };
            self.servers.note(&error);
            if tries == MOVES || self.servers.moves() == moves {
                return Err(error);
            }
            tries += 1;
        }
    }

    /// Lends a connection in a transaction, which is rolled back if it is dropped without `commit`.
    pub async fn begin(&self, begin: &'static str) -> Result<Lease, StoreError> {
        let mut lease = self.lend().await?;
        // Set before the statement: if it is cut short, nobody knows whether the transaction began.
        lease.in_transaction = true;
        let beginning = sqlx::raw_sql(begin).execute(&mut *lease.connection);
        match lease.answers.wait(beginning).await {
            // A replica says this to READ WRITE. Elsewhere it means anything that is not supported.
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("0A000") => {
                self.servers.leave();
                Err(StoreError::ReadOnly(sqlx::Error::Database(error).into()))
            }
            begun => Ok(begun.map(|_| lease)?),
        }
    }

    pub const fn connections(&self) -> &PgPool {
        &self.connections
    }

    pub async fn close(&self) {
        self.connections.close().await;
    }
}

/// Waits for answers on a connection. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Answers {
    deadline: Duration,
    servers: Servers,
    /// Moves to another server before the connection was lent.
    moves: u64,
}

impl Answers {
    /// Returns the answer; fails at the deadline, and when another server is written to.
    pub(in crate::store) async fn wait<T>(
        &self,
        work: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, sqlx::Error> {
        let answer = in_time(self.deadline, self.servers.answer(self.moves, work)).await;
        answer.inspect_err(|error| self.servers.note(error))
    }

    /// Whether another server is written to since the connection was lent.
    fn is_moved(&self) -> bool {
        self.servers.moves() != self.moves
    }
}

/// A lent connection; dropped, it goes back to the pool.
pub struct Lease {
    connection: PoolConnection<Postgres>,
    answers: Answers,
    in_transaction: bool,
    repeats: Repeats,
}

impl Lease {
    /// Returns how to wait for an answer while the connection is borrowed.
    pub fn answers(&self) -> Answers {
        self.answers.clone()
    }

    /// Commits the transaction; durable once this returned Ok.
    pub async fn commit(mut self) -> Result<(), sqlx::Error> {
        let committing = sqlx::raw_sql("COMMIT").execute(&mut *self.connection);
        self.answers.wait(committing).await?;
        self.in_transaction = false;
        Ok(())
    }
}

impl Deref for Lease {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // sqlx's own `drop` would spawn this future without a time limit. The future owns the
        // connection: if it is dropped, the socket is closed and the place in the pool is free.
        let going_back = self.connection.return_to_pool();
        if self.in_transaction {
            // Closes the connection, and the server rolls back: sending a rollback could take
            // forever behind a large statement stuck half-way. Rare enough to pay with a new
            // connection.
            return;
        }
        // It leads to a server that may never answer, and its place is needed for the other one.
        if self.answers.is_moved() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (deadline, repeats) = (self.answers.deadline, self.repeats.clone());
            runtime.spawn(async move {
                if tokio::time::timeout(deadline, going_back).await.is_err()
                    && let Some(left_out) = repeats.due(LogCause::Silent)
                {
                    tracing::warn!(
                        left_out,
                        "closed a PostgreSQL connection that stopped answering"
                    );
                }
            });
        }
    }
}
