//! `/email/inboundPolicy`: who may write to an Agent.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::domain::id::AccountId;
use crate::domain::policy::{Mode, Policy};

/// The policy.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let agent = call.account().id;
    let policy = call.tenancy(&http).policy(agent).await?;
    Ok(success(StatusCode::OK, "inbound policy found", shape(agent, &policy)))
}

/// Sets the mode.
pub(in super::super) async fn set(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let mode = call.body().required_text("mode")?.parse::<Mode>();
    let mode = mode.map_err(|error| Problem::invalid(format!("mode: {error}")))?;
    let agent = call.account().id;
    let policy = call.tenancy(&http).set_mode(agent, mode).await?;
    Ok(success(StatusCode::OK, "inbound policy set", shape(agent, &policy)))
}

fn shape(agent: AccountId, policy: &Policy) -> Value {
    json!({
        "policy": {
            "accountId": agent.get(),
            "mode": policy.mode.as_str(),
            "allowlistCount": policy.allowlist_count,
            "updatedAt": policy.updated_at.to_string(),
        },
    })
}
