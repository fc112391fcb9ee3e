//! A PostgreSQL server and its replica, without anybody who decides which one is the leader: the
//! test does.

use tokio::task::block_in_place;

use super::cluster::{Script, binaries};
use super::ports::free_port;

/// Makes a server, and a replica that each commit waits for, and runs both until standard input
/// ends. A line of input is something to do; a line of output says that it was done.
const SCRIPT: &str = r#"
set -eu
dir=$(mktemp -d "${TMPDIR:-/tmp}/gatepost-postgres.XXXXXX")
cd "$dir"
control() { node=$1; shift; pg_ctl --pgdata="$dir/$node" --silent --wait --timeout=60 "$@" >&2; }
trap 'for node in a b; do control $node --mode=immediate stop || true; done; rm -rf "$dir"' EXIT
{
  initdb --pgdata=a --username=postgres --auth=trust --encoding=UTF8 --no-sync --locale=C.UTF-8
} >setup.log 2>&1 || { cat setup.log >&2; exit 1; }
run() {
  control "$1" --log="$dir/$1.log" start --options="-k '$dir' -c listen_addresses=127.0.0.1 \
    -c port=$2 -c log_min_messages=fatal -c cluster_name=$1 -c deadlock_timeout=200ms" ||
    { cat "$dir/$1.log" >&2; exit 1; }
}
a=$1 b=$2
run a "$a"
pg_basebackup --pgdata=b --write-recovery-conf --checkpoint=fast --no-sync \
  --dbname="host=127.0.0.1 port=$a user=postgres application_name=b" >&2
run b "$b"
psql -qX -h 127.0.0.1 -p "$a" -U postgres >&2 <<SQL
CREATE DATABASE gatepost TEMPLATE template0 ENCODING 'UTF8';
ALTER SYSTEM SET synchronous_standby_names = 'b';
SELECT pg_reload_conf() \gset
SQL
echo "$dir"
while read -r what; do
  case $what in
    crash) control a --mode=immediate stop ;;
    promote)
      psql -qX -h 127.0.0.1 -p "$b" -U postgres -c "ALTER SYSTEM SET synchronous_standby_names = ''" \
        2>/dev/null >&2 || true
      control b promote ;;
    revive)
      echo "synchronous_standby_names = ''" >>a/postgresql.auto.conf
      run a "$a" ;;
  esac
  echo "$what"
done
"#;

/// Runs while this value lives.
pub struct Pair {
    /// The server's, and its replica's.
    pub ports: [u16; 2],
    script: Script,
}

impl Pair {
    /// Starts; blocks until every commit waits for the replica.
    pub fn start() -> Self {
        let bin = binaries().expect("PostgreSQL is not installed: run scripts/test");
        let ports = [free_port(), free_port()];
        let arguments = ports.map(|port| port.to_string());
        let arguments = arguments.each_ref().map(String::as_str);
        let (script, _folder) = Script::start(&bin, SCRIPT, &arguments);
        Self { ports, script }
    }

    /// The database, on both of them.
    pub fn url(&self) -> String {
        let [a, b] = self.ports;
        format!("postgres://postgres@127.0.0.1:{a},127.0.0.1:{b}/gatepost")
    }

    /// The database on one of them.
    pub fn url_of(&self, place: usize) -> String {
        format!("postgres://postgres@127.0.0.1:{}/gatepost", self.ports[place])
    }

    /// The first server is gone at once.
    pub fn crash(&mut self) {
        self.tell("crash");
    }

    /// The replica becomes a server that can be written to.
    pub fn promote(&mut self) {
        self.tell("promote");
    }

    /// The first server comes back as it was, and can be written to: it does not know that it was
    /// replaced.
    pub fn revive(&mut self) {
        self.tell("revive");
    }

    fn tell(&mut self, what: &str) {
        block_in_place(|| assert_eq!(self.script.tell(what), what));
    }
}
