//! Webhooks: where events go, what became of each, and what sends them again.

use std::time::Duration;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::chart::{self, Column, Tone};
use super::deliveries::Deliveries;
use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::app::delivery::catalog;
use crate::domain::clock::Timestamp;
use crate::domain::delivery::State;
use crate::domain::event::{Category, EventName};
use crate::domain::words::Words;
use crate::http::error::Problem;

/// Deliveries of a page.
const ROWS: u32 = 50;
/// Most waiting deliveries that are counted.
const COUNTED: u32 = 200;

#[derive(Deserialize)]
struct Listed {
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Webhook {
    id: String,
    url: String,
    label: String,
    #[serde(rename = "type")]
    kind: String,
    created_at: String,
    ordered: bool,
    payload: String,
    disabled: Option<Disabled>,
    failures: u64,
    failing_since: Option<String>,
    former_secret_until: Option<String>,
}

#[derive(Deserialize)]
struct Disabled {
    since: String,
    reason: String,
}

impl Webhook {
    fn state(&self) -> &'static str {
        match (&self.disabled, self.failures) {
            (Some(_), _) => "disabled",
            (None, 0) => "active",
            (None, _) => "failing",
        }
    }
}

/// A new secret with its webhook: only this answer shows it.
#[derive(Deserialize)]
struct Secret {
    webhook: Webhook,
    secret: String,
}

#[derive(Template)]
#[template(path = "webhooks.html", config = "src/console/templates/askama.toml")]
struct WebhooksPage {
    frame: Frame,
    webhooks: Vec<Webhook>,
    /// The fields of a webhook to create, as they were sent.
    url: String,
    label: String,
    kind: String,
}

#[derive(Template)]
#[template(path = "secret.html", config = "src/console/templates/askama.toml")]
struct SecretPage {
    frame: Frame,
    shown: Secret,
}

impl WebhooksPage {
    fn categories(&self) -> Vec<&'static str> {
        Category::all().iter().map(|category| category.word()).collect()
    }

    fn is_kind(&self, word: &str) -> bool {
        self.kind == word
    }
}

/// Lists the webhooks of the account.
pub(super) async fn list(visit: Visit) -> Result<Answer, Problem> {
    let Listed { webhooks } = visit.ask(visit.on("listWebhooks")).await?;
    let sent = |name| visit.form.get(name).to_owned();
    let (url, label, kind) = (sent("url"), sent("label"), sent("type"));
    let frame = visit.frame(Section::Webhooks).await?;
    Answer::page(&WebhooksPage { frame, webhooks, url, label, kind })
}

/// Creates a webhook, and shows its secret once.
pub(super) async fn create(visit: Visit) -> Result<Answer, Problem> {
    let sent = |name| visit.form.get(name);
    let body = json!({
        "url": sent("url"), "label": sent("label"), "type": sent("type"),
        "ordered": sent("ordered") == "yes",
    });
    show_secret(&visit, visit.carry_out(visit.on("createWebhook").sends(body)).await?).await
}

async fn show_secret(visit: &Visit, answer: Value) -> Result<Answer, Problem> {
    let shown = serde_json::from_value(answer).map_err(Problem::internal)?;
    Answer::page(&SecretPage { frame: visit.frame(Section::Webhooks).await?, shown })
}

#[derive(Template)]
#[template(path = "webhook.html", config = "src/console/templates/askama.toml")]
struct WebhookPage {
    frame: Frame,
    now: Timestamp,
    webhook: Webhook,
    list: Deliveries,
    state: String,
    waiting: Waiting,
    /// Attempts of the deliveries in the list over time: delivered and failed. Empty without any.
    health: String,
}

/// The deliveries that wait for an attempt.
struct Waiting {
    count: usize,
    /// Whether there are more, and older ones, than were counted.
    is_cut: bool,
    /// How long ago the oldest that was counted was made.
    oldest: String,
}

impl WebhookPage {
    fn states(&self) -> Vec<&'static str> {
        State::all().iter().map(|state| state.word()).collect()
    }

    fn is_state(&self, word: &str) -> bool {
        self.state == word
    }
}

/// Shows a webhook with its deliveries.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let id = visit.segment("id");
    let Listed { webhooks } = visit.ask(visit.on("listWebhooks")).await?;
    let webhook = webhooks.into_iter().find(|webhook| webhook.id == id);
    let webhook = webhook.ok_or_else(|| Problem::not_found("webhook"))?;
    let state = visit.query.get("state").to_owned();
    let asked = visit.on("listDeliveries").at(id).with("limit", ROWS).with("state", &state);
    let list: Deliveries = visit.ask(asked.with("before", visit.query.get("before"))).await?;
    let now = visit.console.http.mint.clock().now();
    let pending = visit.on("listDeliveries").at(id).with("limit", COUNTED).with("state", "pending");
    let pending: Deliveries = visit.ask(pending).await?;
    let health = match health(&list, now) {
        columns if columns.is_empty() => String::new(),
        columns => chart::columns(&columns, &[(Tone::Good, "delivered"), (Tone::Bad, "failed")])?,
    };
    let waiting = Waiting {
        count: pending.deliveries.len(),
        is_cut: pending.next.is_some(),
        oldest: pending.deliveries.last().map(|oldest| oldest.ago(&now)).unwrap_or_default(),
    };
    let frame = visit.frame(Section::Webhooks).await?;
    Answer::page(&WebhookPage { frame, now, webhook, list, state, waiting, health })
}

/// Counts the attempts of these deliveries from the first one to now, by outcome.
fn health(deliveries: &Deliveries, now: Timestamp) -> Vec<Column> {
    let attempts = deliveries.deliveries.iter().flat_map(|delivery| &delivery.attempts);
    let attempts: Vec<(i64, bool)> = attempts
        .filter_map(|attempt| {
            let at = attempt.date.parse::<jiff::Timestamp>().ok()?.as_millisecond();
            let is_good = attempt.status.is_some_and(|status| (200..300).contains(&status));
            Some((at, is_good))
        })
        .collect();
    let Some(first) = attempts.iter().map(|(at, _)| *at).min() else { return Vec::new() };
    let lasts = Duration::from_millis(u64::try_from(now.millis() - first).unwrap_or(0));
    let mut columns = chart::empty_columns(Timestamp::from_millis(first), lasts, 2);
    for (at, is_good) in attempts {
        let place = chart::place(at, first, lasts);
        let column = columns.get_mut(place);
        if let Some(count) = column.and_then(|one| one.parts.get_mut(usize::from(!is_good))) {
            *count += 1;
        }
    }
    columns
}

/// Carries out one of the buttons of a webhook.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let id = visit.segment("id");
    let here = format!("/webhooks/{id}");
    match visit.form.get("do") {
        "test" => {
            visit.carry_out(visit.on("testWebhook").at(id)).await?;
            Ok(visit.see(&here, "tested"))
        }
        "rotate" => {
            let body = json!({ "endFormer": visit.form.get("end") == "yes" });
            let asked = visit.on("rotateWebhookSecret").at(id).sends(body);
            show_secret(&visit, visit.carry_out(asked).await?).await
        }
        "replay" => {
            let body = json!({ "since": since(&visit)?, "only": visit.form.get("only") });
            visit.carry_out(visit.on("replayWebhook").at(id).sends(body)).await?;
            Ok(visit.see(&here, "replayed"))
        }
        "delivery" => {
            let delivery = visit.form.get("delivery");
            visit.carry_out(visit.on("replayDelivery").at(delivery)).await?;
            Ok(visit.see(&here, "replayed"))
        }
        "disable" | "enable" => {
            let disabled = visit.form.get("do") == "disable";
            let body = json!({ "id": id, "disabled": disabled });
            visit.carry_out(visit.on("createWebhook").sends(body)).await?;
            Ok(visit.see(&here, "webhook"))
        }
        "remove" => {
            visit.ask::<Value>(visit.on("removeWebhooks").with("id", id)).await?;
            Ok(visit.see("/webhooks", "removed"))
        }
        _ => Err(Problem::invalid("this button is not known here: open the page again")),
    }
}

/// The moment from which deliveries are replayed: so many hours ago.
fn since(visit: &Visit) -> Result<String, Problem> {
    let hours = visit
        .form
        .get("hours")
        .parse::<u64>()
        .map_err(|_| Problem::invalid("hours must be a whole number: the time to look back"))?;
    let lasts = Duration::from_secs(hours.saturating_mul(3_600));
    Ok(visit.console.http.mint.clock().now().minus(lasts).to_string())
}

#[derive(Deserialize)]
struct Catalog {
    events: Vec<CatalogEvent>,
}

#[derive(Deserialize)]
struct CatalogEvent {
    #[serde(rename = "event")]
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    schema: Value,
}

impl CatalogEvent {
    fn schema_text(&self) -> String {
        serde_json::to_string_pretty(&self.schema).unwrap_or_default()
    }

    fn example_text(&self) -> String {
        let name = self.name.parse::<EventName>();
        let example = name.map(catalog::example).unwrap_or_default();
        serde_json::to_string_pretty(&example).unwrap_or_default()
    }
}

#[derive(Template)]
#[template(path = "catalog.html", config = "src/console/templates/askama.toml")]
struct CatalogPage {
    frame: Frame,
    events: Vec<CatalogEvent>,
}

/// Shows every event with its schema and an example.
pub(super) async fn catalog(visit: Visit) -> Result<Answer, Problem> {
    let Catalog { events } = visit.ask(visit.on("getEventCatalog")).await?;
    Answer::page(&CatalogPage { frame: visit.frame(Section::Webhooks).await?, events })
}
