//! `/features`: what an account may use, and what those above give it or take away.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::query::quoted;
use super::super::state::Http;
use crate::domain::feature::{Feature, Held};

/// How the target stands with every feature.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    Ok(success(StatusCode::OK, "features found", all(&http, &call).await?))
}

/// Gives, denies, or leaves to the default (null) what the body names, to an account below the
/// caller's.
pub(in super::super) async fn assign(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let wanted = wanted(&call)?;
    http.use_cases.access.may_assign(call.caller(), call.target(), &wanted).await?;
    call.apps(&http).assign_features(call.account().id, &wanted).await?;
    Ok(success(StatusCode::OK, "features assigned", all(&http, &call).await?))
}

fn wanted(call: &Call) -> Result<Vec<(Feature, Option<bool>)>, Problem> {
    const SHAPE: &str = "field features must be an object of features, each true, false or null \
                         (the default)";
    let fields = call.body().get("features").and_then(Value::as_object);
    let fields = fields.filter(|fields| !fields.is_empty());
    let fields = fields.ok_or_else(|| Problem::invalid(SHAPE))?;
    let one = |(name, value): (&String, &Value)| {
        let known: Vec<&str> = Feature::ALL.iter().map(|feature| feature.as_str()).collect();
        let feature = name.parse::<Feature>().map_err(|_| {
            let known = known.join(", ");
            Problem::invalid(format!("there is no feature {}: expected {known}", quoted(name)))
        })?;
        match value {
            Value::Null => Ok((feature, None)),
            Value::Bool(granted) => Ok((feature, Some(*granted))),
            _ => Err(Problem::invalid(SHAPE)),
        }
    };
    fields.iter().map(one).collect()
}

/// `enabled` is what counts; `granted` what was assigned to the account itself (null: nothing),
/// `heldAbove` whether its parent has it.
async fn all(http: &Http, call: &Call) -> Result<Value, Problem> {
    let held = http.use_cases.access.features(call.account()).await?;
    let rules = http.use_cases.apps.rules();
    let shape = |one: &Held| {
        let rule = rules.feature(one.feature);
        json!({
            "feature": one.feature.as_str(),
            "title": rule.title,
            "description": rule.description,
            "enabled": one.enabled,
            "granted": one.granted,
            "default": rule.default,
            "heldAbove": one.above,
        })
    };
    let features: Vec<Value> = held.iter().map(shape).collect();
    Ok(json!({ "accountId": call.account().id.get(), "features": features }))
}
