//! `/webhooks`: URLs that get the events of an account and of all below it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use url::Url;

use crate::app::access::Denied;
use crate::app::delivery::webhook_record::{CustomHeader, Webhook};
use crate::app::delivery::{Added, DestinationDraft};
use crate::domain::destination::{Destination, Payload, Wants};
use crate::domain::event::Category;
use crate::domain::id::DestinationId;
use crate::egress::signature;
use crate::http::error::{Code, Problem};
use crate::http::typed::{Call, Either, missing, refused_url, successes, wrong};
use crate::store::DestinationChange;
use crate::wire::{Id, Word};

const HOOK: &str = "https://hooks.example/gatepost";

/// Lists the webhooks of an account
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    Ok(Listed { webhooks: list_all(&call).await? })
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

/// Creates a webhook, or changes the one with `id`. Only this answer and a rotation's show a
/// secret.
pub async fn keep(call: Call, request: Keep) -> Result<Either<Created, Updated>, Problem> {
    match request.id {
        Some(Id(id)) => update(&call, DestinationId(id), request).await.map(Either::That),
        None => create(&call, request).await.map(Either::This),
    }
}

async fn create(call: &Call, request: Keep) -> Result<Created, Problem> {
    if request.disabled.is_some() {
        return Err(wrong(
            "disabled",
            "is only for updates: send the id of the webhook, too, or leave it out",
        ));
    }
    let (Some(url), Some(label), Some(Word(category))) =
        (&request.url, &request.label, request.r#type)
    else {
        let url = request.url.is_none().then(|| missing("url"));
        let label = request.label.is_none().then(|| missing("label"));
        let category = request.r#type.is_none().then(|| missing("type"));
        return Err(Problem::mistaken([url, label, category].into_iter().flatten().collect()));
    };
    check_may_see(call, category)?;
    let url = call.http.urls.destination(url).await;
    let url = url.map_err(|error| refused_url("url", &error))?;
    let destinations = call.destinations();
    let headers =
        request.headers.map(CustomHeader::pairs).map(|given| destinations.headers(given, &[]));
    let wants = Wants {
        ordered: request.ordered.unwrap_or_default(),
        payload: request.payload.map_or(Payload::Full, |Word(payload)| payload),
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
    let secret = signature::secret_text(&new.secret);
    Ok(Created { webhooks: list_all(call).await?, webhook: shape(call, &new), secret })
}

/// Changes the given settings. Events and URL identify a webhook, so they cannot change.
async fn update(call: &Call, id: DestinationId, request: Keep) -> Result<Updated, Problem> {
    let old = find_in_use(call, id).await?;
    let changed = |name: &str| {
        wrong(name, "cannot change: leave it out, or delete this webhook and create another")
    };
    if request.r#type.is_some_and(|Word(category)| category != old.category) {
        return Err(changed("type"));
    }
    if request.url.is_some_and(|text| Url::parse(&text).ok().as_ref() != Some(&old.url)) {
        return Err(changed("url"));
    }
    let destinations = call.destinations();
    let headers = request.headers.map(CustomHeader::pairs);
    let headers = headers.map(|given| destinations.headers(given, &old.wants.headers));
    let change = DestinationChange {
        label: request.label,
        ordered: request.ordered,
        payload: request.payload.map(|Word(payload)| payload),
        headers: headers.transpose()?,
        disabled: request.disabled,
    };
    let new = destinations.update(call.account().id, id, &change).await?;
    Ok(Updated { webhooks: list_all(call).await?, webhook: shape(call, &new) })
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

/// Removes the webhooks that match everything given: a url alone means all its types that the
/// caller may know.
pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let url = request.url.as_deref().map(Url::parse).transpose();
    let url = url.map_err(|_| wrong("url", "is not a URL"))?;
    let id = request.id.map(|Id(id)| DestinationId(id));
    if url.is_none() && id.is_none() {
        return Err(Problem::invalid("name the webhook to delete: by url, or by id"));
    }
    let account = call.account().id;
    let destinations = call.destinations();
    if let Some(id) = id {
        find_in_use(&call, id).await?;
    }
    let among = match request.r#type {
        Some(Word(category)) => {
            check_may_see(&call, category)?;
            vec![category]
        }
        None => {
            let all = Category::ALL.iter().copied();
            all.filter(|category| check_may_see(&call, *category).is_ok()).collect()
        }
    };
    let removed = destinations.remove(account, id, url.as_ref(), &among).await?;
    if removed.is_empty() {
        return Err(Problem::not_found("webhook"));
    }
    let removed = removed.iter().map(|one| shape(&call, one)).collect();
    Ok(Removed { removed, webhooks: list_all(&call).await? })
}

successes! {
    Listed {
        /// All webhooks of the account.
        webhooks: Vec<Webhook>,
    } = OK "webhooks found";
    Created {
        /// All webhooks of the account.
        webhooks: Vec<Webhook>,
        webhook: Webhook,
        /// The secret that signs its deliveries; shown only in this answer.
        #[schemars(example = &"whsec_…")]
        secret: String,
    } = CREATED "webhook created; its secret is shown only once";
    Updated {
        /// All webhooks of the account.
        webhooks: Vec<Webhook>,
        webhook: Webhook,
    } = OK "webhook updated";
    Removed {
        /// The removed webhooks.
        removed: Vec<Webhook>,
        /// All remaining webhooks of the account.
        webhooks: Vec<Webhook>,
    } = OK "webhooks deleted";
}

/// Returns the target's own webhook named by the path, in use or removed. The error is the same for
/// all other ids.
pub(super) async fn find_ever_used(call: &Call, Id(id): Id) -> Result<Destination, Problem> {
    let id = DestinationId(id);
    let known = call.destinations().known(call.account().id, id).await?;
    check_may_see(call, known.destination.category)?;
    Ok(known.destination)
}

/// Fails for webhooks about accounts and members, unless the caller is an administrator.
pub(super) fn check_may_see(call: &Call, category: Category) -> Result<(), Problem> {
    match category == Category::Onboarding && !call.caller.is_administrator() {
        true => Err(Denied::NotAdministrator.into()),
        false => Ok(()),
    }
}

pub(super) async fn find_in_use(call: &Call, id: DestinationId) -> Result<Destination, Problem> {
    let known = call.destinations().known(call.account().id, id).await?;
    if known.removed {
        return Err(Problem::not_found("webhook"));
    }
    check_may_see(call, known.destination.category)?;
    Ok(known.destination)
}

fn shape(call: &Call, webhook: &Destination) -> Webhook {
    Webhook::of(webhook, call.http.mint.clock())
}

/// All webhooks of the target that the caller may know.
async fn list_all(call: &Call) -> Result<Vec<Webhook>, Problem> {
    let mut webhooks = call.destinations().list(call.account().id).await?;
    webhooks.retain(|one| check_may_see(call, one.category).is_ok());
    Ok(webhooks.iter().map(|one| shape(call, one)).collect())
}
