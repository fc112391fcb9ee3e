//! `/computer/accounts/{targetAccountId}/runtime/health`: the delivery of work to a computer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::computers::{Health, WebhookHealth};
use crate::domain::clock::Clock;
use crate::domain::computer::ComputerState;
use crate::domain::event::Category;
use crate::domain::words::words;
use crate::http::typed::{Call, Problem, successes};
use crate::wire::{Date, Id, Number, Word};

words! { Status { Healthy = "healthy", Degraded = "degraded", Stopped = "stopped", Unknown = "unknown", } }
words! { Severity { Error = "error", Warning = "warning", } }
words! {
    Code {
        NotProvisioned = "not_provisioned",
        WebhookFailing = "webhook_failing",
        NoWay = "no_way",
        KeyOnly = "key_only",
    }
}

/// Shows the delivery of work to an Agent's computer
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {
    /// Whether to count the deliveries that wait for each webhook.
    probe: Option<bool>,
}

successes! {
    HealthAnswer {
        /// The Agent.
        target_account_id: Number,
        /// The health in one word.
        status: Word<Status>,
        /// The state of the computer now.
        #[schemars(example = &"provisioned")]
        state: Word<ComputerState>,
        /// When a key of the Agent was last used, to about an hour.
        key_last_used_at: Option<Date>,
        /// Webhooks of the Agent for events about messages.
        webhooks: Vec<Webhook>,
        /// Empty if all is well.
        findings: Vec<Finding>,
    } = OK "health of the computer";
}

/// A webhook.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Webhook {
    /// The id of the webhook.
    id: Id,
    /// The type of events that it gets.
    #[schemars(extend("enum" = [Category::Incoming.as_str(), Category::Conversation.as_str()]))]
    r#type: Word<Category>,
    /// Whether it gets nothing.
    #[schemars(example = false)]
    disabled: bool,
    /// How often it failed since it last succeeded.
    failures: u64,
    /// Since when the webhook fails; null if it does not.
    failing_since: Option<Date>,
    /// When it last accepted a delivery.
    last_delivered_at: Option<Date>,
    /// How many deliveries wait, up to 100; null without `probe`.
    waiting: Option<u64>,
}

/// A problem with the delivery of work.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Finding {
    /// The finding, for programs.
    code: Word<Code>,
    /// How bad it is.
    severity: Word<Severity>,
    /// The finding in plain words, and what to do.
    detail: &'static str,
}

pub async fn show(call: Call, request: Show) -> Result<HealthAnswer, Problem> {
    let probe = request.probe.unwrap_or_default();
    let health = call.computers().health(call.account().id, probe).await?;
    let (status, findings) = judge(&health);
    Ok(HealthAnswer {
        target_account_id: health.computer.agent.into(),
        status: Word(status),
        state: Word(health.computer.state),
        key_last_used_at: health.key_last_used.map(Date),
        webhooks: health.webhooks.iter().map(|one| webhook(one, call.http.mint.clock())).collect(),
        findings,
    })
}

fn judge(health: &Health) -> (Status, Vec<Finding>) {
    let mut findings = Vec::new();
    let mut find = |code, severity, detail| {
        findings.push(Finding { code: Word(code), severity: Word(severity), detail });
    };
    let is_bad = |way: &WebhookHealth| {
        way.destination.disabled.is_some() || way.destination.health.failing_since.is_some()
    };
    let is_provisioned = health.computer.state == ComputerState::Provisioned;
    if !is_provisioned {
        let detail = "the computer is not provisioned: provision it with POST …/provision";
        find(Code::NotProvisioned, Severity::Error, detail);
    }
    let has_bad = health.webhooks.iter().any(is_bad);
    if has_bad {
        let detail = "a webhook of the Agent is disabled or fails: GET /webhooks shows the reason";
        find(Code::WebhookFailing, Severity::Warning, detail);
    }
    let is_reached = health.webhooks.iter().any(|way| !is_bad(way));
    if !is_reached && health.key_in_use {
        let detail = "no webhook of the Agent gets events about messages. A key of the Agent was \
                      used lately, either by a worker that reads GET /events or only for this \
                      request";
        find(Code::KeyOnly, Severity::Warning, detail);
    } else if !is_reached {
        let detail = "no webhook of the Agent gets events about messages, and no key of the Agent \
                      was used lately: let the worker read GET /events with a key of the Agent, or \
                      add a webhook";
        find(Code::NoWay, Severity::Warning, detail);
    }
    let status = match (is_provisioned, findings.is_empty()) {
        (false, _) => Status::Stopped,
        (true, true) => Status::Healthy,
        (true, false) if !has_bad && health.key_in_use => Status::Unknown,
        (true, false) => Status::Degraded,
    };
    (status, findings)
}

fn webhook(way: &WebhookHealth, clock: &Clock) -> Webhook {
    let destination = &way.destination;
    let failing_since = destination.health.failing_since;
    Webhook {
        id: Id(destination.id.0),
        r#type: Word(destination.category),
        disabled: destination.disabled.is_some(),
        failures: destination.health.failures,
        failing_since: failing_since.map(|at| Date(clock.wall_of(at))),
        last_delivered_at: way.last_delivered.map(Date),
        waiting: way.waiting,
    }
}
