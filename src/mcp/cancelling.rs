//! Cancellation by `notifications/cancelled`. Over HTTP it comes in a request of its own, so those that
//! run are known here by the key and the session of their client.
//!
//! A session is a random name, which answers `initialize` and which the client repeats
//! (`Mcp-Session-Id`): two clients of one key number their requests alike. It opens nothing, and
//! nothing is kept for it. Behind a balancer the notification may come to another gateway: then the
//! request runs to its end, as it does if the notification overtakes it. Versions of the protocol
//! without sessions cancel by closing the connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use axum::http::{HeaderMap, HeaderName};
use rmcp::model::{NumberOrString, RequestId};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::domain::key::KeyHash;
use crate::wire;

/// The header field with the session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// One client: the holder of a key, in a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClientName {
    key: KeyHash,
    session: Uuid,
}

impl ClientName {
    /// Returns None for a client that names no session of ours.
    pub(super) fn read(key: Option<KeyHash>, headers: &HeaderMap) -> Option<Self> {
        let session = wire::uuid(headers.get(SESSION)?.to_str().ok()?)?;
        Some(Self { key: key?, session })
    }
}

/// The parts of a message of the protocol that its way depends on.
#[derive(Default, Deserialize)]
pub(super) struct Sent {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: SentParams,
}

#[derive(Default, Deserialize)]
struct SentParams {
    #[serde(rename = "requestId")]
    request: Option<NumberOrString>,
}

impl Sent {
    /// Reads a body, which may be no message; None if it is no JSON.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let is_json = || serde_json::from_slice::<IgnoredAny>(body).is_ok();
        serde_json::from_slice(body).ok().or_else(|| is_json().then(Self::default))
    }

    /// Tells whether it begins a session.
    pub(super) fn begins(&self) -> bool {
        self.method == "initialize"
    }

    /// Returns the request that it cancels.
    pub(super) fn cancelled(self) -> Option<RequestId> {
        self.params.request.filter(|_| self.method == "notifications/cancelled")
    }
}

type Name = (ClientName, RequestId);

/// The requests that can be cancelled.
#[derive(Default)]
pub(super) struct Running(Mutex<HashMap<Name, CancellationToken>>);

impl Running {
    /// Registers a request for as long as the result lives. A second one of the same name is not
    /// cancelled.
    pub(super) fn begin(&self, client: Option<ClientName>, request: RequestId) -> UnderWay<'_> {
        let (token, mut name) = (CancellationToken::new(), client.map(|client| (client, request)));
        if let Some(wanted) = name.clone() {
            match self.requests().entry(wanted) {
                Entry::Vacant(free) => drop(free.insert(token.clone())),
                Entry::Occupied(_) => name = None,
            }
        }
        UnderWay { running: self, name, token }
    }

    pub(super) fn cancel(&self, client: ClientName, request: RequestId) {
        if let Some(token) = self.requests().get(&(client, request)) {
            token.cancel();
        }
    }

    /// Ignores poisoning: no code panics under this lock.
    fn requests(&self) -> MutexGuard<'_, HashMap<Name, CancellationToken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that runs.
pub(super) struct UnderWay<'r> {
    running: &'r Running,
    name: Option<Name>,
    token: CancellationToken,
}

impl UnderWay<'_> {
    pub(super) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            self.running.requests().remove(name);
        }
    }
}
