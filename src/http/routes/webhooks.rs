//! `/webhooks`: the URLs that want to hear what happens to an account and to all below it.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use url::Url;

use super::super::Http;
use super::super::answer::success;
use super::super::call::{self, Call};
use super::super::error::{Code, Problem};
use crate::app::access::Denied;
use crate::app::delivery::Added;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::DestinationId;
use crate::egress::guard::UrlError;
use crate::egress::signature;

/// All of the account's own.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let webhooks = all(&http, &call).await?;
    Ok(success(StatusCode::OK, "webhooks found", json!({ "webhooks": webhooks })))
}

/// Adds one; the only answer that ever shows its secret.
pub(in super::super) async fn add(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let body = call.body();
    let category = category(body.required_text("type")?)?;
    // It tells of accounts and members, which only administrators may see to.
    if category == Category::Onboarding && !call.caller().is_administrator() {
        return Err(Denied::NotAdministrator.into());
    }
    let label = body.required_text("label")?;
    let url = http.guard.destination(body.required_text("url")?).map_err(refused)?;
    let account = call.account().id;
    let new = match call.destinations(&http).add(account, url, category, label).await? {
        Added::Created(new) => new,
        Added::Existed(_) => {
            let detail = "this account has a webhook of this url and type already: delete that one \
                          first, or choose another type";
            return Err(Problem::new(Code::Conflict, detail));
        }
    };
    let fields = json!({
        "webhooks": all(&http, &call).await?,
        "webhook": shape(&new),
        "secret": signature::shown(&new.secret),
    });
    Ok(success(StatusCode::CREATED, "webhook created; its secret is shown this once", fields))
}

/// Removes those that match everything given: a url alone means all its types.
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
    let removed = destinations.remove(account, id, url.as_ref(), category).await?;
    if removed.is_empty() {
        return Err(Problem::not_found("webhook"));
    }
    let fields = json!({
        "removed": removed.iter().map(shape).collect::<Vec<_>>(),
        "webhooks": all(&http, &call).await?,
    });
    Ok(success(StatusCode::OK, "webhooks deleted", fields))
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

fn refused(error: UrlError) -> Problem {
    Problem::invalid(format!(
        "url: {error}; send the https:// URL of a public host, or ask the operator of this gateway \
         to allow the network of a private one"
    ))
}

async fn all(http: &Http, call: &Call) -> Result<Vec<Value>, Problem> {
    let webhooks = call.destinations(http).list(call.account().id).await?;
    Ok(webhooks.iter().map(shape).collect())
}

fn shape(webhook: &Destination) -> Value {
    json!({
        "id": webhook.id.to_string(),
        "userId": webhook.account.get(),
        "url": webhook.url.as_str(),
        "label": webhook.label,
        "type": webhook.category.as_str(),
        "timestamp": webhook.created_at.seconds(),
        "publicKey": signature::public_key(&webhook.secret),
    })
}
