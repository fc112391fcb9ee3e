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
    repeats: Repeats,
}

impl Pool {
    pub fn new(connections: PgPool, deadline: Duration) -> Self {
        Self { connections, deadline, repeats: Repeats::default() }
    }

    /// Opens another pool, of so many connections to the same server.
    pub async fn apart(&self, connections: u32) -> Result<Self, sqlx::Error> {
        let options = PgConnectOptions::clone(&self.connections.connect_options());
        let pool = self.connections.options().clone().max_connections(connections);
        Ok(Self::new(pool.connect_with(options).await?, self.deadline))
    }

    /// Lends a connection that answered just now; fails if none does in time.
    pub(in crate::store) async fn lend(&self) -> Result<Lease, sqlx::Error> {
        let connection = self.connections.acquire().await?;
        let repeats = self.repeats.clone();
        Ok(Lease { connection, deadline: self.deadline, in_transaction: false, repeats })
    }

    /// Lends a connection in a transaction, which is rolled back if it is dropped without `commit`.
    pub async fn begin(&self, begin: &'static str) -> Result<Lease, sqlx::Error> {
        let mut lease = self.lend().await?;
        // Set before the statement: if it is cut short, nobody knows whether the transaction began.
        lease.in_transaction = true;
        let beginning = sqlx::raw_sql(begin).execute(&mut *lease.connection);
        in_time(self.deadline, beginning).await?;
        Ok(lease)
    }

    pub const fn connections(&self) -> &PgPool {
        &self.connections
    }

    pub async fn close(&self) {
        self.connections.close().await;
    }
}

/// A lent connection; dropped, it goes back to the pool.
pub struct Lease {
    connection: PoolConnection<Postgres>,
    /// Time limit of each answer.
    pub deadline: Duration,
    in_transaction: bool,
    repeats: Repeats,
}

impl Lease {
    /// Commits the transaction; durable once this returned Ok.
    pub async fn commit(mut self) -> Result<(), sqlx::Error> {
        let committing = sqlx::raw_sql("COMMIT").execute(&mut *self.connection);
        in_time(self.deadline, committing).await?;
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
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (deadline, repeats) = (self.deadline, self.repeats.clone());
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
