//! CORS (Fetch, "CORS protocol"): pages of origins named by the operator may read the API's
//! responses; by default none may (threats E13).

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, HeaderName};
use axum::http::{HeaderValue, Method};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

/// How long a browser may cache a preflight.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Answers preflights and marks responses for pages of these origins (`https://app.example.com`),
/// which `config` has checked; None without origins. Such requests carry no cookie or password: the
/// key is in the query, or for MCP in Authorization, which `*` does not cover.
pub(in crate::http) fn layer(origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<_> =
        origins.iter().filter_map(|one| HeaderValue::try_from(one).ok()).collect();
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allow_headers(AllowHeaders::list([HeaderName::from_static("*"), AUTHORIZATION]))
        .expose_headers(Any)
        .max_age(REMEMBERED);
    (!origins.is_empty()).then(|| layer.allow_origin(AllowOrigin::list(origins)))
}
