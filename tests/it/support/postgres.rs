//! A PostgreSQL server of the tests' own, in a temporary folder, or the one that
//! `GATEPOST_TEST_POSTGRES` names (a URL of a database in which others may be made).

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use gatepost::store::Location;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};

/// Makes a cluster, runs it on a socket in its folder until standard input ends (as it does with
/// the tests, however they end), and takes everything away. Its order of text is not that of its
/// octets, so that whoever relies on one is found out.
const SCRIPT: &str = r#"
set -eu
dir=$(mktemp -d /tmp/gatepost-postgres.XXXXXX)
trap 'rm -rf "$dir"' EXIT
initdb --pgdata="$dir/data" --username=postgres --auth=trust --encoding=UTF8 --no-sync \
  --locale-provider=icu --icu-locale=en --locale=C.UTF-8 >"$dir/initdb.log" 2>&1 ||
  { cat "$dir/initdb.log" >&2; exit 1; }
postgres -D "$dir/data" -k "$dir" -c listen_addresses= -c fsync=off -c max_connections=500 \
  -c deadlock_timeout=200ms -c log_min_messages=fatal \
  </dev/null >"$dir/postgres.log" 2>&1 &
server=$!
tries=0
until pg_isready -q -h "$dir"; do
  tries=$((tries + 1))
  if [ "$tries" -gt 600 ] || ! kill -0 "$server"; then cat "$dir/postgres.log" >&2; exit 1; fi
  sleep 0.1
done
echo "$dir"
cat >/dev/null
kill -INT "$server"
wait "$server" || true
"#;

struct Server {
    url: String,
    /// The server ends when this is closed: with this process.
    _until: Option<(Child, ChildStdin)>,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock();
    SERVER.get_or_init(|| match std::env::var("GATEPOST_TEST_POSTGRES") {
        Ok(url) => Server { url, _until: None },
        Err(_) => start(),
    })
}

fn start() -> Server {
    let bin = binaries();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
    // The server refuses to run as root.
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = if is_root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh", "-c", SCRIPT]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]);
        command
    };
    let mut child = command
        .env("PATH", path)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut folder = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut folder).unwrap();
    let folder = folder.trim();
    assert!(!folder.is_empty(), "PostgreSQL did not start");
    let url = format!("postgres:///postgres?host={folder}&user=postgres");
    let input = child.stdin.take().unwrap();
    Server { url, _until: Some((child, input)) }
}

/// The newest that Debian's packages have put where it can be found, else those in the PATH.
fn binaries() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let is_program = |path: &PathBuf| {
        path.join("initdb").metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = folders.filter(&is_program).collect();
    folders.sort();
    let others = std::env::split_paths(&path).find(is_program);
    folders.pop().or(others).expect("PostgreSQL is not installed: run scripts/test")
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
