//! Authenticates the caller: the only place that reads the token.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use tokio::time::Instant;

use crate::app::access::need::Effect;
use crate::app::access::{Caller, Denied, token};
use crate::domain::key::KeyHash;
use crate::http::error::{Code, Problem};
use crate::http::limits::rates::{RateExceeded, Rated};
use crate::http::passage::observe::Trace;
use crate::http::request::query;
use crate::http::state::Http;

/// Returns the caller of the query parameter `token`. Fails with the same 401 for a key that is
/// malformed, unknown, revoked or of an inactive account. Without a key, or with several, the 401
/// says where to send one, after the same time. Fails with 429 after too many of these, or over the
/// key's rate (`limits::rates`). A failure of the store is passed on, and nothing is counted.
pub(in crate::http) async fn caller(
    http: &Http,
    parts: &Parts,
    from: IpAddr,
    effect: Effect,
    trace: &Trace,
) -> Result<Caller, Problem> {
    let raw_query = parts.uri.query().unwrap_or_default();
    let text = query::token(raw_query);
    let text = text.as_deref();
    let hash = text.and_then(token::hash);
    let look_up = http.use_cases.access.caller(text);
    let found = within_rates(http, RatedClient { hash, from, effect, trace }, look_up).await;
    found.map_err(|error| match error {
        Unauthenticated::Denied(Denied::NoKey) => {
            misplaced(raw_query, &parts.headers).unwrap_or_else(|| Denied::NoKey.into())
        }
        error => error.into(),
    })
}

/// A client whose credential is looked up.
pub(crate) struct RatedClient<'c> {
    /// The hash of the credential; None if it is malformed.
    pub(crate) hash: Option<KeyHash>,
    pub(crate) from: IpAddr,
    pub(crate) effect: Effect,
    pub(crate) trace: &'c Trace,
}

/// Why a credential has no caller.
pub(crate) enum Unauthenticated {
    Denied(Denied),
    /// The credential or its address is over its rate.
    Limited(Box<Problem>),
}

impl From<Unauthenticated> for Problem {
    fn from(error: Unauthenticated) -> Self {
        match error {
            Unauthenticated::Denied(denied) => denied.into(),
            Unauthenticated::Limited(problem) => *problem,
        }
    }
}

/// A credential that was found, with the caller that it proves.
pub(crate) trait Proven {
    fn caller(&self) -> &Caller;
}

impl Proven for Caller {
    fn caller(&self) -> &Caller {
        self
    }
}

/// Looks a credential up within the rates of its key and of its address. One that opens nothing is
/// counted, too; at a sign-in, where no key is known then, as a wrong one.
pub(crate) async fn within_rates<T: Proven>(
    http: &Http,
    client: RatedClient<'_>,
    look_up: impl Future<Output = Result<T, Denied>>,
) -> Result<T, Unauthenticated> {
    let (RatedClient { hash, from, effect, trace }, limits) = (client, &http.limits);
    let limited = |refused: RateExceeded| {
        trace.set_quota(refused.quota);
        Unauthenticated::Limited(refused.problem)
    };
    let admitted = limits.admit(hash, from, effect, Instant::now()).map_err(limited)?;
    let found = look_up.await;
    match &found {
        Err(Denied::NoKey | Denied::NoApi) => limits.refuse(admitted, Instant::now()),
        Ok(found) => {
            let key = Rated::Key(found.caller().key.id);
            trace.set_quota(limits.count(admitted, key, Instant::now()).map_err(limited)?);
            found.caller().enters().map_err(Unauthenticated::Denied)?;
        }
        Err(_) => limits.give_back(admitted, Instant::now()),
    }
    found.map_err(Unauthenticated::Denied)
}

/// Explains a key that is missing, in the wrong place or sent several times; None if it was sent
/// once, in the right place.
fn misplaced(raw_query: &str, headers: &HeaderMap) -> Option<Problem> {
    let detail = match query::tokens(raw_query).count() {
        1 => return None,
        0 if headers.contains_key(AUTHORIZATION) => {
            "there is no key in the query: this interface reads no Authorization header; send the \
             key as the query parameter token (?token=…)"
        }
        0 => "there is no key in this request: send one as the query parameter token (?token=…)",
        _ => "the query parameter token is there more than once: send one key",
    };
    Some(Problem::new(Code::Unauthorized, detail))
}
