//! Streams of events (HTML, "Server-sent events"): responses that last as long as their connection.

use std::convert::Infallible;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use futures_util::Stream;

use crate::http::request::call::STREAM;

/// Marks a response that lasts as long as its connection. The connection then moves to other
/// threads, because thousands of them must not delay requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endless;

/// Tells proxies (nginx) not to buffer the response.
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A response that lasts as long as these texts.
pub(crate) fn endless<T: Into<Bytes>>(
    texts: impl Stream<Item = Result<T, Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(STREAM)),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    (headers, Extension(Endless), Body::from_stream(texts)).into_response()
}
