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

/// The same on a TCP port of the loopback, for TLS and passwords only, with a certificate for
/// `localhost` by an authority of its own. A port that is taken is left for another one.
const TLS_SCRIPT: &str = r#"
set -eu
dir=$(mktemp -d /tmp/gatepost-postgres.XXXXXX)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
{
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Test authority"     -addext "keyUsage=critical,keyCertSign" -keyout ca.key -out ca.crt
  openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout server.key -out server.csr
  echo "subjectAltName=DNS:localhost" >names
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2     -extfile names -out server.crt
  chmod 600 server.key
  printf '%s\n' "$PASSWORD" >password
  initdb --pgdata=data --username=me --auth=scram-sha-256 --pwfile=password --encoding=UTF8     --no-sync --locale=C.UTF-8
} >setup.log 2>&1 || { cat setup.log >&2; exit 1; }
chmod 711 .
chmod 644 ca.crt
echo "hostssl all all 127.0.0.1/32 scram-sha-256" >data/pg_hba.conf
port=$((20000 + $$ % 10000))
server=
until [ -n "$server" ]; do
  port=$((port + 1))
  postgres -D data -k "$dir" -c listen_addresses=127.0.0.1 -p "$port" -c fsync=off -c ssl=on     -c ssl_cert_file="$dir/server.crt" -c ssl_key_file="$dir/server.key"     </dev/null >postgres.log 2>&1 &
  server=$!
  until pg_isready -q -h "$dir" -p "$port"; do
    kill -0 "$server" 2>/dev/null || { server=; break; }
    sleep 0.1
  done
  [ -n "$server" ] || grep -q "Address already in use" postgres.log ||
    { cat postgres.log >&2; exit 1; }
done
echo "$port $dir/ca.crt"
cat >/dev/null
kill -INT "$server"
wait "$server" || true
"#;

struct Server {
    url: String,
    /// The server ends when this is closed: with this process.
    _until: Option<Running>,
}

/// The script that runs a server, and the pipe that keeps it going.
type Running = (Child, ChildStdin);

/// A server that speaks TLS only, on `localhost` at this port, for the user `me`.
pub struct TlsServer {
    pub port: u16,
    /// The file of the authority's certificate.
    pub authority: String,
    _until: Running,
}

impl TlsServer {
    /// Starts with this password.
    pub fn start(password: &str) -> Self {
        let (said, until) = run(TLS_SCRIPT, password);
        let (port, authority) = said.split_once(' ').unwrap();
        Self { port: port.parse().unwrap(), authority: authority.to_owned(), _until: until }
    }
}

/// Whether the tests are to use a server of somebody else's.
pub fn is_given() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

const VARIABLE: &str = "GATEPOST_TEST_POSTGRES";

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    static STARTING: Mutex<()> = Mutex::new(());
    let _one = STARTING.lock();
    SERVER.get_or_init(|| match std::env::var(VARIABLE) {
        Ok(url) => Server { url, _until: None },
        Err(_) => start(),
    })
}

fn start() -> Server {
    let (folder, until) = run(SCRIPT, "");
    let url = format!("postgres:///postgres?host={folder}&user=postgres");
    Server { url, _until: Some(until) }
}

/// Runs a script that starts a server; answers the line that it prints then.
fn run(script: &str, password: &str) -> (String, Running) {
    let bin = binaries();
    let path = format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display());
    // The server refuses to run as root.
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let mut command = if is_root {
        let mut command = Command::new("runuser");
        command.args(["-u", "postgres", "--", "sh", "-c", script]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    };
    let mut child = command
        .env("PATH", path)
        .env("PASSWORD", password)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line = line.trim();
    assert!(!line.is_empty(), "PostgreSQL did not start");
    let input = child.stdin.take().unwrap();
    (line.to_owned(), (child, input))
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
