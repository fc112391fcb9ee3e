//! `/.well-known/mta-sts.txt`: the policy of MTA-STS (RFC 8461 §3.3), without a key, under the host
//! `mta-sts.DOMAIN` of each domain of an account.
//!
//! Anybody may ask for anything: what has no policy is a 404, counted like a wrong key.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::response::{IntoResponse as _, Response};
use tokio::time::Instant;

use crate::app::access::need::Effect;
use crate::domain::mta_sts::{MtaSts, MtaStsMode, domain_of};
use crate::domain::repeats::LogCause;
use crate::http::error::{Code, NOTHING_HERE, Problem};
use crate::http::passage::observe::Trace;
use crate::http::remote::Peer;
use crate::http::state::Http;

/// Path of the policy.
pub(in crate::http) const PATH: &str = "/.well-known/mta-sts.txt";

/// Media type of a policy (RFC 8461 §3.2).
const TEXT: &str = "text/plain; charset=utf-8";

/// Shows the policy, if the host that the client names belongs to a domain of an account.
pub(in crate::http) async fn policy(
    State(http): State<Arc<Http>>,
    Extension(trace): Extension<Trace>,
    Extension(Peer(peer)): Extension<Peer>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    trace.set_route(PATH);
    let nothing = || Problem::new(Code::NotFound, NOTHING_HERE);
    let policy = http.mta_sts.as_ref().ok_or_else(nothing)?;
    let from = http.proxies.client(peer, &headers);
    let admitted = http.limits.admit(None, from, Effect::Read, Instant::now());
    let admitted = admitted.map_err(|refused| *refused.problem)?;
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let domain = host.and_then(domain_of);
    let is_ours = match &domain {
        Some(domain) => http.use_cases.tenancy.has_domain(domain).await,
        None => Ok(false),
    };
    if matches!(is_ours, Ok(false)) {
        return Err(nothing());
    }
    http.limits.give_back(admitted, Instant::now());
    is_ours?;
    Ok(([(CONTENT_TYPE, TEXT)], kept(&http, policy).text()).into_response())
}

/// Returns the policy as far as this server can meet it: what it cannot is not enforced, so that
/// senders report it and deliver all the same.
fn kept(http: &Http, policy: &MtaSts) -> MtaSts {
    let mut kept = policy.clone();
    if policy.mode == MtaStsMode::Enforce
        && let Some(why) = http.certificate_fault.now()
    {
        kept.mode = MtaStsMode::Testing;
        if let Some(left_out) = http.repeats.due(LogCause::MtaSts) {
            tracing::error!(
                why,
                left_out,
                "mta-sts is served as testing, not as enforce: senders that verify the certificate \
                 of SMTP would refuse this server; install one of a public authority for the hostname"
            );
        }
    }
    kept
}
