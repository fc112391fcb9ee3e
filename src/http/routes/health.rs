//! The two questions that need no key; their answers tell nothing but yes or no.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::super::Http;
use super::super::answer::success;
use super::super::error::Problem;

/// The process runs.
pub(in super::super) async fn alive() -> Response {
    success(StatusCode::OK, "alive", json!({}))
}

/// The store answers, so that mail and requests can be taken.
pub(in super::super) async fn ready(State(http): State<Arc<Http>>) -> Result<Response, Problem> {
    http.readiness.check().await.map_err(Problem::unavailable)?;
    Ok(success(StatusCode::OK, "ready", json!({})))
}
