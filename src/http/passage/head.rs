//! The fields that say for whom a request is, and where it ends.

use axum::extract::Request;
use axum::http::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Version};

use crate::http::error::{Code, Problem};

const HOST_ONCE: &str = "Host must be there once: a name or an address, and perhaps a port";
const CHUNKS_ALONE: &str =
    "Transfer-Encoding must be chunked, or not there: send the body as it is";

/// Refuses a request of HTTP/1.1 that does not name its host once and well (RFC 9112 §3.2), and one
/// whose body is coded by more than chunks (§6.1): hyper passes over other codings. If the request is
/// for a whole URL, its host is that of the URL (§3.2.2), and `Host` says so afterwards.
pub(in crate::http) fn settle(request: &mut Request) -> Result<(), Problem> {
    let malformed = |detail| Problem::new(Code::InvalidRequest, detail);
    if !is_named(request.version(), request.headers()) {
        return Err(malformed(HOST_ONCE));
    }
    let mut codings = request.headers().get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !codings.next().is_none_or(is_chunked) || codings.next().is_some() {
        return Err(malformed(CHUNKS_ALONE));
    }
    let host = match request.uri().authority() {
        None => return Ok(()),
        Some(authority) => HeaderValue::from_str(authority.as_str()),
    };
    let host = host.ok().filter(is_host).ok_or_else(|| malformed(HOST_ONCE))?;
    request.headers_mut().insert(HOST, host);
    Ok(())
}

fn is_named(version: Version, fields: &HeaderMap) -> bool {
    let mut hosts = fields.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => version < Version::HTTP_11,
        (Some(host), None) => is_host(host),
        (Some(_), Some(_)) => false,
    }
}

/// An empty one is permitted: that of a target without an authority (RFC 9110 §7.2).
fn is_host(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let Ok(authority) = text.parse::<Authority>() else { return text.is_empty() };
    let is_port = |port: &str| port.bytes().all(|octet| octet.is_ascii_digit());
    let behind = text.strip_prefix(authority.host()).filter(|_| !authority.host().is_empty());
    behind.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}
