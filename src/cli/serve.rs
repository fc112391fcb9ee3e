//! `gatepost serve`: mail in, API out, until told to stop.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, say};
use crate::config::{self, ServeOptions};
use crate::run::{self, FrontEnd, Settings};
use crate::telemetry;

/// Take mail in over SMTP and serve the HTTP API
#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    options: ServeOptions,
    /// The settings file [default: gatepost.toml where there is one]
    #[arg(long, env = "GATEPOST_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log JSON lines instead of text
    #[arg(long, env = "GATEPOST_LOG_JSON")]
    log_json: bool,
}

impl Serve {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        telemetry::init(self.log_json);
        let options = self.options.or(config::file(self.config.as_deref())?);
        let grace = options.grace();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let running = run::start(settings(options)?, run::system_mint()).await?;
        say!("gatepost is ready: smtp {} http {}", running.smtp, running.http)?;
        let broken = tokio::select! {
            _ = interrupt.recv() => false,
            _ = terminate.recv() => false,
            () = running.broken() => true,
        };
        let in_time = running.stop(grace).await;
        if broken {
            return Err("a write did not reach the disk; nothing after it can be trusted".into());
        }
        if !in_time {
            eprintln!("gatepost: some sessions did not finish within the grace period");
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn settings(options: ServeOptions) -> Result<Settings, Failure> {
    Ok(Settings {
        front_end: front_end(&options),
        smtp: options.smtp(),
        http: options.http(),
        hostname: options.hostname()?,
        place: super::place(&options)?,
        postmaster: options.postmaster()?,
        rules: run::rules(options.policies.as_deref())?,
        dns: options.dns,
        egress_allow: options.egress_allow.unwrap_or_default(),
    })
}

/// Without the feature there is no choice.
#[cfg(not(feature = "mailin"))]
fn front_end(_: &ServeOptions) -> FrontEnd {
    FrontEnd::default()
}

#[cfg(feature = "mailin")]
fn front_end(options: &ServeOptions) -> FrontEnd {
    match options.front_end.unwrap_or_default() {
        config::FrontEnd::Gatepost => FrontEnd::Ours,
        config::FrontEnd::Mailin => FrontEnd::Mailin,
    }
}
