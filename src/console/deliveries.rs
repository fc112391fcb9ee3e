//! Deliveries to webhooks: those of one webhook, and those of one message.

use serde::Deserialize;

use super::filters;
use super::visit::Visit;
use crate::domain::clock::Timestamp;
use crate::domain::id::EventId;
use crate::http::in_process::Asked;

/// A page of deliveries, newest first.
#[derive(Deserialize)]
pub(super) struct Deliveries {
    pub(super) deliveries: Vec<Delivery>,
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delivery {
    pub(super) id: String,
    pub(super) event_id: String,
    pub(super) event: String,
    pub(super) state: String,
    pub(super) created_at: String,
    pub(super) next_attempt_at: Option<String>,
    pub(super) attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    pub(super) date: String,
    pub(super) status: Option<u32>,
    pub(super) latency_ms: Option<u32>,
    pub(super) response: Option<String>,
    pub(super) error: Option<String>,
}

impl Delivery {
    pub(super) fn ago(&self, now: &Timestamp) -> String {
        filters::ago(&self.created_at, *now)
    }

    pub(super) fn is_over(&self) -> bool {
        self.next_attempt_at.is_none()
    }

    /// The status of the last attempt, or its error.
    pub(super) fn last(&self) -> String {
        let Some(attempt) = self.attempts.last() else { return String::new() };
        let status = attempt.status.map(|status| status.to_string());
        status.or_else(|| attempt.error.clone()).unwrap_or_default()
    }
}

/// Most pages of the log of events that are read for one message, and events of a page.
const PAGES: usize = 3;
const EVENTS: u32 = 30;
/// Most webhooks whose deliveries are looked up for one message.
const WEBHOOKS: usize = 20;
/// Most deliveries of one webhook that are read. All were made in the millisecond of the message.
const ROWS: u32 = 100;
/// Categories of the events that a message announces.
const KINDS: [&str; 3] = ["incoming", "conversation", "contact"];

/// An event that a message announced, with its deliveries.
#[derive(Deserialize)]
pub(super) struct Announced {
    pub(super) id: String,
    #[serde(rename = "event")]
    pub(super) name: String,
    #[serde(skip)]
    pub(super) sent: Vec<Sent>,
}

/// A delivery with its webhook.
pub(super) struct Sent {
    /// The account of the webhook.
    pub(super) account: i64,
    pub(super) webhook: Webhook,
    pub(super) delivery: Delivery,
}

#[derive(Clone, Deserialize)]
pub(super) struct Webhook {
    pub(super) id: String,
    pub(super) label: String,
    #[serde(rename = "type")]
    kind: String,
}

/// A message that announced events.
pub(super) struct Announcer<'m> {
    pub(super) agent: i64,
    pub(super) uuid: &'m str,
    pub(super) date: &'m str,
}

/// The events of a message, as far as the caller may see them.
pub(super) struct Announcements {
    pub(super) events: Vec<Announced>,
    /// Whether there are more webhooks than were looked at.
    pub(super) is_cut: bool,
}

#[derive(Deserialize)]
struct Events {
    events: Vec<Announced>,
    next: Option<String>,
    more: bool,
}

#[derive(Deserialize)]
struct Webhooks {
    webhooks: Vec<Webhook>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Above {
    parent_id: Option<i64>,
}

/// Finds the events of a message and their deliveries, to webhooks of its Agent and of the accounts
/// above it. No operation of the API filters by message: events are found by their ids, deliveries
/// by the moment of the message, at which all of them are made.
pub(super) async fn of_message(visit: &Visit, message: &Announcer<'_>) -> Announcements {
    let mut events = events(visit, message).await;
    let mut webhooks = Vec::new();
    for account in owners(visit, message.agent).await {
        let asked = Asked::of("listWebhooks").on(account);
        let Ok(Webhooks { webhooks: found }) = visit.ask(asked).await else { continue };
        let wanted = found.into_iter().filter(|webhook| KINDS.contains(&webhook.kind.as_str()));
        webhooks.extend(wanted.map(|webhook| (account, webhook)));
    }
    let is_cut = webhooks.len() > WEBHOOKS;
    webhooks.truncate(WEBHOOKS);
    for (account, webhook) in webhooks {
        for delivery in deliveries(visit, message, (account, &webhook)).await {
            // The log of events may lag behind.
            if !events.iter().any(|event| event.id == delivery.event_id) {
                let (id, name) = (delivery.event_id.clone(), delivery.event.clone());
                events.push(Announced { id, name, sent: Vec::new() });
            }
            let event = events.iter_mut().find(|event| event.id == delivery.event_id);
            if let Some(event) = event {
                event.sent.push(Sent { account, webhook: webhook.clone(), delivery });
            }
        }
    }
    events.sort_by(|one, other| one.id.cmp(&other.id));
    Announcements { events, is_cut }
}

/// Whether the message announced the event: then both ids differ in the number of the event alone.
fn is_of(event: &str, message: &Announcer<'_>) -> bool {
    let row = |id: &str| id.parse().ok().map(EventId::row);
    row(event).is_some_and(|shared| Some(shared) == row(message.uuid))
}

/// Reads the log from the message on until its events have come, which are side by side.
async fn events(visit: &Visit, message: &Announcer<'_>) -> Vec<Announced> {
    let (mut found, mut after) = (Vec::new(), String::new());
    for _ in 0..PAGES {
        let asked = Asked::of("listEvents").on(message.agent).with("since", message.date);
        let asked = asked.with("limit", EVENTS).with("after", &after);
        let Ok(Events { events, next, more }) = visit.ask(asked).await else { break };
        let may_go_on = events.last().is_none_or(|last| is_of(&last.id, message));
        found.extend(events.into_iter().filter(|event| is_of(&event.id, message)));
        let is_all = !found.is_empty() && !may_go_on;
        match next.filter(|_| more && !is_all) {
            Some(next) => after = next,
            None => break,
        }
    }
    found
}

/// The Agent and the accounts above it, up to that of the caller. A caller that is restricted to
/// some Agents sees no webhook above them.
async fn owners(visit: &Visit, agent: i64) -> Vec<i64> {
    let caller = &visit.api.caller;
    let mut owners = vec![agent];
    let mut last = agent;
    while caller.permitted().is_none() && last != caller.account.id.get() {
        let above = visit.ask::<Above>(Asked::of("getAccount").on(last)).await;
        let Some(parent) = above.ok().and_then(|account| account.parent_id) else { break };
        owners.push(parent);
        last = parent;
    }
    owners
}

/// The deliveries of a message to one webhook.
async fn deliveries(
    visit: &Visit,
    message: &Announcer<'_>,
    (account, webhook): (i64, &Webhook),
) -> Vec<Delivery> {
    let Ok(begin) = message.date.parse::<jiff::Timestamp>() else { return Vec::new() };
    let end = Timestamp::from_millis(begin.as_millisecond().saturating_add(1));
    let asked = Asked::of("listDeliveries").on(account).at(&webhook.id).with("limit", ROWS);
    let asked = asked.with("since", message.date).with("until", end);
    let found =
        visit.ask::<Deliveries>(asked).await.map_or_else(|_| Vec::new(), |it| it.deliveries);
    found.into_iter().filter(|delivery| is_of(&delivery.event_id, message)).collect()
}
