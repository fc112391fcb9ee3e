//! Connections to PostgreSQL as the pool lends them, and how they come back.
//!
//! A server may fall silent: the machine is gone, a firewall has forgotten the connection. sqlx
//! asks a connection that comes back for a sign of life, and waits for it as long as TCP does, a
//! quarter of an hour; meanwhile its place in the pool is taken, and soon all are. Here every wait
//! ends by the deadline of `policies/store.toml`, and what did not answer is closed.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, Postgres};

use super::deadline::in_time;
use crate::domain::repeats::{Cause, Repeats};

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// An index of tokens can only be read by bitmaps, which our connections are told not to use.
const BEGIN_SEARCH: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY;
    SET LOCAL enable_bitmapscan = on; SET LOCAL enable_seqscan = off";

/// The connections of one gateway.
#[derive(Clone, Debug)]
pub struct Pool {
    connections: PgPool,
    deadline: Duration,
    repeats: Repeats,
}

impl Pool {
    pub(in crate::store) fn new(connections: PgPool, deadline: Duration) -> Self {
        Self { connections, deadline, repeats: Repeats::default() }
    }

    /// As many others to the same server.
    pub(in crate::store) async fn apart(&self, connections: u32) -> Result<Self, sqlx::Error> {
        let options = PgConnectOptions::clone(&self.connections.connect_options());
        let pool = self.connections.options().clone().max_connections(connections);
        Ok(Self::new(pool.connect_with(options).await?, self.deadline))
    }

    /// A connection that answered just now, or an error in time.
    pub(in crate::store) async fn lend(&self) -> Result<Lease, sqlx::Error> {
        let connection = self.connections.acquire().await?;
        let repeats = self.repeats.clone();
        Ok(Lease { connection, deadline: self.deadline, in_transaction: false, repeats })
    }

    /// A connection in a transaction of its own; dropped without `commit`, it leaves nothing.
    pub(in crate::store) async fn begin(&self) -> Result<Lease, sqlx::Error> {
        self.begin_with(BEGIN).await
    }

    /// The same for a search, which writes nothing.
    pub(in crate::store) async fn begin_search(&self) -> Result<Lease, sqlx::Error> {
        self.begin_with(BEGIN_SEARCH).await
    }

    async fn begin_with(&self, begin: &'static str) -> Result<Lease, sqlx::Error> {
        let mut lease = self.lend().await?;
        // From before the statement on: nobody knows how far it came if it is broken off.
        lease.in_transaction = true;
        let beginning = sqlx::raw_sql(begin).execute(&mut *lease.connection);
        in_time(self.deadline, beginning).await?;
        Ok(lease)
    }

    pub(in crate::store) async fn close(&self) {
        self.connections.close().await;
    }
}

/// A connection, until it is dropped.
pub struct Lease {
    connection: PoolConnection<Postgres>,
    /// How long an answer may take.
    pub deadline: Duration,
    in_transaction: bool,
    repeats: Repeats,
}

impl Lease {
    /// Ends the transaction; durable once this returned Ok.
    pub(in crate::store) async fn commit(mut self) -> Result<(), sqlx::Error> {
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
        // What its own `drop` would spawn, without a bound. The connection is in this future:
        // where that is dropped, the socket is closed and the place is free.
        let going_back = self.connection.return_to_pool();
        if self.in_transaction {
            // Closed, and so rolled back by the server: asking it to could take for ever where a
            // large statement is stuck half-way. Rare enough to pay with a new connection.
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (deadline, repeats) = (self.deadline, self.repeats.clone());
            runtime.spawn(async move {
                if tokio::time::timeout(deadline, going_back).await.is_err()
                    && let Some(left_out) = repeats.due(Cause::Silent)
                {
                    tracing::warn!(
                        left_out,
                        "a connection to PostgreSQL has fallen silent: closed"
                    );
                }
            });
        }
    }
}
