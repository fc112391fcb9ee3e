//! Authenticates the caller: the only place that reads the token.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use tokio::time::Instant;

use crate::app::access::need::Effect;
use crate::app::access::{Caller, Denied, token};
use crate::http::error::{Code, Problem};
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
    let (text, limits) = (text.as_deref(), &http.limits);
    let limited = |refused: crate::http::limits::rates::RateExceeded| {
        trace.set_quota(refused.quota);
        *refused.problem
    };
    let admitted =
        limits.admit(text.and_then(token::hash), from, effect, Instant::now()).map_err(limited)?;
    let found = http.use_cases.access.caller(text).await;
    match &found {
        Err(Denied::NoKey) => limits.refuse(admitted, Instant::now()),
        Err(Denied::Store(_)) => limits.give_back(admitted, Instant::now()),
        _ => trace.set_quota(limits.count(admitted, Instant::now()).map_err(limited)?),
    }
    found.map_err(|error| match error {
        Denied::NoKey => misplaced(raw_query, &parts.headers).unwrap_or_else(|| error.into()),
        error => error.into(),
    })
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
