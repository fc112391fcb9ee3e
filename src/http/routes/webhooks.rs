//! `/webhooks`: URLs that get the events of an account and of all below it.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use url::Url;

use crate::app::access::Denied;
use crate::app::delivery::webhook_record::{CustomHeader, Webhook};
use crate::app::delivery::{Added, DestinationDraft};
use crate::domain::clock::Clock;
use crate::domain::destination::{Destination, Payload, Wants};
use crate::domain::event::Category;
use crate::domain::id::DestinationId;
use crate::egress::signature;
use crate::http::error::{Code, Problem};
use crate::http::request::call::Call;
use crate::http::state::Http;
use crate::http::typed::{Either, needed, refused_url, successes, wrong};
use crate::store::DestinationChange;
use crate::wire::{Id, Word};

const HOOK: &str = "https://hooks.example/gatepost";

/// Lists the webhooks of an account
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

/// Webhooks of the account that the caller may know.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// All webhooks of the account.
    webhooks: Vec<Webhook>,
}

pub async fn list(http: Arc<Http>, call: Call, _: List) -> Result<Listed, Problem> {
    Ok(Listed { webhooks: all(&http, &call).await? })
}

/// Creates or changes a webhook
///
/// Without `id` a webhook is created, and url, label and type are required.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "url": HOOK, "label": "CRM", "type": "incoming" }), extend("minProperties" = 1))]
pub struct Keep {
    /// Its https URL.
    #[schemars(example = &HOOK)]
    url: Option<String>,
    /// Its name, for people.
    label: Option<String>,
    /// The events that it gets.
    r#type: Option<Word<Category>>,
    /// Whether it gets each room in order.
    ordered: Option<bool>,
    /// How much of each event is sent.
    payload: Option<Word<Payload>>,
    /// Headers that are sent with each attempt.
    headers: Option<Vec<CustomHeader>>,
    /// The webhook to change; without it one is created.
    id: Option<Id>,
    /// For a change: whether to stop sending to it.
    disabled: Option<bool>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Created {
    /// All webhooks of the account.
    webhooks: Vec<Webhook>,
    webhook: Webhook,
    /// The secret that signs its deliveries; shown only in this answer.
    #[schemars(example = &"whsec_…")]
    secret: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Updated {
    /// All webhooks of the account.
    webhooks: Vec<Webhook>,
    webhook: Webhook,
}

/// Creates a webhook, or changes the one with `id`. Only this answer and a rotation's show a
/// secret.
pub async fn keep(
    http: Arc<Http>,
    call: Call,
    asked: Keep,
) -> Result<Either<Created, Updated>, Problem> {
    match asked.id {
        Some(Id(id)) => update(&http, &call, DestinationId(id), asked).await.map(Either::That),
        None => create(&http, &call, asked).await.map(Either::This),
    }
}

async fn create(http: &Http, call: &Call, asked: Keep) -> Result<Created, Problem> {
    if asked.disabled.is_some() {
        return Err(wrong(
            "disabled",
            "is only for updates: send the id of the webhook, too, or leave it out",
        ));
    }
    let (Some(url), Some(label), Some(Word(category))) = (&asked.url, &asked.label, asked.r#type)
    else {
        let there = (asked.url.is_some(), asked.label.is_some(), asked.r#type.is_some());
        return Err(needed(&[("url", there.0), ("label", there.1), ("type", there.2)]));
    };
    may_hear(call, category)?;
    let url = http.guard.destination(url).map_err(|error| refused_url("url", &error))?;
    let destinations = call.destinations(http);
    let headers =
        asked.headers.map(CustomHeader::pairs).map(|given| destinations.headers(given, &[]));
    let wants = Wants {
        ordered: asked.ordered.unwrap_or_default(),
        payload: asked.payload.map_or(Payload::Full, |Word(payload)| payload),
        headers: headers.transpose()?.unwrap_or_default(),
    };
    let draft = DestinationDraft { url, category, label, wants };
    let new = match destinations.add_with(call.account().id, draft).await? {
        Added::Created(new) => new,
        Added::Existed(_) => {
            let detail = "this account already has a webhook with this url and type: delete that \
                          one first, or choose another type";
            return Err(Problem::new(Code::Conflict, detail));
        }
    };
    let secret = signature::shown(&new.secret);
    Ok(Created {
        webhooks: all(http, call).await?,
        webhook: Webhook::of(&new, clock(http)),
        secret,
    })
}

/// Changes the given settings. Events and URL identify a webhook, so they cannot change.
async fn update(
    http: &Http,
    call: &Call,
    id: DestinationId,
    asked: Keep,
) -> Result<Updated, Problem> {
    let old = in_use(http, call, id).await?;
    let changed = |name: &str| {
        wrong(name, "cannot change: leave it out, or delete this webhook and create another")
    };
    if asked.r#type.is_some_and(|Word(category)| category != old.category) {
        return Err(changed("type"));
    }
    if asked.url.is_some_and(|text| Url::parse(&text).ok().as_ref() != Some(&old.url)) {
        return Err(changed("url"));
    }
    let destinations = call.destinations(http);
    let headers = asked.headers.map(CustomHeader::pairs);
    let headers = headers.map(|given| destinations.headers(given, &old.wants.headers));
    let change = DestinationChange {
        label: asked.label,
        ordered: asked.ordered,
        payload: asked.payload.map(|Word(payload)| payload),
        headers: headers.transpose()?,
        disabled: asked.disabled,
    };
    let new = destinations.update(call.account().id, id, &change).await?;
    Ok(Updated { webhooks: all(http, call).await?, webhook: Webhook::of(&new, clock(http)) })
}

/// Removes webhooks
///
/// Removes all that match: a url alone means all its types. Name it in the query or in the body.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(example = json!({ "url": HOOK }))]
pub struct Remove {
    /// Its https URL.
    #[schemars(example = &HOOK)]
    url: Option<String>,
    /// Only of this type.
    r#type: Option<Word<Category>>,
    /// The webhook.
    id: Option<Id>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Removed {
    /// The removed webhooks.
    removed: Vec<Webhook>,
    /// All remaining webhooks of the account.
    webhooks: Vec<Webhook>,
}

/// Removes the webhooks that match everything given: a url alone means all its types that the
/// caller may know.
pub async fn remove(http: Arc<Http>, call: Call, asked: Remove) -> Result<Removed, Problem> {
    let url = asked.url.as_deref().map(Url::parse).transpose();
    let url = url.map_err(|_| wrong("url", "is not a URL"))?;
    let id = asked.id.map(|Id(id)| DestinationId(id));
    if url.is_none() && id.is_none() {
        return Err(Problem::invalid("name the webhook to delete: by url, or by id"));
    }
    let account = call.account().id;
    let destinations = call.destinations(&http);
    if let Some(id) = id {
        in_use(&http, &call, id).await?;
    }
    let among = match asked.r#type {
        Some(Word(category)) => {
            may_hear(&call, category)?;
            vec![category]
        }
        None => heard(&call).collect(),
    };
    let removed = destinations.remove(account, id, url.as_ref(), Some(&among)).await?;
    if removed.is_empty() {
        return Err(Problem::not_found("webhook"));
    }
    let clock = clock(&http);
    let removed = removed.iter().map(|one| Webhook::of(one, clock)).collect();
    Ok(Removed { removed, webhooks: all(&http, &call).await? })
}

successes! {
    Listed = OK "webhooks found";
    Created = CREATED "webhook created; its secret is shown only once";
    Updated = OK "webhook updated";
    Removed = OK "webhooks deleted";
}

/// Returns the target's own webhook named by the path, in use or removed. The error is the same for
/// all other ids.
pub(super) async fn ever_used(
    http: &Http,
    call: &Call,
    Id(id): Id,
) -> Result<Destination, Problem> {
    let id = DestinationId(id);
    let known = call.destinations(http).known(call.account().id, id).await?;
    may_hear(call, known.destination.category)?;
    Ok(known.destination)
}

/// Fails for webhooks about accounts and members, unless the caller is an administrator.
pub(super) fn may_hear(call: &Call, category: Category) -> Result<(), Problem> {
    match category == Category::Onboarding && !call.caller().is_administrator() {
        true => Err(Denied::NotAdministrator.into()),
        false => Ok(()),
    }
}

/// The categories of webhooks that the caller may know.
fn heard(call: &Call) -> impl Iterator<Item = Category> {
    Category::ALL.iter().copied().filter(|category| may_hear(call, *category).is_ok())
}

pub(super) async fn in_use(
    http: &Http,
    call: &Call,
    id: DestinationId,
) -> Result<Destination, Problem> {
    let known = call.destinations(http).known(call.account().id, id).await?;
    if known.removed {
        return Err(Problem::not_found("webhook"));
    }
    may_hear(call, known.destination.category)?;
    Ok(known.destination)
}

pub(super) fn clock(http: &Http) -> &Clock {
    http.mint.clock()
}

/// All webhooks of the target that the caller may know.
async fn all(http: &Http, call: &Call) -> Result<Vec<Webhook>, Problem> {
    let mut webhooks = call.destinations(http).list(call.account().id).await?;
    webhooks.retain(|one| may_hear(call, one.category).is_ok());
    let clock = clock(http);
    Ok(webhooks.iter().map(|one| Webhook::of(one, clock)).collect())
}
