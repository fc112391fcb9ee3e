//! The description of the API: `/api/v2/openapi.json`, `/docs`, and the links at `/`. No key is
//! needed. It is generated once and is the same for everybody.

use std::sync::Arc;

use axum::extract::State;
use axum::http::Uri;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use crate::http::error::{Code, NOTHING_HERE, Problem};
use crate::http::openapi;
use crate::http::operation::BASE;
use crate::http::state::Described;
use crate::http::state::Http;

/// Path of the document.
pub(in crate::http) const OPENAPI: &str = "/api/v2/openapi.json";

const JSON: [(HeaderName, HeaderValue); 1] =
    [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];

/// Links, for `/` and `/api/v2`.
pub(in crate::http) async fn here() -> Response {
    let places = json!({
        "name": "Gatepost",
        "version": env!("CARGO_PKG_VERSION"),
        "api": BASE,
        "docs": "/docs",
        "openapi": OPENAPI,
        "alive": "/healthz",
        "ready": "/readyz",
    });
    (JSON, places.to_string()).into_response()
}

pub(in crate::http) async fn openapi(State(http): State<Arc<Http>>) -> Response {
    let described = described(&http);
    (JSON, described.document.clone()).into_response()
}

/// The policy of a page: styles, scripts and requests go only to this server.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

/// A page, or a file that it loads.
pub(in crate::http) async fn docs(State(http): State<Arc<Http>>, uri: Uri) -> Response {
    let name = uri.path().strip_prefix("/docs/").unwrap_or_default();
    let Some((kind, text)) = described(&http).pages.get(name) else {
        return Problem::new(Code::NotFound, NOTHING_HERE).into_response();
    };
    let kind = (CONTENT_TYPE, HeaderValue::from_static(kind));
    ([kind, (CONTENT_SECURITY_POLICY, POLICY)], text.clone()).into_response()
}

fn described(http: &Http) -> &Described {
    http.described.get_or_init(|| openapi::described(&http.rules))
}
