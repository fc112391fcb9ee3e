//! `/webhooks`: the URLs that want to hear what happens to an account and to all below it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};
use url::Url;

use super::super::Http;
use super::super::answer::success;
use super::super::call::{self, Call};
use super::super::error::{Code, Problem};
use super::custom_headers;
use crate::app::access::Denied;
use crate::app::delivery::Added;
use crate::app::tenancy::details::MASK;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::delivery::Extent;
use crate::domain::destination::{CustomHeader, Destination, Payload, Wants};
use crate::domain::event::Category;
use crate::domain::id::DestinationId;
use crate::domain::instant;
use crate::egress::guard::UrlError;
use crate::egress::signature;
use crate::store::DestinationChange;

/// The fields of `POST /webhooks`; `id` and `disabled` are an update's.
pub(in super::super) const FIELDS: &[&str] =
    &["url", "label", "type", "ordered", "payload", "headers", "id", "disabled"];

/// All of the account's own of which the caller may know.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let webhooks = all(&http, &call).await?;
    Ok(success(StatusCode::OK, "webhooks found", json!({ "webhooks": webhooks })))
}

/// Adds one; the only answer, beside a rotation's, that ever shows its secret. With `id` it changes
/// the one of this id instead.
pub(in super::super) async fn add(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let body = call.body();
    if body.get("id").is_some() {
        return update(&http, &call).await;
    }
    if body.get("disabled").is_some() {
        return Err(Problem::invalid(
            "disabled belongs to an update: send the id of the webhook, too, or leave it out",
        ));
    }
    let category = category(body.required_text("type")?)?;
    may_hear(&call, category)?;
    let label = body.required_text("label")?;
    let url = http.guard.destination(body.required_text("url")?).map_err(refused)?;
    let wants = Wants {
        ordered: body.flag("ordered")?.unwrap_or_default(),
        payload: payload(&call)?.unwrap_or(Payload::Full),
        headers: headers(&http, &call, &[])?.unwrap_or_default(),
    };
    let account = call.account().id;
    let destinations = call.destinations(&http);
    let new = match destinations.add_wanting(account, (url, category), label, wants).await? {
        Added::Created(new) => new,
        Added::Existed(_) => {
            let detail = "this account has a webhook of this url and type already: delete that one \
                          first, or choose another type";
            return Err(Problem::new(Code::Conflict, detail));
        }
    };
    let fields = json!({
        "webhooks": all(&http, &call).await?,
        "webhook": shape(&new, clock(&http)),
        "secret": signature::shown(&new.secret),
    });
    Ok(success(StatusCode::CREATED, "webhook created; its secret is shown this once", fields))
}

/// Changes what is given. Which events it gets, and where, is what it is: that cannot change.
async fn update(http: &Http, call: &Call) -> Result<Response, Problem> {
    let body = call.body();
    let id = body.text("id")?.and_then(call::uuid).map(DestinationId);
    let id = id.ok_or_else(|| Problem::invalid("id is not the id of a webhook"))?;
    let old = in_use(http, call, id).await?;
    let changed = |name: &str| {
        Problem::invalid(format!(
            "{name} cannot change: leave it out, or delete this webhook and create another"
        ))
    };
    if body.text("type")?.is_some_and(|text| text != old.category.as_str()) {
        return Err(changed("type"));
    }
    if let Some(text) = body.text("url")?
        && Url::parse(text).ok().as_ref() != Some(&old.url)
    {
        return Err(changed("url"));
    }
    let change = DestinationChange {
        label: body.text("label")?.map(str::to_owned),
        ordered: body.flag("ordered")?,
        payload: payload(call)?,
        headers: headers(http, call, &old.wants.headers)?,
        disabled: body.flag("disabled")?,
    };
    let new = call.destinations(http).update(call.account().id, id, &change).await?;
    let fields = json!({ "webhooks": all(http, call).await?, "webhook": shape(&new, clock(http)) });
    Ok(success(StatusCode::OK, "webhook updated", fields))
}

/// Removes those that match everything given: a url alone means all its types that the caller may
/// hear.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let url = named(&call, "url")?.map(Url::parse).transpose();
    let url = url.map_err(|_| Problem::invalid("url is not a URL"))?;
    let category = named(&call, "type")?.map(category).transpose()?;
    let id = named(&call, "id")?.map(|text| call::uuid(text).map(DestinationId).ok_or(text));
    let id = id.transpose().map_err(|_| Problem::invalid("id is not the id of a webhook"))?;
    if url.is_none() && id.is_none() {
        return Err(Problem::invalid("name the webhook to delete: by url, or by id"));
    }
    let account = call.account().id;
    let destinations = call.destinations(&http);
    if let Some(id) = id {
        in_use(&http, &call, id).await?;
    }
    let named = category.as_slice();
    for category in named {
        may_hear(&call, *category)?;
    }
    let all_heard: Vec<Category> = heard(&call).collect();
    let among = if named.is_empty() { all_heard.as_slice() } else { named };
    let removed = destinations.remove(account, id, url.as_ref(), Some(among)).await?;
    if removed.is_empty() {
        return Err(Problem::not_found("webhook"));
    }
    let clock = clock(&http);
    let fields = json!({
        "removed": removed.iter().map(|one| shape(one, clock)).collect::<Vec<_>>(),
        "webhooks": all(&http, &call).await?,
    });
    Ok(success(StatusCode::OK, "webhooks deleted", fields))
}

/// Gives one a new secret, shown in this answer alone.
pub(in super::super) async fn rotate(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let end_former = call.body().flag("endFormer")?.unwrap_or_default();
    let id = in_path(&http, &call).await?.id;
    let new = call.destinations(&http).rotate(call.account().id, id, end_former).await?;
    let clock = clock(&http);
    let fields = json!({
        "formerSecretUntil": former_until(&new, clock.now()).map(|at| at.to_string()),
        "webhook": shape(&new, clock),
        "secret": signature::shown(&new.secret),
    });
    let message = match end_former {
        true => "secret rotated; it is shown this once, and no former one signs any more",
        false => "secret rotated; it is shown this once, and the former one signs beside it",
    };
    Ok(success(StatusCode::OK, message, fields))
}

/// Sends one an event of its own.
pub(in super::super) async fn test(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = in_path(&http, &call).await?.id;
    let (event, delivery) = call.destinations(&http).test(call.account(), id).await?;
    let fields = json!({
        "event": { "id": event.to_string(), "event": "webhook.test" },
        "delivery": { "id": delivery.to_string() },
    });
    let message = "test on its way: GET /deliveries/{id} says what becomes of it";
    Ok(success(StatusCode::CREATED, message, fields))
}

/// Sends one again what it missed, or all that was made for it, since some time.
pub(in super::super) async fn replay(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let since = since(&call)?;
    let only = call.body().text("only")?.map(str::parse::<Extent>).transpose();
    let only = only.map_err(|error| Problem::invalid(format!("only: {error}")))?;
    let only = only.unwrap_or(Extent::Failed);
    let id = in_path(&http, &call).await?.id;
    let replay = call.destinations(&http).replay(call.account().id, id, (since, only)).await?;
    let fields = json!({ "replay": {
        "id": replay.to_string(), "since": since.to_string(), "only": only.as_str(),
    } });
    Ok(success(StatusCode::ACCEPTED, "replay accepted", fields))
}

/// The webhook that the path names, of the target's own, in use or removed: one answer for all
/// others, wherever they are.
pub(super) async fn ever_in_path(http: &Http, call: &Call) -> Result<Destination, Problem> {
    let id = DestinationId(call.uuid("id")?);
    let known = call.destinations(http).known(call.account().id, id).await?;
    may_hear(call, known.destination.category)?;
    Ok(known.destination)
}

/// What is told of accounts and members is for administrators, and so are the webhooks that hear it.
pub(super) fn may_hear(call: &Call, category: Category) -> Result<(), Problem> {
    match category == Category::Onboarding && !call.caller().is_administrator() {
        true => Err(Denied::NotAdministrator.into()),
        false => Ok(()),
    }
}

/// The categories of which the caller may know webhooks.
fn heard(call: &Call) -> impl Iterator<Item = Category> {
    Category::ALL.iter().copied().filter(|category| may_hear(call, *category).is_ok())
}

async fn in_path(http: &Http, call: &Call) -> Result<Destination, Problem> {
    in_use(http, call, DestinationId(call.uuid("id")?)).await
}

async fn in_use(http: &Http, call: &Call, id: DestinationId) -> Result<Destination, Problem> {
    let known = call.destinations(http).known(call.account().id, id).await?;
    if known.removed {
        return Err(Problem::not_found("webhook"));
    }
    may_hear(call, known.destination.category)?;
    Ok(known.destination)
}

/// A field that may stand in the query or in the body, but not in both with different values.
fn named<'a>(call: &'a Call, name: &str) -> Result<Option<&'a str>, Problem> {
    match (call.query().get(name), call.body().text(name)?) {
        (Some(one), Some(other)) if one != other => {
            Err(Problem::invalid(format!("{name} differs between query and body: send it once")))
        }
        (one, other) => Ok(one.or(other)),
    }
}

fn category(text: &str) -> Result<Category, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("type: {error}")))
}

fn payload(call: &Call) -> Result<Option<Payload>, Problem> {
    let payload = call.body().text("payload")?.map(str::parse).transpose();
    payload.map_err(|error: String| Problem::invalid(format!("payload: {error}")))
}

/// A moment in the body: a number of seconds, or a text.
fn since(call: &Call) -> Result<Timestamp, Problem> {
    let text = match call.body().get("since") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    instant::parse(&text).ok_or_else(|| {
        Problem::invalid(
            "since must be Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z",
        )
    })
}

/// `[{name: value}, …]`, as relays of v2 have it; `None` where there is no such field.
fn headers(
    http: &Http,
    call: &Call,
    known: &[CustomHeader],
) -> Result<Option<Vec<CustomHeader>>, Problem> {
    let Some(fields) = custom_headers::read(call, "X-Api-Key\": \"…")? else { return Ok(None) };
    Ok(Some(call.destinations(http).headers(fields, known)?))
}

fn refused(error: UrlError) -> Problem {
    Problem::invalid(format!(
        "url: {error}; send the https:// URL of a public host, or ask the operator of this gateway \
         to allow the network of a private one"
    ))
}

fn clock(http: &Http) -> &Clock {
    http.mint.clock()
}

/// Those of the target's own of which the caller may know.
async fn all(http: &Http, call: &Call) -> Result<Vec<Value>, Problem> {
    let mut webhooks = call.destinations(http).list(call.account().id).await?;
    webhooks.retain(|one| may_hear(call, one.category).is_ok());
    let clock = clock(http);
    Ok(webhooks.iter().map(|one| shape(one, clock)).collect())
}

/// Until when some former secret signs beside the one in use.
fn former_until(webhook: &Destination, now: Timestamp) -> Option<Timestamp> {
    webhook.former_secrets.iter().map(|one| one.until).filter(|until| *until > now).max()
}

/// No secret: of a custom header its name, and that it has a value.
fn shape(webhook: &Destination, clock: &Clock) -> Value {
    let masked = |header: &CustomHeader| {
        Value::Object(Map::from_iter([(header.name.clone(), Value::from(MASK))]))
    };
    let date = |at: Option<Timestamp>| at.map(|at| at.to_string());
    let disabled = webhook
        .disabled
        .as_ref()
        .map(|disabled| json!({ "since": disabled.at.to_string(), "reason": disabled.reason }));
    json!({
        "id": webhook.id.to_string(),
        "userId": webhook.account.get(),
        "url": webhook.url.as_str(),
        "label": webhook.label,
        "type": webhook.category.as_str(),
        "timestamp": webhook.created_at.seconds(),
        "publicKey": signature::public_key(&webhook.secret),
        "ordered": webhook.wants.ordered,
        "payload": webhook.wants.payload.as_str(),
        "headers": webhook.wants.headers.iter().map(masked).collect::<Vec<_>>(),
        "disabled": disabled,
        "failures": webhook.health.failures,
        "failingSince": date(webhook.health.failing_since.map(|at| clock.wall_of(at))),
        "secretRotatedAt": date(webhook.secret_rotated_at),
        "formerSecretUntil": date(former_until(webhook, clock.now())),
    })
}
