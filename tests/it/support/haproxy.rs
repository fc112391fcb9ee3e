//! HAProxy as `ops/haproxy.cfg` sets it up, before three gateways.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::PATIENCE;
use super::ports::free_port;

/// Ends with its standard input, which ends with the test.
const SCRIPT: &str = "haproxy -db -f \"$1\" </dev/null >\"$2\" 2>&1 & cat >/dev/null; kill $!";

pub const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/haproxy.cfg");

/// Where one gateway takes mail and requests.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    pub smtp: u16,
    pub http: u16,
}

impl Door {
    pub fn free() -> Self {
        Self { smtp: free_port(), http: free_port() }
    }
}

pub struct HaProxy {
    pub smtp: SocketAddr,
    pub http: SocketAddr,
    state: SocketAddr,
    pub log: PathBuf,
    _child: Child,
    _input: ChildStdin,
}

impl HaProxy {
    /// Before gateways at these doors; its log is in `folder`.
    pub async fn start(folder: &Path, doors: &[Door; 3]) -> Self {
        let [smtp, http, state] = std::array::from_fn(|_| local(free_port()));
        let log = folder.join("haproxy.log");
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", FILE]).arg(&log);
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin");
        for (name, address) in [("SMTP", smtp), ("API", http), ("STATE", state)] {
            command.env(name, address.to_string());
        }
        for (letter, door) in ["A", "B", "C"].into_iter().zip(doors) {
            command.env(format!("GATEWAY_{letter}"), "127.0.0.1");
            command.env(format!("SMTP_PORT_{letter}"), door.smtp.to_string());
            command.env(format!("HTTP_PORT_{letter}"), door.http.to_string());
        }
        let mut child = command.process_group(0).stdin(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let listening = async { while TcpStream::connect(state).await.is_err() {} };
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        timeout(PATIENCE, listening).await.unwrap_or_else(|_| {
            panic!("HAProxy does not listen: run the tests by scripts/test; it said {}", said())
        });
        Self { smtp, http, state, log, _child: child, _input: input }
    }

    /// Waits until it has found this gateway (`a`, `b`, `c`) not to be ready, for mail.
    pub async fn has_left_out(&self, gateway: &str) {
        let url = format!("http://{}/;csv", self.state);
        let seen = async {
            loop {
                let page = super::http::get(&url).await.text();
                let line = page.lines().find(|line| line.starts_with(&format!("mail,{gateway},")));
                if line.is_some_and(|line| line.contains(",DOWN,")) {
                    return;
                }
            }
        };
        timeout(PATIENCE, seen).await.expect("HAProxy did not leave the gateway out");
    }
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}
