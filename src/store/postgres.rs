//! The shared database: PostgreSQL, for any number of gateways. Every connection reads and writes,
//! in READ COMMITTED; what must not change under a transaction is locked row by row.

use std::time::Duration;

use sqlx::postgres::{PgPool, PgPoolOptions};

use super::error::StoreError;
use super::location::PostgresUrl;
use crate::rules::StoreConnections as Connections;

/// A commit that returned must be on the disk: `off` is not obeyed, anything stronger is left.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";

/// Opens the store at `url`, made there first if `create` says so, and brings it to this version.
pub(super) async fn open(
    url: &PostgresUrl,
    rules: &Connections,
    create: bool,
) -> Result<PgPool, StoreError> {
    let open_error =
        |source: sqlx::Error| StoreError::Open { at: url.to_string(), source: source.into() };
    let options = url.options().map_err(open_error)?.application_name("gatepost");
    // A connection of its own: a migration may take longer than any statement may.
    let one = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(rules.acquire())
        .connect_with(options.clone())
        .await
        .map_err(open_error)?;
    look(&one, url, create).await?;
    sqlx::migrate!("migrations/postgres").run(&one).await?;
    one.close().await;
    PgPoolOptions::new()
        .max_connections(rules.postgres)
        .acquire_timeout(rules.acquire())
        .after_connect(|connection, _| {
            Box::pin(async move { sqlx::raw_sql(DURABLE).execute(connection).await.map(drop) })
        })
        .connect_with(options.options(limits(rules)))
        .await
        .map_err(open_error)
}

/// What the server gives up by itself, in milliseconds.
fn limits(rules: &Connections) -> [(&'static str, String); 3] {
    let millis = |limit: Duration| limit.as_millis().to_string();
    [
        ("statement_timeout", millis(rules.statement())),
        ("lock_timeout", millis(rules.lock())),
        ("idle_in_transaction_session_timeout", millis(rules.silence())),
    ]
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
