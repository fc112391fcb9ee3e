//! Health checks without a key; the responses reveal no internals.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::answer::file::success;
use crate::http::error::Problem;
use crate::http::readiness::CheckResult;
use crate::http::state::Http;

/// The process runs.
pub(in crate::http) async fn alive() -> Response {
    success(StatusCode::OK, "alive", json!({}))
}

/// Whether mail and changes can be accepted: each check, its cause if it fails, and since when.
pub(in crate::http) async fn ready(State(http): State<Arc<Http>>) -> Result<Response, Problem> {
    let told = http.readiness.check(http.shutdown.is_stopping()).await;
    let checks = told.iter().map(shown).collect();
    let faults = told.iter().filter_map(|one| Some((one.name, one.fault.as_ref()?)));
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() {
        return Ok(success(StatusCode::OK, "ready", json!({ "checks": Value::Array(checks) })));
    }
    let plain: Vec<_> =
        faults.iter().map(|(name, fault)| format!("{name}: {}", fault.cause)).collect();
    let inner: Vec<_> =
        faults.iter().map(|(name, fault)| format!("{name}: {}", fault.detail)).collect();
    let problem = Problem::unavailable(inner.join("; "));
    Err(Problem { detail: format!("not ready: {}", plain.join(", ")), checks, ..problem })
}

fn shown(told: &CheckResult) -> Value {
    json!({
        "name": told.name,
        "ok": told.fault.is_none(),
        "cause": told.fault.as_ref().map(|fault| fault.cause),
        "since": told.since.to_string(),
    })
}
