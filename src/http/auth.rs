//! Who is calling: the one place that reads the token.

use std::net::IpAddr;

use super::Http;
use super::error::Problem;
use super::observe::Trace;
use super::query;
use crate::app::access::need::Effect;
use crate::app::access::{Caller, Denied, token};

/// The caller behind the query parameter `token`. A key that is missing, empty, there twice, of
/// another form, unknown, revoked or of an inactive account is one and the same 401; 429 before
/// anything is looked up where there were too many of those (`limits`).
pub(super) async fn caller(
    http: &Http,
    raw_query: &str,
    (from, effect): (IpAddr, Effect),
    trace: &Trace,
) -> Result<Caller, Problem> {
    let text = query::token(raw_query);
    let (text, limits) = (text.as_deref(), &http.limits);
    let limited = |refused: super::limits::Refused| {
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
    Ok(found?)
}
