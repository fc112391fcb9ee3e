//! `/webhooks/{id}/deliveries` and `/deliveries/{id}`: what became of what was sent, and sending it
//! again.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::Http;
use super::super::answer::{self, success};
use super::super::call::Call;
use super::super::error::Problem;
use super::super::page;
use super::webhooks;
use crate::app::delivery::explanation;
use crate::domain::delivery::{Attempt, State};
use crate::domain::id::DeliveryId;
use crate::store::{Cursor, DeliveryFilter, DeliveryRecord, Page};

/// A page of what was made for one webhook, the newest first; also of one that was removed.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let webhook = webhooks::ever_in_path(&http, &call).await?;
    let limit = page::limit(&call, &http.rules)?;
    let page = Page { limit, from: page::from(&call)?, until: None };
    let state = call.query().get("state").map(str::parse::<State>).transpose();
    let filter = DeliveryFilter {
        state: state.map_err(|error| Problem::invalid(format!("state: {error}")))?,
        since: call.time("since")?,
        until: call.time("until")?,
    };
    let (destinations, filter) = (&call.destinations(&http), &filter);
    let part = |part: Page| async move { destinations.deliveries(webhook.id, filter, &part).await };
    let show = |one: &DeliveryRecord| {
        (Cursor { at: one.created_at, id: one.id.0 }, shape(one).to_string())
    };
    let rows = page::read(&http.rules, page, part, show).await?;
    // Written by hand, because the deliveries are text already.
    let text =
        format!(r#"{{"success":true,"message":"deliveries found","deliveries":{}}}"#, rows.array());
    let mut response = answer::json(StatusCode::OK, text);
    let path = format!("/webhooks/{}/deliveries", webhook.id);
    rows.link(&call, &path, limit, &mut response);
    Ok(response)
}

/// One delivery with its attempts.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let found = in_path(&http, &call).await?;
    Ok(success(StatusCode::OK, "delivery found", json!({ "delivery": shape(&found) })))
}

/// Sends one again that has ended, under the same event id.
pub(in super::super) async fn replay(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = in_path(&http, &call).await?.id;
    call.destinations(&http).redeliver(call.account().id, id).await?;
    let again = in_path(&http, &call).await?;
    Ok(success(StatusCode::OK, "delivery pending again", json!({ "delivery": shape(&again) })))
}

/// The delivery that the path names, to one of the target's own webhooks.
async fn in_path(http: &Http, call: &Call) -> Result<DeliveryRecord, Problem> {
    let (destinations, account) = (call.destinations(http), call.account().id);
    let found = destinations.delivery(account, DeliveryId(call.uuid("id")?)).await?;
    let webhook = destinations.known(account, found.destination).await?;
    webhooks::may_hear(call, webhook.destination.category)?;
    Ok(found)
}

fn shape(delivery: &DeliveryRecord) -> Value {
    let attempts = delivery.attempts.iter().map(|attempt| shape_attempt(attempt, delivery.erased));
    json!({
        "id": delivery.id.to_string(),
        "webhookId": delivery.destination.to_string(),
        "eventId": delivery.event.to_string(),
        "event": delivery.name.as_str(),
        "state": delivery.state.as_str(),
        "createdAt": delivery.created_at.to_string(),
        "nextAttemptAt": delivery.next_attempt_at.map(|at| at.to_string()),
        "attempts": attempts.collect::<Vec<_>>(),
    })
}

/// A receiver may repeat in its answer what it was sent: of what was erased nothing is shown.
fn shape_attempt(attempt: &Attempt, erased: bool) -> Value {
    let response = String::from_utf8_lossy(&attempt.response);
    json!({
        "id": attempt.id.to_string(),
        "date": attempt.at.to_string(),
        "status": attempt.status,
        "latencyMs": attempt.latency_ms,
        "response": (!erased).then_some(response),
        "error": explanation(attempt),
    })
}
