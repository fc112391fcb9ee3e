//! Three PostgreSQL servers under Patroni and etcd, as `ops/patroni.yml` sets them up, which can be
//! killed, stopped, and cut off from each other and from etcd.

use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{Connection as _, Executor as _};
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::cluster::{Script, binaries};
use super::ports::free_port;
use super::wire::Wire;
use super::{PATIENCE, http, postgres};

pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/patroni.yml");

pub const NODES: usize = 3;

/// Runs etcd and one Patroni for each node until standard input ends, and removes everything. A
/// line of input is something to do to a node; a line of output says that it was done.
const SCRIPT: &str = r#"
set -eu
dir=$(mktemp -d "${TMPDIR:-/tmp}/gatepost-postgres.XXXXXX")
cd "$dir"
printf '%s\n' "$1" >patroni.yml
bin=$2 client=$3 peer=$4
shift 4
printf '%s\n' "$@" >nodes
tidy() {
  for file in *.pid; do kill -9 "$(cat "$file")" 2>/dev/null || true; done
  [ -z "$etcd" ] || kill -9 "$etcd" 2>/dev/null || true
  for file in data*/postmaster.pid; do
    pid=$(head -1 "$file" 2>/dev/null) || continue
    kill -QUIT "$pid" 2>/dev/null || continue
    for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  done
  rm -rf "$dir"
}
etcd=''
trap tidy EXIT
etcd --data-dir etcd --unsafe-no-fsync --name etcd \
  --listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
  --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
  --initial-cluster "etcd=http://127.0.0.1:$peer" </dev/null >etcd.log 2>&1 &
etcd=$!
disown
# Patroni 3.0.2 ends where etcd has not decided on its version yet.
decided() {
  curl -s --noproxy '*' --max-time 1 "http://127.0.0.1:$client/version" | grep -q '"etcdcluster":"[0-9]'
}
for _ in $(seq 300); do decided && break || sleep 0.1; done
decided || { cat etcd.log >&2; exit 1; }
settings() {
  # Lines of the file: SQL, its wire, REST, its wire, the wire to etcd.
  # shellcheck disable=SC2046
  set -- "$1" $(sed -n "$(($1 + 1))p" nodes)
  # Not the address that etcd itself tells: that is not its wire.
  export PATRONI_NAME="node$1" PATRONI_ETCD3_HOSTS="127.0.0.1:$6" PATRONI_ETCD3_USE_PROXIES=true
  export PATRONI_POSTGRESQL_LISTEN="127.0.0.1:$2" PATRONI_POSTGRESQL_CONNECT_ADDRESS="127.0.0.1:$3"
  export PATRONI_RESTAPI_LISTEN="127.0.0.1:$4" PATRONI_RESTAPI_CONNECT_ADDRESS="127.0.0.1:$5"
  export PATRONI_POSTGRESQL_DATA_DIR="$dir/data$1" PATRONI_POSTGRESQL_BIN_DIR="$bin"
  export PATRONI_POSTGRESQL_PGPASS="$dir/pgpass$1"
  export PATRONI_SUPERUSER_USERNAME=postgres PATRONI_SUPERUSER_PASSWORD=superuser
  export PATRONI_REPLICATION_USERNAME=replicator PATRONI_REPLICATION_PASSWORD=replicator
}
run() {
  settings "$1"
  setsid patroni "patroni.$1.yml" </dev/null >>"patroni.$1.log" 2>&1 &
  echo $! >"patroni.$1.pid"
  disown
}
end() {
  kill -9 "$(cat "patroni.$1.pid")" "$(head -1 "data$1/postmaster.pid")"
}
# Ends a node as /dev/watchdog does a machine: once Patroni has set a time, and then writes
# nothing for so long. The file says when, in milliseconds.
watchdog() {
  local seconds='' sign line
  while :; do
    if read -r -N 1 ${seconds:+-t "$seconds"} sign; then
      case $sign in
        C) read -r line && seconds=${line#timeout=} ;;
        V) seconds='' ;;
      esac
    else
      end "$1" && date +%s%3N >"reset.$1"
      seconds=''
    fi
  done
}
for node in 0 1 2; do
  mkfifo "watchdog.$node"
  { cat patroni.yml; printf '  driver: testing\n  device: %s\n' "$dir/watchdog.$node"; } \
    >"patroni.$node.yml"
  watchdog "$node" <>"watchdog.$node" >"watchdog.$node.log" 2>&1 &
  echo $! >"watchdog.$node.pid"
  disown
  run "$node"
done
echo "$dir"
while read -r what node; do
  for file in reset.*; do
    [ ! -e "$file" ] || [ "$what $node" = "reset-of ${file#reset.}" ] ||
      { echo "the watchdog of node ${file#reset.} ended it" >&2; exit 1; }
  done
  case $what in
    kill) end "$node"; printf V >"watchdog.$node" ;;
    run) run "$node" ;;
    freeze) kill -STOP "$(cat "patroni.$node.pid")" ;;
    reset-of)
      [ -e "reset.$node" ] || { echo "the watchdog of node $node has not ended it" >&2; exit 1; }
      echo "$(($(date +%s%3N) - $(cat "reset.$node")))"; rm "reset.$node"; continue ;;
    switchover)
      settings "$node"
      PATRONI_ETCD3_HOSTS=127.0.0.1:$client patronictl -c patroni.yml switchover gatepost \
        --master "node$node" --force >switchover.log 2>&1 || { cat switchover.log >&2; exit 1; } ;;
  esac
  echo "$what $node"
done
"#;

struct Node {
    sql: u16,
    rest: u16,
    /// From its peers, and to etcd.
    wires: [Wire; 3],
}

/// Runs while this value lives.
pub struct Patroni {
    nodes: Vec<Node>,
    script: Script,
}

impl Patroni {
    /// Starts, and makes an empty database. If `synchronous` is not set, commits wait for no
    /// replica.
    pub async fn start(synchronous: bool) -> Self {
        let bin = binaries().expect("PostgreSQL is not installed: run scripts/test");
        let mut settings = std::fs::read_to_string(FILE).unwrap();
        // Behind it the script names a watchdog that ends a node, not the machine of the tests.
        let watchdog = "watchdog:\n  mode: required\n";
        assert!(settings.ends_with(watchdog), "{FILE} does not end with a required watchdog");
        if !synchronous {
            for name in ["synchronous_mode", "synchronous_mode_strict"] {
                let line = format!("    {name}: true\n");
                assert!(settings.contains(&line), "{FILE} has no {name}");
                settings = settings.replace(&line, &format!("    {name}: false\n"));
            }
            // Mail that a test sends while the replicas hear nothing must not exceed it.
            let line = "    maximum_lag_on_failover: 1048576\n";
            assert!(settings.contains(line), "{FILE} has no maximum_lag_on_failover");
            settings = settings.replace(line, "    maximum_lag_on_failover: 1073741824\n");
        }
        let (client, peer) = (free_port(), free_port());
        let mut nodes = Vec::new();
        for _ in 0..NODES {
            let (sql, rest) = (free_port(), free_port());
            let wires = [Wire::to(sql).await, Wire::to(rest).await, Wire::to(client).await];
            nodes.push(Node { sql, rest, wires });
        }
        let mut arguments = vec![settings, bin.display().to_string()];
        arguments.extend([client, peer].map(|port| port.to_string()));
        arguments.extend(nodes.iter().map(|node| {
            let [sql, rest, etcd] = &node.wires;
            format!("{} {} {} {} {}", node.sql, sql.port, node.rest, rest.port, etcd.port)
        }));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (script, _folder) = block_in_place(|| Script::start(&bin, SCRIPT, &arguments));
        let patroni = Self { nodes, script };
        patroni.settled(synchronous).await;
        let leader = patroni.leader().await;
        let url = patroni.url_of(leader, "postgres:superuser", "postgres");
        let mut direct = postgres::connect(&url).await;
        direct.execute("CREATE ROLE gatepost LOGIN PASSWORD 'gatepost'").await.unwrap();
        let database = "CREATE DATABASE gatepost OWNER gatepost TEMPLATE template0 ENCODING 'UTF8'";
        direct.execute(database).await.unwrap();
        direct.close().await.unwrap();
        patroni
    }

    fn url_of(&self, node: usize, login: &str, database: &str) -> String {
        format!("postgres://{login}@127.0.0.1:{}/{database}?sslmode=disable", self.nodes[node].sql)
    }

    /// The database of gateways, with all servers.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.sql)).collect();
        let hosts = hosts.join(",");
        format!(
            "postgres://gatepost:gatepost@{hosts}/gatepost?sslmode=disable\
             &target_session_attrs=read-write"
        )
    }

    /// The members as the nodes know them that answer; one by one, until one does.
    async fn members(&self) -> Vec<Value> {
        for node in &self.nodes {
            let url = format!("http://127.0.0.1:{}/cluster", node.rest);
            let asking = http::get_if_there(&url);
            if let Ok(Some(answer)) = timeout(PATIENCE / 30, asking).await
                && let Ok(said) = serde_json::from_slice::<Value>(&answer.body)
                && let Some(members) = said["members"].as_array()
            {
                return members.clone();
            }
        }
        Vec::new()
    }

    /// The node that has the lock.
    pub async fn leader(&self) -> usize {
        let found = async {
            loop {
                let leader = self.members().await.into_iter().find(|one| one["role"] == "leader");
                if let Some(leader) = leader {
                    let name = leader["name"].as_str().unwrap();
                    return name.strip_prefix("node").unwrap().parse().unwrap();
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(4 * PATIENCE, found).await.expect("no node is the leader")
    }

    /// Waits until every node runs on the leader's timeline, with a synchronous replica if it is
    /// to have one.
    pub async fn settled(&self, synchronous: bool) {
        let mut last = Vec::new();
        let settled = async {
            loop {
                last = self.members().await;
                let leader = last.iter().find(|one| one["role"] == "leader");
                let timeline = leader.map(|one| one["timeline"].clone()).unwrap_or_default();
                let runs = |one: &&Value| {
                    ["running", "streaming"].iter().any(|state| one["state"] == *state)
                        && one["timeline"] == timeline
                };
                let synced = last.iter().any(|one| one["role"] == "sync_standby");
                if last.iter().filter(runs).count() == NODES
                    && !timeline.is_null()
                    && synced == synchronous
                {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let found = timeout(4 * PATIENCE, settled).await;
        found.unwrap_or_else(|_| panic!("the nodes did not settle: {last:?}"));
    }

    /// `kill -9` of PostgreSQL and Patroni.
    pub fn kill(&mut self, node: usize) {
        self.tell("kill", node);
    }

    /// Starts a node that was killed.
    pub fn run(&mut self, node: usize) {
        self.tell("run", node);
    }

    /// Its Patroni does nothing any more; PostgreSQL goes on.
    pub fn freeze(&mut self, node: usize) {
        self.tell("freeze", node);
    }

    /// When the watchdog of a node ended it, since its Patroni hung. Fails if it has not.
    pub fn reset_of(&mut self, node: usize) -> Instant {
        let words = format!("reset-of {node}");
        let said = block_in_place(|| self.script.tell(&words));
        Instant::now() - Duration::from_millis(said.parse().unwrap())
    }

    /// Another node becomes the leader, in good order.
    pub fn switchover(&mut self, from: usize) {
        self.tell("switchover", from);
    }

    /// Cuts a node off from its peers and from etcd; gateways still reach it.
    pub fn cut(&self, node: usize) {
        self.nodes[node].wires.iter().for_each(Wire::cut);
    }

    pub fn mend(&self, node: usize) {
        self.nodes[node].wires.iter().for_each(Wire::mend);
    }

    /// No replica hears the leader's log any more.
    pub fn cut_replication(&self, leader: usize) {
        self.nodes[leader].wires[0].cut();
    }

    fn tell(&mut self, what: &str, node: usize) {
        let words = format!("{what} {node}");
        block_in_place(|| assert_eq!(self.script.tell(&words), words));
    }
}
