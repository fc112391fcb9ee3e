//! A PostgreSQL server of the tests' own, in a temporary folder, or the one that
//! `GATEPOST_TEST_POSTGRES` names (a URL of a database in which others may be made).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use gatepost::store::Location;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};

use super::cluster::{Cluster, binaries};

struct Server {
    url: String,
    /// Ends with this process.
    _until: Option<Cluster>,
}

const VARIABLE: &str = "GATEPOST_TEST_POSTGRES";

/// Whether the tests are to use a server of somebody else's.
pub fn is_given() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock();
    SERVER.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(url) => Server { url, _until: None },
        Err(_) => {
            // Plans must not hang on whether a table has been looked at meanwhile.
            let settings =
                ["fsync=off", "max_connections=500", "deadlock_timeout=200ms", "autovacuum=off"];
            let cluster = start(&settings);
            Server { url: cluster.url.clone(), _until: Some(cluster) }
        }
    })
}

/// A server with these settings; blocks until it is ready.
pub fn start(settings: &[&str]) -> Cluster {
    let bin = binaries().expect("PostgreSQL is not installed: run scripts/test");
    Cluster::start(&bin, settings)
}

/// A new, empty database; answers its URL. It stays until the server goes.
pub async fn new_database() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let server = tokio::task::spawn_blocking(server).await.unwrap();
    let number = COUNTER.fetch_add(1, Ordering::SeqCst);
    let name = format!("gatepost_test_{}_{number}", std::process::id());
    let mut connection = connect(&server.url).await;
    // One after the other: nobody else may be looking at the template.
    connection.execute("SELECT pg_advisory_lock(1)").await.unwrap();
    connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.unwrap();
    connection.close().await.unwrap();
    let (before, after) = server.url.split_once('?').unwrap_or((server.url.as_str(), ""));
    let (host, _) = before.rsplit_once('/').unwrap();
    format!("{host}/{name}?{after}")
}

/// A connection of the test's own.
pub async fn connect(url: &str) -> PgConnection {
    let options: PgConnectOptions = url.parse().unwrap();
    options.connect().await.unwrap()
}

/// The place of a store in a new, empty database.
pub async fn new_location() -> Location {
    Location::parse(None, Some(&new_database().await)).unwrap()
}
