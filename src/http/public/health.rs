//! Health checks without a key; the responses reveal no internals.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use crate::http::answer::file::success;
use crate::http::error::Problem;
use crate::http::readiness::CheckResult;
use crate::http::state::Http;

pub(in crate::http) async fn alive() -> Response {
    success("alive", json!({}))
}

/// Whether mail and changes can be accepted: each check, its cause if it fails, and since when. 503
/// if one fails.
pub(in crate::http) async fn ready(State(http): State<Arc<Http>>) -> Result<Response, Problem> {
    let results = http.readiness.check(http.shutdown.is_stopping()).await;
    let checks = results.iter().map(shown).collect();
    let faults = results.iter().filter_map(|one| Some((one.name, one.fault.as_ref()?)));
    let faults: Vec<_> = faults.collect();
    if faults.is_empty() {
        return Ok(success("ready", json!({ "checks": Value::Array(checks) })));
    }
    let plain: Vec<_> =
        faults.iter().map(|(name, fault)| format!("{name}: {}", fault.cause)).collect();
    let inner: Vec<_> =
        faults.iter().map(|(name, fault)| format!("{name}: {}", fault.detail)).collect();
    let problem = Problem::unavailable(inner.join("; "));
    Err(Problem { detail: format!("not ready: {}", plain.join(", ")), checks, ..problem })
}

fn shown(result: &CheckResult) -> Value {
    json!({
        "name": result.name,
        "ok": result.fault.is_none(),
        "cause": result.fault.as_ref().map(|fault| fault.cause),
        "since": result.since.to_string(),
    })
}
