//! Who is calling: the one place that reads the token.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

use crate::app::access::need::Effect;
use crate::app::access::{Caller, Denied, token};
use crate::http::error::{Code, Problem};
use crate::http::passage::observe::Trace;
use crate::http::request::query;
use crate::http::state::Http;

/// The caller behind the query parameter `token`. A key of another form, unknown, revoked or of an
/// inactive account is one and the same 401; with none, or several, it says where one belongs, after
/// the same time. 429 before anything is looked up where there were too many of those (`limits`).
pub(in crate::http) async fn caller(
    http: &Http,
    (raw_query, headers): (&str, &HeaderMap),
    (from, effect): (IpAddr, Effect),
    trace: &Trace,
) -> Result<Caller, Problem> {
    let text = query::token(raw_query);
    let (text, limits) = (text.as_deref(), &http.limits);
    let limited = |refused: crate::http::limits::rates::Refused| {
        trace.leaves(refused.quota);
        *refused.problem
    };
    let admitted = limits.admit(text.and_then(token::hash), from, effect).map_err(limited)?;
    let found = http.use_cases.access.caller(text).await;
    match &found {
        Err(Denied::NoKey) => limits.refuse(admitted),
        Err(Denied::Store(_)) => limits.give_back(admitted),
        _ => trace.leaves(limits.count(admitted).map_err(limited)?),
    }
    found.map_err(|error| match error {
        Denied::NoKey => misplaced(raw_query, headers).unwrap_or_else(|| error.into()),
        error => error.into(),
    })
}

/// How a request sent its key, if not once and where keys are read.
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
