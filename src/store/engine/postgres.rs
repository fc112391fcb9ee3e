//! The shared database: PostgreSQL, for any number of gateways. Every connection reads and writes,
//! in READ COMMITTED; a transaction locks the rows that must not change under it.

use std::io;
use std::time::{Duration, Instant};

use sqlx::Connection as _;
use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPoolOptions};

use super::deadline::in_time;
use super::error::StoreError;
use super::lease::Pool;
use super::postgres_url::PostgresUrl;
use super::schema::{self, Opening};
use super::servers::{Servers, Writable};
use crate::rules::StoreConnections as Connections;

/// Turns `synchronous_commit` on where it is off, because a commit that returned must be on disk.
const DURABLE: &str = "SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'";
/// Held while the schema is changed; released when the connection ends.
const LOCK: &str = "SELECT pg_try_advisory_lock(hashtextextended('gatepost migration', 0))";
/// A migration of a large store takes minutes.
const LOCK_PATIENCE: Duration = Duration::from_secs(300);
/// Pause between two checks whether the server has started, or the lock is free.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest pause between two attempts to connect; each pause doubles up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Opens the store at `url`, and makes or migrates it as far as `opening` says; else fails with
/// `Missing` or `Older`. Retries for `patience` while no server is reached.
pub async fn open(
    url: &PostgresUrl,
    rules: &Connections,
    opening: Opening,
    patience: Duration,
) -> Result<Pool, StoreError> {
    let open_error =
        |source: sqlx::Error| StoreError::Open { at: url.to_string(), source: source.into() };
    let plain = |options: PgConnectOptions| options.application_name("gatepost");
    let servers: Vec<_> = url.servers().iter().cloned().map(plain).collect();
    let of = |servers| Servers::new(servers, url.is_sought(), rules.probe());
    // Without time limits: a migration may take longer than any statement.
    let found = connect(&of(servers.clone()), rules.acquire(), patience).await;
    let mut found = found.map_err(open_error)?;
    let one = &mut found.connection;
    let silent = |_| open_error(no_answer(rules.deadline()));
    let looking = tokio::time::timeout(rules.deadline(), look(one, url, opening));
    if !looking.await.map_err(silent)?? {
        if opening == Opening::AsIs {
            return Err(StoreError::Older { at: url.to_string() });
        }
        lock(one, rules.deadline()).await.map_err(open_error)?;
        tracing::info!("migrating the store to this version");
        // Not `run`, whose future is not `Send`.
        migrations().run_direct(None, one, false).await?;
    }
    let limited = |options: PgConnectOptions| options.options(limits(rules)).options(PLANNER);
    let servers = of(servers.into_iter().map(limited).collect());
    servers.settle(&found);
    let _closed = tokio::time::timeout(rules.deadline(), found.connection.close()).await;
    pool(servers, rules).await.map_err(open_error)
}

/// Opens connections to the server that was found.
async fn pool(servers: Servers, rules: &Connections) -> Result<Pool, sqlx::Error> {
    let (probe, options) = (rules.probe(), servers.options());
    let options = options.ok_or_else(|| no_answer(rules.acquire()))?;
    let (new, old) = (servers.weak(), servers.weak());
    let connections = PgPoolOptions::new()
        .max_connections(rules.postgres)
        .acquire_timeout(rules.acquire())
        .after_connect(move |connection, _| {
            let servers = new.get();
            Box::pin(async move {
                let durable = sqlx::raw_sql(DURABLE).execute(&mut *connection).await;
                // sqlx tries again, and its own line is an error: see `telemetry`.
                durable.inspect_err(|error| {
                    tracing::info!(%error, "could not set up a PostgreSQL connection");
                })?;
                match servers {
                    Some(servers) => servers.check(connection).await,
                    None => Ok(()),
                }
            })
        })
        // Replaces sqlx's own ping, which would use up the whole patience of the caller.
        .test_before_acquire(false)
        .before_acquire(move |connection, lent| {
            let is_current = old.get().is_none_or(|servers| servers.is_current(lent.age));
            Box::pin(async move {
                if !is_current {
                    return Ok(false);
                }
                let answered = in_time(probe, connection.ping()).await;
                if let Err(error) = &answered {
                    tracing::info!(%error, "replaced a lost PostgreSQL connection");
                }
                Ok(answered.is_ok())
            })
        })
        .connect_with(options)
        .await?;
    Ok(Pool::new(connections, rules.deadline(), servers))
}

fn migrations() -> Migrator {
    let mut migrations = schema::migrator(&schema::POSTGRES);
    // sqlx would wait for its lock in silence, and forever: `lock` stands in.
    migrations.set_locking(false);
    migrations
}

/// Makes the planner walk an index and end early. For a table that has just been filled, it might
/// read and sort a whole backlog, or spend a quarter of a second compiling the plan of a claim.
const PLANNER: [(&str, &str); 2] = [("enable_bitmapscan", "off"), ("jit", "off")];

/// Time limits that the server enforces, in milliseconds.
fn limits(rules: &Connections) -> [(&'static str, String); 3] {
    let millis = |limit: Duration| limit.as_millis().to_string();
    [
        ("statement_timeout", millis(rules.statement())),
        ("lock_timeout", millis(rules.lock())),
        ("idle_in_transaction_session_timeout", millis(rules.silence())),
    ]
}

/// Connects. Retries for `patience` while the server cannot be reached, and logs each attempt.
async fn connect(
    servers: &Servers,
    attempt: Duration,
    patience: Duration,
) -> Result<Writable, sqlx::Error> {
    let until = Instant::now() + patience;
    let (mut number, mut pause) = (1_u32, PAUSE);
    loop {
        // The first attempt is made even without patience.
        let left = until.saturating_duration_since(Instant::now());
        let limit = if number == 1 { attempt } else { attempt.min(left) };
        let connecting = tokio::time::timeout(limit, servers.find()).await;
        let error = match connecting.unwrap_or_else(|_| Err(no_answer(limit))) {
            Err(error) if may_come_back(&error) => error,
            settled => return settled,
        };
        let left = until.saturating_duration_since(Instant::now());
        if left <= pause {
            return Err(error);
        }
        tracing::warn!(
            attempt = number,
            %error,
            left_seconds = left.as_secs(),
            "cannot reach PostgreSQL: retrying"
        );
        tokio::time::sleep(pause).await;
        (number, pause) = (number + 1, LONGEST_PAUSE.min(2 * pause));
    }
}

/// Whether a retry may help. It does not if the server answers and refuses the login.
fn may_come_back(error: &sqlx::Error) -> bool {
    match error {
        // No listener, no route, a name not known yet, or a connection cut short.
        sqlx::Error::Io(_) => true,
        // too_many_connections, cannot_connect_now
        sqlx::Error::Database(error) => {
            matches!(error.code().as_deref(), Some("53300" | "57P03"))
        }
        _ => false,
    }
}

fn no_answer(patience: Duration) -> sqlx::Error {
    let detail = format!("the server did not answer within {} s", patience.as_secs().max(1));
    sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, detail))
}

/// Whether the database holds a store of this version. Fails with `Unfit` if it cannot hold one,
/// and with `Missing` if it holds none and none is to be made.
async fn look(
    one: &mut PgConnection,
    url: &PostgresUrl,
    opening: Opening,
) -> Result<bool, StoreError> {
    let unfit = |detail| StoreError::Unfit { at: url.to_string(), detail };
    let encoding: String = sqlx::query_scalar("SHOW server_encoding").fetch_one(&mut *one).await?;
    if encoding != "UTF8" {
        return Err(unfit("the encoding of the database is not UTF8"));
    }
    let fsync: String = sqlx::query_scalar("SHOW fsync").fetch_one(&mut *one).await?;
    if fsync != "on" {
        tracing::warn!(
            "the PostgreSQL server runs with fsync off: turn it on, or a crash there loses mail"
        );
    }
    let made: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
        .bind(schema::TABLE)
        .fetch_one(&mut *one)
        .await?;
    match (made, opening) {
        (true, _) => {
            let names = sqlx::query_as(schema::NAMES).fetch_all(&mut *one).await?;
            schema::is_current(one, &migrations(), &names).await
        }
        (false, Opening::Create) => Ok(false),
        (false, _) => Err(StoreError::Missing { at: url.to_string() }),
    }
}

/// Lets gateways that start at once migrate one after the other. Fails after [`LOCK_PATIENCE`].
async fn lock(one: &mut PgConnection, deadline: Duration) -> Result<(), sqlx::Error> {
    let mut waiting = false;
    let locking = async {
        loop {
            let asking = sqlx::query_scalar(LOCK).fetch_one(&mut *one);
            if in_time(deadline, asking).await? {
                return Ok(());
            }
            if !waiting {
                tracing::info!("waiting for another gateway to migrate the store");
                waiting = true;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(LOCK_PATIENCE, locking).await.unwrap_or_else(|_| {
        let detail = "timed out waiting for another gateway to migrate the store";
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, detail)))
    })
}
