//! Successful responses: JSON in the envelope of v2, and files.

use std::convert::Infallible;

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderName, HeaderValue,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::http::answer::range::{Conditions, WantedRange};
use crate::http::error::{Code, Problem};
use crate::http::limits::downloads::DownloadPlace;

const CORP: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// 200 with these fields in the envelope of v2: `{success: true, message, …}`.
pub(in crate::http) fn success(message: &str, fields: Value) -> Response {
    let mut envelope = Map::new();
    envelope.insert("success".into(), true.into());
    envelope.insert("message".into(), message.into());
    if let Value::Object(fields) = fields {
        envelope.extend(fields);
    }
    json(StatusCode::OK, Value::Object(envelope).to_string())
}

/// A response with large text of this type. The text holds its download `place` until it is sent or
/// the connection ends, whichever is first.
pub(in crate::http) fn large(
    content_type: &'static str,
    text: String,
    place: DownloadPlace,
) -> Response {
    let length = (CONTENT_LENGTH, HeaderValue::from(text.len()));
    let content_type = (CONTENT_TYPE, HeaderValue::from_static(content_type));
    ([content_type, length], held(text, place)).into_response()
}

/// A body of these bytes, which hold their download `place` until they are sent or the connection
/// ends, whichever is first.
pub(in crate::http) fn held(bytes: impl Into<Bytes>, place: DownloadPlace) -> Body {
    stream(Bytes::from_owner(HeldBytes { bytes: bytes.into(), _place: place }))
}

pub(in crate::http) fn json(status: StatusCode, text: String) -> Response {
    let content_type = (CONTENT_TYPE, HeaderValue::from_static("application/json"));
    (status, [content_type], text).into_response()
}

/// The strong entity tag of a file whose content depends on `of` alone (RFC 9110 §8.8.3). It is
/// known before the file is read.
pub(in crate::http) fn entity_tag(of: &str) -> String {
    let digest = digest(&SHA256, of.as_bytes());
    // Half of the digest tells all files apart.
    let half = digest.as_ref().get(..16).unwrap_or_default();
    format!("\"{}\"", URL_SAFE_NO_PAD.encode(half))
}

/// 304: the client has the file with this tag.
pub(in crate::http) fn not_modified(known: &str) -> Response {
    (StatusCode::NOT_MODIFIED, [(ETAG, tag(known))]).into_response()
}

/// A stranger's file in a response: an original, an attachment or a page.
#[derive(Debug)]
pub(in crate::http) struct File {
    bytes: Vec<u8>,
    tag: String,
    content_type: String,
    disposition: String,
    policy: &'static str,
}

/// For a file to save: nothing in it runs or loads, and no page frames it.
const SAVED: &str = "sandbox; default-src 'none'; frame-ancestors 'none'";
/// For a page that is shown: its own pictures and styles load; its links open outside the sandbox.
const SHOWN: &str = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; \
                     img-src data:; style-src 'unsafe-inline'; form-action 'none'; \
                     base-uri 'none'; frame-ancestors 'none'";

impl File {
    /// A file to save: a browser never displays it (threats D6).
    pub(in crate::http) fn saved(
        bytes: Vec<u8>,
        content_type: String,
        filename: &str,
        tag: String,
    ) -> Self {
        let disposition = disposition("attachment", filename);
        Self { bytes, tag, content_type, disposition, policy: SAVED }
    }

    /// A page to display, made harmless before.
    pub(in crate::http) fn shown(
        text: String,
        content_type: &str,
        filename: &str,
        tag: String,
    ) -> Self {
        let (bytes, content_type) = (text.into_bytes(), content_type.to_owned());
        let disposition = disposition("inline", filename);
        Self { bytes, tag, content_type, disposition, policy: SHOWN }
    }

    /// The response to a request with these `conditions`: the whole file, a part, 304, or 416. The
    /// bytes hold their `place` until they are sent or the connection ends, whichever is first.
    pub(in crate::http) fn answer(self, conditions: &Conditions, place: DownloadPlace) -> Response {
        let length = self.bytes.len();
        let (status, part) = match conditions.wanted(length, &self.tag) {
            WantedRange::Whole => (StatusCode::OK, 0..length),
            WantedRange::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
            WantedRange::Had => return not_modified(&self.tag),
            WantedRange::Nothing => {
                let detail = format!("the file has {length} bytes: request a range within them");
                let mut refused = Problem::new(Code::RangeNotSatisfiable, detail).into_response();
                refused
                    .headers_mut()
                    .insert(CONTENT_RANGE, header(&format!("bytes */{length}"), "none"));
                return refused;
            }
        };
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, header(&self.content_type, "application/octet-stream"));
        headers.insert(CONTENT_DISPOSITION, header(&self.disposition, "attachment"));
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(self.policy));
        // Pages of other origins cannot embed it as a picture or a script.
        headers.insert(CORP, HeaderValue::from_static("same-origin"));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(part.len()));
        headers.insert(ETAG, tag(&self.tag));
        if status == StatusCode::PARTIAL_CONTENT {
            let text = format!("bytes {}-{}/{length}", part.start, part.end.saturating_sub(1));
            headers.insert(CONTENT_RANGE, header(&text, "none"));
        }
        let held = Bytes::from_owner(HeldBytes { bytes: self.bytes.into(), _place: place });
        (status, headers, stream(held.slice(part))).into_response()
    }
}

/// Bytes of a file passed to a connection at a time.
const CHUNK: usize = 65_536;

/// Sends pieces as fast as the client takes them, so a connection holds no copy of the rest.
fn stream(mut left: Bytes) -> Body {
    let pieces = std::iter::from_fn(move || {
        let piece = left.split_to(left.len().min(CHUNK));
        (!piece.is_empty()).then_some(Ok::<_, Infallible>(piece))
    });
    Body::from_stream(futures_util::stream::iter(pieces))
}

struct HeldBytes {
    bytes: Bytes,
    _place: DownloadPlace,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn header(text: &str, otherwise: &'static str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(otherwise))
}

fn tag(text: &str) -> HeaderValue {
    header(text, "\"\"")
}

/// RFC 6266: an ASCII name for old clients, and the full name (RFC 8187). The ASCII name has no
/// quote, backslash or percent sign, which programs read in different ways.
fn disposition(kind: &str, filename: &str) -> String {
    let plain = |c: char| match c {
        '"' | '\\' | '%' => '_',
        ' '..='~' => c,
        _ => '_',
    };
    let ascii: String = filename.chars().map(plain).collect();
    format!("{kind}; filename=\"{ascii}\"; filename*=UTF-8''{}", extended(filename))
}

/// `ext-value` without its prefix (RFC 8187 §3.2.1): percent-encodes all but letters, digits and
/// `-._`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_said_twice_and_ends_no_header() {
        for (name, expected) in [
            ("a.pdf", r#"x; filename="a.pdf"; filename*=UTF-8''a.pdf"#),
            ("a b.pdf", r#"x; filename="a b.pdf"; filename*=UTF-8''a%20b.pdf"#),
            ("grüße.html", r#"x; filename="gr__e.html"; filename*=UTF-8''gr%C3%BC%C3%9Fe.html"#),
            ("🙂.png", r#"x; filename="_.png"; filename*=UTF-8''%F0%9F%99%82.png"#),
            ("a\"b\\c%d", r#"x; filename="a_b_c_d"; filename*=UTF-8''a%22b%5Cc%25d"#),
            ("a\r\nX: y", r#"x; filename="a__X: y"; filename*=UTF-8''a%0D%0AX%3A%20y"#),
        ] {
            assert_eq!(disposition("x", name), expected, "{name:?}");
            assert!(HeaderValue::from_str(&disposition("x", name)).is_ok());
        }
    }

    #[tokio::test]
    async fn a_file_comes_in_pieces_and_whole() {
        let octets: Vec<u8> = (0..200_001_u32).map(|number| number.to_le_bytes()[0]).collect();
        let body = stream(Bytes::from(octets.clone()));
        let mut frames = body.into_data_stream();
        let (mut got, mut pieces) = (Vec::new(), 0);
        while let Some(piece) = futures_util::StreamExt::next(&mut frames).await {
            let piece = piece.unwrap();
            assert!(piece.len() <= CHUNK);
            got.extend_from_slice(&piece);
            pieces += 1;
        }
        assert_eq!((got == octets, pieces), (true, 4));
    }
}
