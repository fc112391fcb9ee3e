//! `gatepost health`: asks a server on this machine whether it is ready, for health checks of
//! containers that have no other program.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::time::timeout;

use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::config::{AcmeOptions, HostPort, ServeOptions, TlsOptions};
use crate::testkit::presented::{Opening, page, reachable};

/// `/readyz` answers in less than a second.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Args, Debug)]
#[command(after_help = "Asks for /readyz where --metrics says, else where --http says, as in the \
                        settings of the server. Prints the answer of the server with --json.")]
pub(super) struct Health {
    /// Where the server serves the HTTP API [default: 0.0.0.0:8080]
    #[arg(long, env = "GATEPOST_HTTP", value_name = "HOST:PORT")]
    http: Option<HostPort>,
    /// Where the server shows its metrics, in clear, and its health, too
    #[arg(long, env = "GATEPOST_METRICS", value_name = "HOST:PORT")]
    metrics: Option<HostPort>,
    /// The API's certificate, which is not read: the API is asked by https
    #[arg(long, env = "GATEPOST_HTTP_TLS_CERT", value_name = "FILE")]
    http_tls_cert: Option<PathBuf>,
    /// The API has the certificate of an authority: it is asked by https
    #[arg(
        long, env = "GATEPOST_ACME_HTTPS", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, value_name = "BOOL"
    )]
    acme_https: Option<bool>,
}

impl Health {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let own = ServeOptions {
            http: self.http,
            metrics: self.metrics,
            tls: TlsOptions { http_cert: self.http_tls_cert, ..TlsOptions::default() },
            acme: AcmeOptions { https: self.acme_https, ..AcmeOptions::default() },
            ..ServeOptions::default()
        };
        let options = global.store.with(own)?;
        let (server, opening) = match options.metrics().await? {
            Some(address) => (address, Opening::Clear),
            None => (options.http().await?, Opening::of(options.serves_https())),
        };
        let server = reachable(server);
        let late = |_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        let asked = timeout(PATIENCE, page(server, opening, "/readyz")).await.unwrap_or_else(late);
        let asked = asked.map_err(|error| format!("no health of {server}: {error}"))?;
        let status = asked.status;
        let body: Value = serde_json::from_slice(&asked.body)
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
