//! `gatepost demo`: the whole product on this machine, with no set-up and no network.
//!
//! A store in a temporary folder, a local DNS with the fixtures' zone, a webhook receiver, and the
//! server itself; then every fixture through real SMTP, a table of what became of it, and the
//! events as they arrived.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Failure, say};
use crate::app::delivery::{Added, Destinations};
use crate::app::tenancy::Tenancy;
use crate::domain::domain_name::DomainName;
use crate::domain::event::Category;
use crate::egress::signature;
use crate::rules::Rules;
use crate::run::{self, Running, Settings, TlsSettings};
use crate::shutdown::Shutdown;
use crate::store::{Location, Store};
use crate::telemetry;
use crate::testkit::case::{self, Case};
use crate::testkit::dns::{DnsServer, Zone};
use crate::testkit::house::House;
use crate::testkit::receiver::{Received, Receiver};
use crate::testkit::smtp_client::{Transaction, deliver};

/// Show everything on this machine, with no set-up and no network
#[derive(Args, Debug)]
pub(super) struct Demo {
    /// Exit after the table; fails if anything differed from what its fixture expects
    #[arg(long)]
    once: bool,
}

/// Nothing on this machine waits longer for anything.
const PATIENCE: Duration = Duration::from_secs(30);
/// Sessions at the same time.
const CONCURRENCY: usize = 8;

/// One case and what became of it.
struct Row {
    case: Case,
    reply: String,
    as_expected: bool,
}

/// Everything that runs, and how to reach it.
struct Stage {
    running: Running,
    helpers: Shutdown,
    receiver: Receiver,
    key: String,
    house: House,
    /// Gone with the demo.
    _folder: tempfile::TempDir,
}

impl Demo {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        telemetry::quiet();
        say!("Sending every message of fixtures/mail over SMTP\n")?;
        let (mut stages, mut rows) = (Vec::new(), Vec::new());
        for group in Case::groups()? {
            let stage = Stage::set(&group.rules).await?;
            let done = send_all(stage.running.smtp, group.cases).await?;
            print_table(&done)?;
            let accepted = done.iter().filter(|row| row.case.script.expect == "accepted");
            let events: usize = accepted.map(|row| row.case.script.to.len()).sum();
            stages.push((stage, events));
            rows.extend(done);
        }
        say!("\nEvents, as the webhook receiver got them:\n")?;
        let mut events_arrived = true;
        for (stage, events) in &stages {
            events_arrived &= print_events(&stage.receiver, *events).await?;
        }
        let differing = rows.iter().filter(|row| !row.as_expected).count();
        say!("\n{} messages, {differing} differed from what was expected", rows.len())?;
        if let Some((stage, _)) = stages.first()
            && !self.once
            && std::io::stdout().is_terminal()
        {
            stage.print_invitation()?;
            tokio::signal::ctrl_c().await?;
        }
        for (stage, _) in stages {
            stage.strike().await;
        }
        Ok(if differing == 0 && events_arrived { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

impl Stage {
    async fn set(rules: &[(String, String)]) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let location = Location::Folder(folder.path().join("store"));
        let rules = load(rules, folder.path())?;
        let helpers = Shutdown::default();
        let mint = run::system_mint();
        let dns = DnsServer::start(Zone::parse(case::zone())?, helpers.clone()).await?;
        let receiver = Receiver::start(mint.clock().clone()).await?;
        let access = Arc::new(rules.access.clone());
        let store = Store::create(&location, &rules.store, mint.clone()).await?;
        let tenancy = Tenancy::new(store.clone(), mint.clone(), Arc::clone(&access));
        let house = House::build(&tenancy).await?;
        let key = tenancy.create_key(house.organization.id, "demo").await?.token;
        let webhooks = Arc::new(rules.webhooks.clone());
        let destinations = Destinations::new(store.clone(), mint.clone(), access, webhooks);
        let url = receiver.url("/events").parse()?;
        let organization = house.organization.id;
        if let Added::Created(new) =
            destinations.add(organization, url, Category::Incoming, "demo receiver").await?
        {
            receiver.trust(&signature::shown(&new.secret));
        }
        store.close().await;
        let settings = Settings {
            front_end: run::FrontEnd::default(),
            smtp: SocketAddr::from(([127, 0, 0, 1], 0)),
            http: SocketAddr::from(([127, 0, 0, 1], 0)),
            hostname: DomainName::parse("mx.agents.example")?,
            place: location.into(),
            secrets_key: None,
            public_url: None,
            start_patience: Duration::ZERO,
            postmaster: None,
            rules,
            dns: Some(vec![dns.addr()]),
            egress_allow: vec!["127.0.0.0/8".parse()?],
            tls: TlsSettings::default(),
            trusted_proxy: Vec::new(),
            cors_origin: Vec::new(),
        };
        let running = run::start(settings, mint).await?;
        Ok(Self { running, helpers, receiver, key, house, _folder: folder })
    }

    fn print_invitation(&self) -> Result<(), Failure> {
        let (smtp, base) = (self.running.smtp, format!("http://{}/api/v2", self.running.http));
        let key = &self.key;
        let program = std::env::args().next().unwrap_or_else(|| "gatepost".to_owned());
        let support = self.house.agents.get("support").map_or(0, |agent| agent.id.get());
        say!(
            "\nStill running; Ctrl-C ends it. Try:\n
  curl '{base}/messages/recent?token={key}&limit=2'
  curl '{base}/email/intake?token={key}&verdict=refused&limit=3'
  curl '{base}/email/inboundPolicy?token={key}&targetAccountId={support}'
  curl '{base}/email/inboundWhitelist?token={key}&targetAccountId={support}'
  curl -X POST -H 'Content-Type: application/json' -d '{{\"email\": \"new@good.example\"}}' \\
       '{base}/email/inboundWhitelist?token={key}&targetAccountId={support}'

Send a message of your own, signed with a test key:

  {program} send FILE.eml --to support@agents.example --server {smtp} \\
       --sign fixtures/keys/s1._domainkey.good.example.pem"
        )
    }

    async fn strike(self) {
        self.running.stop(PATIENCE).await;
        self.helpers.finish(PATIENCE).await;
    }
}

fn load(files: &[(String, String)], folder: &Path) -> Result<Rules, Failure> {
    let policies = folder.join("policies");
    std::fs::create_dir(&policies)?;
    for (name, text) in files {
        std::fs::write(policies.join(name), text)?;
    }
    Ok(Rules::load(&policies)?)
}

/// Sends cases, several at a time, and answers them in their order.
async fn send_all(server: SocketAddr, cases: Vec<Case>) -> Result<Vec<Row>, Failure> {
    let places = Arc::new(Semaphore::new(CONCURRENCY));
    let mut sending = Vec::new();
    for case in cases {
        let places = Arc::clone(&places);
        sending.push(tokio::spawn(async move {
            let _place = places.acquire_owned().await;
            send(server, case).await
        }));
    }
    let mut rows = Vec::with_capacity(sending.len());
    for row in sending {
        rows.push(row.await?);
    }
    Ok(rows)
}

async fn send(server: SocketAddr, case: Case) -> Row {
    let raw = case.raw();
    let script = &case.script;
    let transaction =
        Transaction { helo: &script.helo, from: &script.from, to: &script.to, raw: &raw };
    let reply = match deliver(server, &transaction).await {
        Ok(replies) => replies.settling().to_owned(),
        Err(error) => error.to_string(),
    };
    let as_expected = reply.starts_with(&script.reply);
    Row { case, reply, as_expected }
}

fn print_table(rows: &[Row]) -> Result<(), Failure> {
    let widest = rows.iter().map(|row| row.case.name.len()).max().unwrap_or(0);
    for row in rows {
        let mark = if row.as_expected { "as expected" } else { "DIFFERS    " };
        let reply = row.reply.lines().next().unwrap_or_default();
        say!("{mark}  {:<widest$}  {reply}", row.case.name)?;
        if !row.as_expected {
            say!("             expected {}: {}", row.case.script.reply, row.case.script.about)?;
        }
    }
    Ok(())
}

/// Prints events as they arrive; answers whether all of them came, signed.
async fn print_events(receiver: &Receiver, wanted: usize) -> Result<bool, Failure> {
    for number in 1..=wanted {
        match receiver.wait_for(number, PATIENCE).await {
            Ok(received) => {
                if let Some(request) = received.get(number - 1) {
                    print_event(request)?;
                }
            }
            Err(too_few) => {
                say!("{too_few}")?;
                return Ok(false);
            }
        }
    }
    Ok(receiver.received().iter().all(|request| request.verified))
}

fn print_event(request: &Received) -> Result<(), Failure> {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let text = |key| body.get(key).and_then(Value::as_str).unwrap_or_default();
    let signed = if request.verified { "signature verified" } else { "SIGNATURE WRONG" };
    say!("{}  {:<28}  {:?}  {signed}", text("event"), text("from"), text("subject"))
}
