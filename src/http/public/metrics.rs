//! `/metrics`, on a listener of its own: for Prometheus, without a key.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};

use crate::http::error::Problem;
use crate::http::passage::observe::Trace;
use crate::http::state::Http;

/// Prometheus' exposition format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Shows all metrics of this gateway.
pub(in crate::http) async fn metrics(
    State(http): State<Arc<Http>>,
    Extension(trace): Extension<Trace>,
) -> Response {
    trace.set_route("/metrics");
    let system = &http.use_cases.system;
    for check in http.readiness.check(http.shutdown.is_stopping()).await {
        system.metrics.set_ready(check.name, check.fault.is_none());
    }
    match system.text().await {
        Ok(text) => ([(CONTENT_TYPE, TEXT)], text).into_response(),
        Err(error) => Problem::internal(error).into_response(),
    }
}
