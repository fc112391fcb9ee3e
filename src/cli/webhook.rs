//! `gatepost webhook list|test|replay`: lists webhooks, tests one, and sends events again.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::reading::{self, text};
use super::when::When;
use super::{Failure, plain, print_json, say};
use crate::app::delivery::webhook_record::Webhook;
use crate::app::delivery::{DestinationError, Destinations};
use crate::app::tenancy::Tenancy;
use crate::domain::delivery::{Attempt, Extent, State};
use crate::domain::destination::Destination;
use crate::domain::id::{AccountId, DeliveryId, DestinationId, EventId};
use crate::run;

/// Polling interval while a test runs.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Args, Debug)]
pub(super) struct WebhookArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List webhooks: where each leads, which events it gets, and whether it fails
    #[command(after_help = "Prints the records of GET /webhooks with --json.")]
    List {
        /// The account that owns them [default: all accounts]
        account: Option<AccountName>,
    },
    /// Send a test event to a webhook and show its response; a server must be running
    #[command(after_help = "Prints {\"event\":…,\"delivery\":…,\"status\":…,\"error\":…,\
                            \"latencyMs\":…} with --json. Exit code 1 unless the response is 2xx.")]
    Test {
        #[arg(value_name = "WEBHOOK", value_parser = webhook_id)]
        id: DestinationId,
        /// Seconds to wait for the response
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        wait: u32,
    },
    /// Send events again that a webhook missed; a running server sends them gradually
    #[command(after_help = "Prints {\"id\":…,\"since\":…,\"only\":…} with --json.")]
    Replay {
        #[arg(value_name = "WEBHOOK", value_parser = webhook_id)]
        id: DestinationId,
        /// Only events from then on: 10m, 3h or 2d ago, or a date
        #[arg(long, value_name = "WHEN")]
        since: When,
        /// Also send again events that were delivered
        #[arg(long)]
        all: bool,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("not the id of a webhook; list them with `gatepost webhook list`")]
struct NotWebhookId;

fn webhook_id(text: &str) -> Result<DestinationId, NotWebhookId> {
    text.parse().map_err(|_| NotWebhookId)
}

impl WebhookArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let (store, rules, mint) = (global.open().await?, global.rules()?, run::system_mint());
        let (access, webhooks) = (Arc::new(rules.access), Arc::new(rules.webhooks));
        let clock = mint.clock().clone();
        let destinations =
            Destinations::new(store.clone(), mint.clone(), Arc::clone(&access), webhooks);
        match self.action {
            Action::List { account } => {
                let found = match account {
                    Some(name) => {
                        let tenancy = Tenancy::new(store, mint, access);
                        destinations.list(name.account(&tenancy).await?.id).await?
                    }
                    None => destinations.all().await?,
                };
                let records = found.iter().map(|one| Webhook::of(one, &clock));
                reading::print_all(global, records, line)?;
                Ok(ExitCode::SUCCESS)
            }
            Action::Test { id, wait } => {
                let webhook = in_use(&destinations, id).await?;
                let account = store.account(webhook.account).await?;
                let account = account.ok_or("the account of the webhook was deleted")?;
                let (event, delivery) = destinations.test(&account, id).await?;
                let first = first_attempt(&destinations, account.id, delivery);
                let wait_for = Duration::from_secs(wait.into());
                let Ok(attempt) = timeout(wait_for, first).await else {
                    return Err(format!(
                        "no test reached {} within {wait} seconds: check that a server runs on \
                         this store; the test stays queued",
                        webhook.url
                    )
                    .into());
                };
                print_test(global, &webhook, event, delivery, &attempt?)
            }
            Action::Replay { id, since, all } => {
                let account = in_use(&destinations, id).await?.account;
                let extent = if all { Extent::All } else { Extent::Failed };
                let since = since.before(clock.now());
                let replay = destinations.replay(account, id, since, extent).await?;
                if global.json {
                    print_json(&json!({
                        "id": replay.to_string(),
                        "since": since.to_string(),
                        "only": extent.as_str(),
                    }))?;
                } else {
                    let which = if all { "all events" } else { "events that the webhook missed" };
                    say!("replay {replay}: {which} since {since} are queued")?;
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

async fn in_use(destinations: &Destinations, id: DestinationId) -> Result<Destination, Failure> {
    match destinations.known_anywhere(id).await {
        Ok(known) if !known.removed => Ok(known.destination),
        Ok(_) | Err(DestinationError::NoWebhook) => {
            Err(format!("no webhook {id}; list them with `gatepost webhook list`").into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Prints the result of a test. Fails unless the webhook responded with 2xx.
fn print_test(
    global: &GlobalArgs,
    webhook: &Destination,
    event: EventId,
    delivery: DeliveryId,
    attempt: &Attempt,
) -> Result<ExitCode, Failure> {
    if global.json {
        print_json(&json!({
            "event": { "id": event.to_string(), "event": "webhook.test" },
            "delivery": { "id": delivery.to_string() },
            "status": attempt.status,
            "error": attempt.error,
            "latencyMs": attempt.latency_ms,
        }))?;
    } else {
        let status = attempt.status.map(|status| format!("answered {status}"));
        let error = attempt.error.as_deref().map(plain::line);
        let became = [status, error].into_iter().flatten().collect::<Vec<_>>().join(": ");
        say!("{} {became} after {} ms", webhook.url, attempt.latency_ms)?;
    }
    let has_arrived = attempt.status.is_some_and(|status| (200..300).contains(&status));
    Ok(if has_arrived { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits for the first attempt of a delivery, which a server makes.
async fn first_attempt(
    destinations: &Destinations,
    account: AccountId,
    delivery: DeliveryId,
) -> Result<Attempt, Failure> {
    loop {
        let record = destinations.delivery(account, delivery).await?;
        if let Some(first) = record.attempts.into_iter().next() {
            return Ok(first);
        }
        if record.state != State::Pending {
            return Err("the webhook was removed or disabled before the test was sent".into());
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn line(record: &Value) -> Result<(), Failure> {
    let number = |place| record.pointer(place).map(Value::to_string).unwrap_or_default();
    let state = match (text(record, "/disabled/since"), text(record, "/failingSince")) {
        (since, _) if since != "-" => {
            format!("disabled since {since}: {}", text(record, "/disabled/reason"))
        }
        (_, since) if since != "-" => {
            format!("failing since {since}, failures: {}", number("/failures"))
        }
        _ => "in use".to_owned(),
    };
    let (id, account, category) = (text(record, "/id"), number("/userId"), text(record, "/type"));
    let (url, label) = (text(record, "/url"), text(record, "/label"));
    say!("{id}  {account}  {category}  {url}  {label}  {state}")
}
