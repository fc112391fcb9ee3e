//! The description of the API, for programs and for people: `/api/v2/openapi.json` and `/docs`,
//! without a key. They are made once, and are the same for everybody.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse as _, Response};

use super::super::Http;
use super::super::openapi::Described;

/// Where the document lies.
pub(in super::super) const OPENAPI: &str = "/api/v2/openapi.json";

/// OpenAPI 3.1.
pub(in super::super) async fn openapi(State(http): State<Arc<Http>>) -> Response {
    let described = described(&http);
    let kind = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    ([kind], described.document.clone()).into_response()
}

/// The same to read.
pub(in super::super) async fn docs(State(http): State<Arc<Http>>) -> Response {
    let described = described(&http);
    let kind = (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    let policy = (CONTENT_SECURITY_POLICY, described.policy.clone());
    ([kind, policy], described.page.clone()).into_response()
}

fn described(http: &Http) -> &Described {
    http.described.get_or_init(|| Described::new(&http.rules))
}
