//! `gatepost health`: asks a server on this machine whether it is ready, for health checks of
//! containers that have no other program.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::config::{HostPort, ServeOptions};
use crate::testkit::http_client::ask;

/// `/readyz` answers in less than a second.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "Asks for /readyz where --metrics says, else where --http says, as in the \
                        settings of the server. An API with a certificate is asked at --metrics. \
                        Prints the answer of the server with --json.")]
pub(super) struct Health {
    /// Where the server serves the HTTP API [default: 0.0.0.0:8080]
    #[arg(long, env = "GATEPOST_HTTP", value_name = "HOST:PORT")]
    http: Option<HostPort>,
    /// Where the server shows its metrics, in clear, and its health, too
    #[arg(long, env = "GATEPOST_METRICS", value_name = "HOST:PORT")]
    metrics: Option<HostPort>,
}

impl Health {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let own =
            ServeOptions { http: self.http, metrics: self.metrics, ..ServeOptions::default() };
        let options = global.store.with(own)?;
        let server = match options.metrics().await? {
            Some(address) => address,
            None => options.http().await?,
        };
        let server = reachable(server);
        let asked = ask(server, "/readyz", PATIENCE).await;
        let (status, body) = asked.map_err(|error| format!("no health of {server}: {error}"))?;
        let body: Value = serde_json::from_slice(&body)
            .map_err(|_| format!("no health of {server}: it answers {status} without JSON"))?;
        if global.json {
            print_json(&body)?;
        } else {
            let says = |key: &str| body.get(key).and_then(Value::as_str);
            say!("{}", says("detail").or(says("message")).unwrap_or_default())?;
        }
        Ok(if status == 200 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Returns this machine's own address where the server listens on all of them.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
