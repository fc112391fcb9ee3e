//! `/computer/accounts/{targetAccountId}/config`: what a computer is configured with.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::computers::{object, revision};
use crate::app::computers::Computers;
use crate::domain::computer::Computer;

/// As it was written, and what is in effect; a mask in the place of each secret.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let found = call.computers(&http).show(call.account().id).await?;
    Ok(success(StatusCode::OK, "configuration found", shape(&found)))
}

/// The JSON Schema of a configuration, whether there is one or not.
pub(in super::super) async fn schema(_: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let fields = json!({
        "targetAccountId": call.account().id.get(),
        "schema": Computers::schema(),
    });
    Ok(success(StatusCode::OK, "schema of configurations", fields))
}

/// Merges a patch into the configuration of the revision that the request names.
pub(in super::super) async fn patch(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let missing = |name: &str, shape: &str| {
        Problem::invalid(format!("field {name} is missing: send {shape}"))
    };
    let revision = revision(&call)?;
    let revision = revision.ok_or_else(|| missing("revision", "the one of GET …/config"))?;
    let patch = object(&call, "patch")?;
    let patch = patch.ok_or_else(|| missing("patch", "an object of what is to change"))?;
    let replaced = call.body().texts("replacePaths")?.unwrap_or_default();
    let computers = call.computers(&http);
    let new = computers.patch(call.account().id, revision, (&patch, &replaced)).await?;
    Ok(success(StatusCode::OK, "configuration patched", shape(&new)))
}

fn shape(computer: &Computer) -> Value {
    json!({
        "targetAccountId": computer.agent.get(),
        "agentIds": [computer.agent.get()],
        "revision": computer.revision,
        "authoredConfig": computer.config.authored,
        "effectiveConfig": Computers::effective(computer),
    })
}
