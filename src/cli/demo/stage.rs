//! A server with its surroundings: a store in a temporary folder, a local DNS with the fixtures'
//! zone, the fixtures' Agents, and a webhook receiver.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::app::delivery::{Added, Destinations};
use crate::app::tenancy::Tenancy;
use crate::cli::Failure;
use crate::cli::local::{self, PATIENCE};
use crate::domain::event::Category;
use crate::domain::id::AccountId;
use crate::egress::signature;
use crate::rules::Rules;
use crate::run::{self, Running};
use crate::shutdown::Shutdown;
use crate::store::{Location, Store};
use crate::testkit::case::{self, Case};
use crate::testkit::dns::{DnsServer, Zone};
use crate::testkit::fixture_accounts::FixtureAccounts;
use crate::testkit::http_client::Api;
use crate::testkit::receiver::Receiver;
use crate::testkit::smtp_client::{Transaction, deliver};

/// Interval of polling: the record of a refusal may follow its reply by a second (contract §2.3).
const POLL_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct Stage {
    pub running: Running,
    pub dns: DnsServer,
    pub receiver: Receiver,
    /// Uses the organization's key.
    pub api: Api,
    pub key: String,
    accounts: FixtureAccounts,
    helpers: Shutdown,
    /// Deleted at the end of the demo.
    folder: tempfile::TempDir,
}

/// Number of messages in the API, and of webhooks received.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrived {
    pub messages: usize,
    pub webhooks: usize,
}

impl Stage {
    /// Starts a server with these rule files: names and texts.
    pub async fn start(rules: &[(String, String)]) -> Result<Self, Failure> {
        let folder = tempfile::tempdir()?;
        let location = Location::Folder(folder.path().join("store"));
        let rules = load_rules(rules, folder.path())?;
        let helpers = Shutdown::default();
        let mint = run::system_mint();
        let dns = DnsServer::start(Zone::parse(case::zone())?, helpers.clone()).await?;
        let receiver = Receiver::start(mint.clock().clone()).await?;
        let access = Arc::new(rules.access.clone());
        let store = Store::create(&location, &rules.store, mint.clone()).await?;
        let tenancy = Tenancy::new(store.clone(), mint.clone(), Arc::clone(&access));
        let accounts = FixtureAccounts::build(&tenancy).await?;
        let organization = accounts.organization.id;
        let key = tenancy.create_key(organization, "demo").await?.token;
        let webhooks = Arc::new(rules.webhooks.clone());
        let destinations = Destinations::new(store.clone(), mint.clone(), access, webhooks);
        let url = receiver.url("/events").parse()?;
        let added = destinations.add(organization, url, Category::Incoming, "demo receiver");
        if let Added::Created(new) = added.await? {
            receiver.trust(&signature::secret_text(&new.secret));
        }
        store.close().await;
        let settings = local::settings(&location, rules, dns.addr(), [local::here(0); 2])?;
        let running = run::start(settings, mint).await?;
        let api = Api::new(running.http, &key);
        Ok(Self { running, dns, receiver, api, key, accounts, helpers, folder })
    }

    /// Sends a case. Returns the reply that settles it.
    pub async fn send(&self, case: &Case) -> String {
        let (script, raw) = (&case.script, case.raw());
        let transaction =
            Transaction { helo: &script.helo, from: &script.from, to: &script.to, raw: &raw };
        match deliver(self.running.smtp, &transaction).await {
            Ok(replies) => local::one_line(replies.settling()),
            Err(error) => error.to_string(),
        }
    }

    /// Returns the intake record named in a reply.
    pub async fn record(&self, reply: &str) -> Result<Value, Failure> {
        let id = local::record_of(reply).ok_or("the reply names no record")?;
        let path = format!("/email/intake/{id}");
        let found = async {
            loop {
                if let Ok(found) = self.api.get(&path).await {
                    return found;
                }
                sleep(POLL_INTERVAL).await;
            }
        };
        let found = timeout(PATIENCE, found).await.map_err(|_| format!("no record {id}"))?;
        Ok(found.get("intake").cloned().unwrap_or_default())
    }

    /// Waits for the webhook about a message. Returns its body, or None if its signature is wrong.
    pub async fn webhook(&self, message: &str) -> Result<Option<Value>, Failure> {
        let mut seen = 0;
        loop {
            let more = self.receiver.after(seen, PATIENCE).await?;
            for request in &more {
                let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                if body.get("messageUuid").and_then(Value::as_str) == Some(message) {
                    return Ok(request.verified.then_some(body));
                }
            }
            seen += more.len();
        }
    }

    pub async fn arrived(&self) -> Result<Arrived, Failure> {
        let messages = self.api.get("/messages/recent?limit=200").await?;
        let messages = messages.as_array().map_or(0, Vec::len);
        Ok(Arrived { messages, webhooks: self.receiver.received().len() })
    }

    pub fn agent(&self, name: &str) -> Result<AccountId, Failure> {
        let agent = self.accounts.agents.get(name).ok_or_else(|| format!("no Agent {name}"))?;
        Ok(agent.id)
    }

    /// A folder that lasts as long as the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub async fn stop(self) {
        self.running.stop(PATIENCE).await;
        self.helpers.finish(PATIENCE).await;
    }
}

fn load_rules(files: &[(String, String)], folder: &Path) -> Result<Rules, Failure> {
    let policies = folder.join("policies");
    std::fs::create_dir(&policies)?;
    for (name, text) in files {
        std::fs::write(policies.join(name), text)?;
    }
    Ok(Rules::load(&policies)?)
}
