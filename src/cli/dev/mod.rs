//! `gatepost dev`: a world for building an agent, kept in one folder.
//!
//! Runs a server on this machine with one Agent, and a DNS for the sender domains of `gatepost send
//! --dev` ([`sending`]). Prints every verdict and event as it comes ([`follow`]). [`folder`] lists
//! the files; a second start continues the same world.

mod folder;
mod follow;
mod forge;
mod forward;
pub(super) mod letter;
mod names;
pub(super) mod sending;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use self::folder::{Folder, World};
use self::follow::Follower;
use self::forward::Forward;
use super::global_args::GlobalArgs;
use super::local::{self, PATIENCE, program, quoted};
use super::paint::Paint;
use super::{Failure, say};
use crate::rules::Rules;
use crate::run::{self, Running};
use crate::shutdown::Shutdown;
use crate::telemetry;
use crate::testkit::dns::DnsServer;
use crate::testkit::http_client::Api;

/// Run a server for building an agent: one Agent, a local DNS, every verdict and event as it comes
#[derive(Args, Debug)]
pub(super) struct Dev {
    /// The folder of the store and its keys; a second start there is the same world
    /// [default: gatepost-dev]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Forward events to this URL of this machine, by a signed webhook
    #[arg(long, value_name = "URL")]
    forward_to: Option<String>,
}

impl Dev {
    pub(super) async fn run(mut self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        telemetry::quiet();
        self.data = global.folder_of_dev();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (mint, rules) = (run::system_mint(), Rules::defaults()?);
        // Check the URL first, so that a mistake creates no folder.
        let url = self.forward_to.as_deref().map(|url| forward::parse(url, &rules)).transpose()?;
        let folder = Folder::named(self.data.as_deref())?;
        let world = World::of(&folder, &rules, &mint).await?;
        let helpers = Shutdown::default();
        let dns = DnsServer::start(names::zone(&folder)?, helpers.clone()).await?;
        let ports = folder.free_ports();
        let settings = local::settings(&folder.store(), rules.clone(), dns.addr(), ports)?;
        let started = mint.clock().now();
        let running = run::start(settings, mint.clone()).await?;
        let following = async {
            let forward = Forward::set_up(&folder, &world, url.as_ref(), &rules, &mint).await?;
            folder.note(&running, true)?;
            print_greeting(&folder, &world, &running, forward.as_ref())?;
            let api = Api::new(running.http, &world.operator_key);
            let follower = Follower::new(api, mint.clock().clone(), started, Paint::for_output());
            follower.run(forward.as_ref()).await
        };
        let ended = tokio::select! {
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
            broken = running.broken() => Err(broken.into()),
            failed = following => failed,
        };
        folder.note(&running, false)?;
        let in_time = running.stop(PATIENCE).await;
        helpers.finish(PATIENCE).await;
        ended?;
        say!("\ngatepost dev has ended; {} is kept for the next start", folder.path().display())?;
        if !in_time {
            return Err("some sessions did not finish within the grace period".into());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints names, addresses and keys, and commands to try.
fn print_greeting(
    folder: &Folder,
    world: &World,
    running: &Running,
    forward: Option<&Forward>,
) -> Result<(), Failure> {
    let (agent, key, http) = (world.agent, &world.key, running.http);
    let (place, key_file) = (folder.path().display(), folder.key_file());
    let base = format!("http://{http}/api/v2");
    say!("gatepost dev: an Agent of your own on this machine; Ctrl-C ends it\n")?;
    say!("  Agent     {} (account {agent}), mode allowlist", names::AGENT)?;
    say!("  listed    {}, for whom `gatepost send --dev` signs", names::SENDER)?;
    say!("  key       {key}")?;
    say!("            kept in {}: this is a development store", key_file.display())?;
    say!("  API       {base}   (documentation: http://{http}/docs)")?;
    say!("  SMTP      {}", running.smtp)?;
    say!("  store     {place}: the next start has the same Agent, key and messages")?;
    if let Some(forward) = forward {
        say!("  webhook   {}", forward.url)?;
        say!("  secret    {}   (Standard Webhooks)", forward.secret)?;
    }
    let (program, data) = (program(), quoted(folder.path()));
    say!(
        "\nIn another terminal:\n
  {program} send --dev --data {data}
  {program} send --dev --data {data} --subject 'Order 4711' --text 'Where is it?'
  {program} send --dev --data {data} --forge lookalike
  curl '{base}/messages/recent?limit=2&token={key}'
\nVerdicts and events (add ?token=KEY to the URL of a record):\n"
    )
}
