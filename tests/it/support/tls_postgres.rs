//! A PostgreSQL server that speaks TLS only, with a certificate of a test's own authority.

use super::cluster::{Script, binaries};

/// Makes a cluster and runs it on a TCP port of the loopback until standard input ends, for TLS and
/// passwords only, with a certificate for `localhost` by an authority of its own. A port that is
/// taken is left for another one.
const SCRIPT: &str = r#"
set -eu
dir=$(mktemp -d "${TMPDIR:-/tmp}/gatepost-postgres.XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
{
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=Test authority" \
    -addext "keyUsage=critical,keyCertSign" -keyout ca.key -out ca.crt
  openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout server.key -out server.csr
  echo "subjectAltName=DNS:localhost" >names
  openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 \
    -extfile names -out server.crt
  chmod 600 server.key
  printf '%s\n' "$1" >password
  initdb --pgdata=data --username=me --auth=scram-sha-256 --pwfile=password --encoding=UTF8 \
    --no-sync --locale=C.UTF-8
} >setup.log 2>&1 || { cat setup.log >&2; exit 1; }
chmod 711 .
chmod 644 ca.crt
echo "hostssl all all 127.0.0.1/32 scram-sha-256" >data/pg_hba.conf
port=$((20000 + $$ % 10000))
server=
until [ -n "$server" ]; do
  port=$((port + 1))
  postgres -D data -k "$dir" -c listen_addresses=127.0.0.1 -p "$port" -c fsync=off -c ssl=on \
    -c ssl_cert_file="$dir/server.crt" -c ssl_key_file="$dir/server.key" \
    </dev/null >postgres.log 2>&1 &
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

/// On `localhost` at this port, for the user `me`. Runs while this value lives.
pub struct TlsServer {
    pub port: u16,
    /// The file of the authority's certificate.
    pub authority: String,
    _until: Script,
}

impl TlsServer {
    /// Starts with this password.
    pub fn start(password: &str) -> Self {
        let bin = binaries().expect("PostgreSQL is not installed: run scripts/test");
        let (script, said) = Script::start(&bin, SCRIPT, &[password]);
        let (port, authority) = said.split_once(' ').unwrap();
        let (port, authority) = (port.parse().unwrap(), authority.to_owned());
        Self { port, authority, _until: script }
    }
}
