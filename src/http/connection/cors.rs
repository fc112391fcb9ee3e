//! Pages of other origins: those that the operator names may read what the API answers (Fetch,
//! "CORS protocol"); by default none may (threats E13).

use std::time::Duration;

use axum::http::{HeaderValue, Method};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

/// How long a browser may remember a preflight.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Answers preflights, and marks answers, for pages of these origins (`https://app.example.com`);
/// `None` where there are none. No cookie or password goes with such a request: its key is in its query.
pub(in crate::http) fn layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<_> =
        origins.iter().filter_map(|one| HeaderValue::try_from(one).ok()).collect();
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(Any)
        .expose_headers(Any)
        .max_age(REMEMBERED);
    (!origins.is_empty()).then(|| layer.allow_origin(AllowOrigin::list(origins)))
}
