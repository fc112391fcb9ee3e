//! The shapes of answers that are no errors.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use tokio::sync::OwnedSemaphorePermit;

use super::Http;
use super::error::Problem;

/// The envelope of v2: `{success: true, message, …}`.
pub(super) fn success(status: StatusCode, message: &str, fields: Value) -> Response {
    let mut envelope = Map::new();
    envelope.insert("success".into(), true.into());
    envelope.insert("message".into(), message.into());
    if let Value::Object(fields) = fields {
        envelope.extend(fields);
    }
    json(status, Value::Object(envelope).to_string())
}

/// JSON that is written already.
pub(super) fn json(status: StatusCode, text: String) -> Response {
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [content_type], text).into_response()
}

/// A place among the answers that are held in memory whole; wait for it before reading one.
pub(super) async fn place(http: &Http) -> Result<OwnedSemaphorePermit, Problem> {
    let place = Arc::clone(&http.downloads).acquire_owned().await;
    place.map_err(|_| Problem::unavailable("the places for downloads are closed"))
}

/// Octets of a stranger, to be saved and never shown by a browser (threats D6). They keep their
/// `place` until they are sent or the connection is gone.
pub(super) fn download(
    bytes: Vec<u8>,
    content_type: &str,
    filename: &str,
    place: OwnedSemaphorePermit,
) -> Response {
    let disposition = format!("attachment; filename*=UTF-8''{}", extended(filename));
    let headers = [
        (CONTENT_TYPE, header(content_type, "application/octet-stream")),
        (CONTENT_DISPOSITION, header(&disposition, "attachment")),
        (
            CONTENT_SECURITY_POLICY,
            HeaderValue::from_static("sandbox; default-src 'none'; frame-ancestors 'none'"),
        ),
    ];
    let held = Held { bytes, _place: place };
    (headers, Body::from(Bytes::from_owner(held))).into_response()
}

struct Held {
    bytes: Vec<u8>,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn header(text: &str, otherwise: &'static str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(otherwise))
}

/// `ext-value` without its prefix: all but `attr-char` in percent-encoding (RFC 8187 §3.2.1).
fn extended(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' => {
                encoded.push(char::from(byte));
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
        encoded
    })
}
