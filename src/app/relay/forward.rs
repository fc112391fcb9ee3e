//! Passes one request to an application as it came (contract §6), without the header fields about
//! its connection, with the account's own fields and our signature. Only the status of the response
//! counts.

use std::fmt;

use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, RelayAttemptId};
use crate::domain::relay::{Forwarded, Hop, Relay};
use crate::egress::client::Client;
use crate::egress::signature;

/// Header fields about the connection (RFC 9110 §7.6.1), or made anew for the next one.
const OF_CONNECTION: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// An attempt that begins, for this account.
#[derive(Clone, Copy)]
pub(super) struct AttemptStart {
    pub id: RelayAttemptId,
    pub account: AccountId,
    pub at: Timestamp,
}

#[derive(Clone)]
pub(super) struct Forwarder {
    client: Client,
}

impl fmt::Debug for Forwarder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Forwarder")
    }
}

impl Forwarder {
    pub(super) const fn new(client: Client) -> Self {
        Self { client }
    }

    /// Returns the application's answer, and the status if a response came. Any error defers.
    pub(super) async fn ask(
        &self,
        relay: &Relay,
        start: AttemptStart,
        forwarded: &Forwarded,
    ) -> (Hop, Option<u16>) {
        let Ok(method) = Method::from_bytes(forwarded.method.as_bytes()) else {
            return (Hop::Deferred("the request has no method".to_owned()), None);
        };
        let headers = headers(relay, start, forwarded);
        let body = forwarded.body.clone();
        match self.client.forward(method, &relay.url, headers, body, relay.timeout).await {
            Ok(status) => (relay.judge(status), Some(status)),
            Err(error) => (Hop::Deferred(error.to_string()), None),
        }
    }
}

/// Returns the header fields: those that came, except the ones about the connection; then the
/// account's, which replace them; then ours, which replace both.
fn headers(
    relay: &Relay,
    AttemptStart { id, account, at }: AttemptStart,
    forwarded: &Forwarded,
) -> HeaderMap {
    let named = |(name, value): &(String, Vec<u8>)| {
        let value = String::from_utf8_lossy(value).to_ascii_lowercase();
        let listed = value.split(',').map(|one| one.trim().to_owned());
        name.eq_ignore_ascii_case("connection").then(|| listed.collect::<Vec<_>>())
    };
    let named: Vec<String> = forwarded.headers.iter().filter_map(named).flatten().collect();
    // Our header names, sent by a stranger, would be taken for ours.
    let ours = |name: &str| {
        relay.kind.has_way_in() && (name.starts_with("x-gatepost-") || name.starts_with("webhook-"))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in &forwarded.headers {
        let folded = name.to_ascii_lowercase();
        let left_out = OF_CONNECTION.contains(&folded.as_str()) || named.contains(&folded);
        if left_out || ours(&folded) {
            continue;
        }
        let pair = (HeaderName::from_bytes(folded.as_bytes()), HeaderValue::from_bytes(value));
        if let (Ok(name), Ok(value)) = pair {
            headers.append(name, value);
        }
    }
    for header in &relay.headers {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        if let (Ok(name), Ok(mut value)) = (name, HeaderValue::from_bytes(header.value.expose())) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    let id = id.to_string();
    let signed = signature::symmetric_header(&relay.secret, &id, at, &forwarded.body);
    for (name, value) in [
        ("webhook-id", id),
        ("webhook-timestamp", at.seconds().to_string()),
        ("webhook-signature", signed),
        ("x-gatepost-relay", relay.kind.to_string()),
        ("x-gatepost-account", account.to_string()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}
