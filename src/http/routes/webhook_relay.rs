//! `/webhookRelay`: the applications that are asked before a message is processed, and the ways in of
//! providers (contract §6).

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::Http;
use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::custom_headers;
use crate::app::relay::verification::{self, Given};
use crate::app::relay::{Configured, InboundWay, RelayChange};
use crate::app::tenancy::details::MASK;
use crate::domain::relay::{CustomHeader, Relay, RelayAttempt, RelayType, Verification};
use crate::egress::signature;

/// The fields of `POST /webhookRelay/{type}`.
pub(in super::super) const FIELDS: &[&str] =
    &["url", "timeout", "headers", "successStatusCodes", "rotateInboundKey", "verification"];

/// What can be set up.
pub(in super::super) async fn types(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let relays = call.relays(&http);
    let told = |(kind, description): &(RelayType, &str)| json!({ "name": kind.as_str(), "description": description });
    let types: Vec<Value> = relays.types().iter().map(told).collect();
    Ok(success(StatusCode::OK, "relay types found", json!({ "types": types })))
}

/// All that the account has itself.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let configured = call.relays(&http).list(call.account().id).await?;
    let configs: Vec<Value> = configured.iter().map(|one| shape(one).into()).collect();
    Ok(success(StatusCode::OK, "relays found", json!({ "configs": configs })))
}

/// What it has of one type, with the last attempts.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let kind = kind(&call)?;
    let config = config(&http, &call, kind).await?;
    Ok(success(StatusCode::OK, "relay found", json!({ "config": config })))
}

/// Sets one, or changes the way in of its provider. The answer that makes a relay is the only one
/// that ever shows its secret.
pub(in super::super) async fn set(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let kind = kind(&call)?;
    let body = call.body();
    let url = body.text("url")?.map(|text| http.guard.destination(text)).transpose();
    let url = url.map_err(|error| {
        Problem::invalid(format!(
            "url: {error}; send the https:// URL of your application, or ask the operator of this \
             gateway to allow the network of a private one"
        ))
    })?;
    let change = RelayChange {
        url,
        timeout: body.number("timeout")?.map(Duration::from_millis),
        headers: custom_headers::read(&call, "Authorization\": \"Bearer …")?,
        success: codes(&call)?,
        verification: given(&call)?,
        rotate_key: body.flag("rotateInboundKey")?.unwrap_or_default(),
    };
    let set = call.relays(&http).set(call.account().id, kind, &change).await?;
    let config = config(&http, &call, kind).await?;
    let secret = set.relay.as_ref().filter(|_| set.is_new);
    let message = match secret {
        Some(_) => "relay set; its secret is shown this once",
        None if set.relay.is_none() => "way in set",
        None => "relay set",
    };
    let fields = match secret {
        Some(relay) => json!({ "config": config, "secret": signature::shown(&relay.secret) }),
        None => json!({ "config": config }),
    };
    Ok(success(StatusCode::OK, message, fields))
}

/// Removes the hop, and nothing else, at once.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let kind = kind(&call)?;
    call.relays(&http).remove(call.account().id, kind).await?;
    let message = "relay deleted: what comes in is processed without it from now on";
    Ok(success(StatusCode::OK, message, json!({})))
}

fn kind(call: &Call) -> Result<RelayType, Problem> {
    call.path("type").parse().map_err(|_| Problem::not_found("relay type"))
}

async fn config(http: &Http, call: &Call, kind: RelayType) -> Result<Value, Problem> {
    let relays = call.relays(http);
    let configured = relays.show(call.account().id, kind).await?;
    let attempts = match &configured.relay {
        Some(relay) => relays.attempts(relay.id).await?,
        None => Vec::new(),
    };
    let mut config = shape(&configured);
    config.insert("attempts".to_owned(), attempts.iter().map(attempt).collect());
    Ok(config.into())
}

fn codes(call: &Call) -> Result<Option<Vec<u16>>, Problem> {
    let Some(value) = call.body().get("successStatusCodes") else { return Ok(None) };
    let code = |item: &Value| item.as_u64().and_then(|code| u16::try_from(code).ok());
    let codes = value.as_array().and_then(|items| items.iter().map(code).collect());
    codes.map(Some).ok_or_else(|| {
        Problem::invalid("successStatusCodes must be an array of whole numbers, such as [200, 202]")
    })
}

fn given(call: &Call) -> Result<Option<Given>, Problem> {
    let Some(value) = call.body().get("verification") else { return Ok(None) };
    let field = |(name, value): (&String, &Value)| match value {
        Value::Null => Some((name.clone(), None)),
        Value::String(text) => Some((name.clone(), Some(text.clone()))),
        _ => None,
    };
    let fields = value.as_object().and_then(|fields| fields.iter().map(field).collect());
    fields.map(Some).ok_or_else(|| {
        Problem::invalid("verification must be an object of texts, such as {\"signingKey\": \"…\"}")
    })
}

/// No secret but the inbound key, which its account gives to its provider: of a header its name, and
/// that it has a value.
fn shape(configured: &Configured) -> Map<String, Value> {
    let Configured { kind, relay, way, is_new: _ } = configured;
    let masked = |header: &CustomHeader| {
        Value::Object(Map::from_iter([(header.name.clone(), Value::from(MASK))]))
    };
    let headers = |relay: &Relay| relay.headers.iter().map(masked).collect::<Vec<_>>();
    let timeout = |relay: &Relay| u64::try_from(relay.timeout.as_millis()).unwrap_or(u64::MAX);
    let relay = relay.as_ref();
    let Value::Object(mut config) = json!({
        "type": kind.as_str(),
        "url": relay.map(|relay| relay.url.as_str()),
        "timeout": relay.map(timeout),
        "headers": relay.map(headers).unwrap_or_default(),
        "successStatusCodes": relay.map(|relay| relay.success.clone()).unwrap_or_default(),
    }) else {
        return Map::new();
    };
    let Some(InboundWay { url, verification, .. }) = way else { return config };
    if let Some(url) = url {
        let url = String::from_utf8_lossy(url.expose()).into();
        config.insert("inboundUrl".to_owned(), url);
    }
    if let Some(verification) = verification {
        config.insert("verification".to_owned(), verified_by(verification));
    }
    config
}

fn verified_by(verification: &Verification) -> Value {
    let shown = verification::shown(verification).into_iter();
    shown.map(|(name, value)| (name.to_owned(), Value::from(value))).collect::<Map<_, _>>().into()
}

fn attempt(attempt: &RelayAttempt) -> Value {
    json!({
        "id": attempt.id.to_string(),
        "accountId": attempt.account.get(),
        "date": attempt.at.to_string(),
        "outcome": attempt.outcome.as_str(),
        "status": attempt.status,
        "latencyMs": u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
        "error": attempt.error,
    })
}
