//! The shared database: PostgreSQL, for any number of gateways. Every connection reads and writes,
//! in READ COMMITTED; what must not change under a transaction is locked row by row.

use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};

use super::error::StoreError;
use super::location::PostgresUrl;

/// As many transactions at once; a server of the default size has room for six such gateways.
const CONNECTIONS: u32 = 16;
/// Waiting for a free connection, so that the client is deferred while it still waits.
const ACQUIRE: Duration = Duration::from_secs(10);
/// What the server gives up by itself, in milliseconds: a statement, a wait for a lock, and a
/// transaction whose gateway has fallen silent (its row locks would stop the others).
/// A commit that returned must be on the disk: `off` is not obeyed, anything stronger is left.
const SESSION: &str = "
    SET statement_timeout = 10000;
    SET lock_timeout = 5000;
    SET idle_in_transaction_session_timeout = 20000;
    SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// Opens the store at `url`, made there first if `create` says so, and brings it to this version.
pub(super) async fn open(url: &PostgresUrl, create: bool) -> Result<PgPool, StoreError> {
    let open_error = |source| StoreError::Open { at: url.to_string(), source };
    let options = url.options().map_err(open_error)?.application_name("gatepost");
    // A connection of its own: a migration may take longer than any statement may.
    let one = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE)
        .connect_with(options.clone())
        .await
        .map_err(open_error)?;
    look(&one, url, create).await?;
    sqlx::migrate!("migrations/postgres").run(&one).await?;
    one.close().await;
    PgPoolOptions::new()
        .max_connections(CONNECTIONS)
        .acquire_timeout(ACQUIRE)
        .after_connect(|connection, _| {
            Box::pin(async move { sqlx::raw_sql(SESSION).execute(connection).await.map(drop) })
        })
        .connect_with(options)
        .await
        .map_err(open_error)
}

/// Whether this is a database that can hold, or holds, a store.
async fn look(one: &PgPool, url: &PostgresUrl, create: bool) -> Result<(), StoreError> {
    let unfit = |detail| StoreError::Unfit { at: url.to_string(), detail };
    let encoding: String = sqlx::query_scalar("SHOW server_encoding").fetch_one(one).await?;
    if encoding != "UTF8" {
        return Err(unfit("its encoding is not UTF8"));
    }
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(one).await?;
    if fsync != "on" {
        tracing::warn!("the PostgreSQL server runs with fsync off: a crash there loses mail");
    }
    if create {
        return Ok(());
    }
    let made: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(one)
        .await?;
    if made { Ok(()) } else { Err(StoreError::Missing { at: url.to_string() }) }
}
