//! `/webhooks/{id}/deliveries` and `/deliveries/{id}`: deliveries with their attempts, and replays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::delivery::explanation;
use crate::domain::delivery::{self, State};
use crate::domain::event::EventName;
use crate::domain::id::DeliveryId;
use crate::http::routes::webhooks;
use crate::http::typed::{Call, Limit, ListPlace, Next, Problem, WithHeaders, page, successes};
use crate::store::{Cursor, DeliveryFilter, DeliveryRecord, Page};
use crate::wire::{Date, Id, Moment, Texts, Word};

/// An event for a webhook.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The id of the delivery.
    id: Id,
    /// The webhook.
    webhook_id: Id,
    /// The event.
    event_id: Id,
    /// The name of the event.
    event: Word<EventName>,
    /// The state of the delivery.
    state: Word<State>,
    /// When it was made.
    created_at: Date,
    /// When it is tried again, if it is.
    next_attempt_at: Option<Date>,
    /// The attempts so far.
    attempts: Vec<Attempt>,
}

/// An attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
struct Attempt {
    /// The id of the attempt.
    id: Id,
    /// When it was made.
    date: Date,
    /// The status of the answer, if there was one.
    #[schemars(example = &503)]
    status: Option<u32>,
    /// How long the attempt took, in milliseconds.
    latency_ms: Option<u32>,
    /// The beginning of the answer; null if it was erased.
    response: Option<String>,
    /// The error, in plain words.
    error: Option<String>,
}

/// Lists the deliveries of a webhook
///
/// Removed webhooks keep theirs.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    /// The webhook.
    id: Id,
    /// Only deliveries in this state.
    state: Option<Word<State>>,
    /// Only deliveries from then on.
    since: Option<Moment>,
    /// Only deliveries before then.
    until: Option<Moment>,
    limit: Option<Limit>,
    /// Only older items: `next`, a cursor, or the id of an item.
    before: Option<ListPlace>,
    /// Only newer items: a cursor, or the id of an item.
    after: Option<ListPlace>,
}

pub async fn list(call: Call, request: List) -> Result<WithHeaders<Listed>, Problem> {
    let webhook = webhooks::find_ever_used(&call, request.id).await?;
    let filter = DeliveryFilter {
        state: request.state.map(|Word(state)| state),
        since: request.since.map(|Moment(at)| at),
        until: request.until.map(|Moment(at)| at),
    };
    let (destinations, filter) = (&call.destinations(), &filter);
    let find = |id| destinations.place_of(call.account().id, webhook.id, DeliveryId(id));
    let page = page::requested(&call, request.limit, request.before, request.after, find).await?;
    let part = |part: Page| async move { destinations.deliveries(webhook.id, filter, &part).await };
    let row = |one: &DeliveryRecord| {
        page::shown_row(Cursor { at: one.created_at, id: one.id.0 }, shape(one).as_ref())
    };
    let rows = page::read(&call, page, part, row).await?;
    Ok(rows.linked(&call, Listed { deliveries: rows.list()?, next: rows.next() }))
}

/// Shows a delivery with its attempts
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Show {
    /// The delivery.
    id: Id,
}

pub async fn show(call: Call, request: Show) -> Result<DeliveryAnswer, Problem> {
    Ok(DeliveryAnswer { delivery: find_visible(&call, request.id).await? })
}

/// Sends a delivery again that has ended
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Replay {
    /// The delivery.
    id: Id,
}

successes! {
    Listed {
        /// Newest first.
        deliveries: Texts<Delivery>,
        /// Send it as `before` to get the next page; null on the last page.
        next: Option<Next>,
    } = OK "deliveries found", pages;
    DeliveryAnswer { delivery: Delivery } = OK "delivery found";
    Pending { delivery: Delivery } = OK "delivery pending again";
}

/// Replays the delivery, under the same event id.
pub async fn replay(call: Call, request: Replay) -> Result<Pending, Problem> {
    let Id(id) = find_visible(&call, request.id).await?.id;
    call.destinations().redeliver(call.account().id, DeliveryId(id)).await?;
    Ok(Pending { delivery: find_visible(&call, request.id).await? })
}

/// Returns the delivery, if the target owns its webhook and the caller may see it.
async fn find_visible(call: &Call, Id(id): Id) -> Result<Delivery, Problem> {
    let (destinations, account) = (call.destinations(), call.account().id);
    let found = destinations.delivery(account, DeliveryId(id)).await?;
    let webhook = destinations.known(account, found.destination).await?;
    webhooks::check_may_see(call, webhook.destination.category)?;
    shape(&found).ok_or_else(|| Problem::not_found("delivery"))
}

/// Returns None for an event of another version, which lists of events leave out, too.
fn shape(delivery: &DeliveryRecord) -> Option<Delivery> {
    let attempts = delivery.attempts.iter().map(|attempt| shape_attempt(attempt, delivery.erased));
    Some(Delivery {
        id: Id(delivery.id.0),
        webhook_id: Id(delivery.destination.0),
        event_id: Id(delivery.event.0),
        event: Word(delivery.name?),
        state: Word(delivery.state),
        created_at: Date(delivery.created_at),
        next_attempt_at: delivery.next_attempt_at.map(Date),
        attempts: attempts.collect(),
    })
}

/// Hides the response of an erased event, because a receiver may repeat the event there.
fn shape_attempt(attempt: &delivery::Attempt, erased: bool) -> Attempt {
    let response = || String::from_utf8_lossy(&attempt.response).into_owned();
    Attempt {
        id: Id(attempt.id.0),
        date: Date(attempt.at),
        status: attempt.status.map(u32::from),
        latency_ms: Some(attempt.latency_ms),
        response: (!erased).then(response),
        error: explanation(attempt),
    }
}
