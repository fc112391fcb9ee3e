//! From a request to a [`Call`] and its response: the same steps, in the same order, for every
//! operation.
//!
//! The caller is authenticated first, so a stranger learns nothing about the parameters of an
//! operation. A target in path or query is checked before the body, so nobody sends a long body in
//! vain; a target in the body alone is checked last.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawPathParams, Request};
use axum::http::header::{ACCEPT, HeaderName};
use axum::http::request::Parts;
use axum::response::Response;

use crate::app::access::Caller;
use crate::domain::audit::Actor;
use crate::http::answer::range::Conditions;
use crate::http::error::{Code, Problem};
use crate::http::operation::{BASE, Operation};
use crate::http::passage::auth;
use crate::http::passage::linked::{self, Signed};
use crate::http::passage::observe::Trace;
use crate::http::passage::once::{self, IdempotentRequest};
use crate::http::remote::Peer;
use crate::http::request::body::{self, BodyRule};
use crate::http::request::call::{Again, Call, LAST_EVENT_ID};
use crate::http::request::query::{self, Query};
use crate::http::request::target;
use crate::http::state::Http;

/// Authorises, reads and performs one request.
pub(in crate::http) async fn perform(
    http: Arc<Http>,
    operation: &'static Operation,
    path: Option<RawPathParams>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let raw_query = parts.uri.query().unwrap_or_default();
    let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
    trace.matched(operation);
    // Without a connection (in tests) the peer is the unspecified address.
    let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let from = http.proxies.client(peer, &parts.headers);
    trace.came_from(from);
    if let Some(handler) = operation.linked
        && let Some(signed) = Signed::read(raw_query)
    {
        let asked = (operation, path, &parts, body);
        let visit = linked::visit(&http, asked, signed, from, &trace).await?;
        return handler(http, visit).await;
    }
    let by = (raw_query, &parts.headers);
    let caller = auth::caller(&http, by, (from, operation.need.effect), &trace).await?;
    trace.called_by(caller.account.id);
    let request = Some(trace.request());
    let actor = Actor { remote: Some(from), request, ..caller.actor() };
    let audit = http.use_cases.audit.clone();
    let performed = authorise(http, operation, (caller, &actor), path, (&parts, body)).await;
    if performed.as_ref().is_err_and(|problem| problem.code == Code::Forbidden) {
        audit.denied(&actor, &operation.name());
    }
    performed
}

/// Authorises and performs the request of an authenticated caller.
async fn authorise(
    http: Arc<Http>,
    operation: &'static Operation,
    (caller, actor): (Caller, &Actor),
    path: Option<RawPathParams>,
    (parts, body): (&Parts, Body),
) -> Result<Response, Problem> {
    let raw_query = parts.uri.query().unwrap_or_default();
    let limit = http.rules.limits.max_query_bytes;
    let aim = operation.aim;
    let query = Query::parse(raw_query, limit, &operation.known(), aim.names())?;
    let path = operation
        .segments(path)
        .ok_or_else(|| Problem::invalid("the path is not UTF-8 in percent-encoding"))?;
    let in_path = path.iter().find(|(name, _)| name == target::TARGET);
    let in_path = in_path.map(|(_, value)| value.as_str());
    let once = once::name(operation, &parts.headers)?;
    let need = operation.need;
    let named = target::before_body(&http, &caller, (need, aim), in_path, &query).await?;
    let known = (operation.body(), aim.names());
    let body = body::read(&parts.headers, body, known, caller.key.id, &http).await?;
    // Reading the body may take long, and the caller may lose its rights meanwhile: check it again
    // after the last wait.
    let caller = match operation.body() {
        BodyRule::None => caller,
        _ => http.use_cases.access.caller(query::token(raw_query).as_deref()).await?,
    };
    let target = target::target(&http, &caller, (need, &operation.targets()), named, &body).await?;
    let (key, actor) = (caller.key.id, actor.clone());
    let token = query::token(raw_query);
    let again = Again { token: token.clone().unwrap_or_default(), named, need };
    let header = |name: HeaderName| parts.headers.get(name).cloned();
    let (accept, last_event_id) = (header(ACCEPT), header(LAST_EVENT_ID));
    let conditions = Conditions::of(parts);
    let uri_path = format!("{BASE}{}", parts.uri.path());
    let mut call = Call {
        caller,
        actor,
        target,
        path,
        uri_path,
        query,
        body,
        again,
        accept,
        last_event_id,
        conditions,
    };
    let (Some(name), Some(token)) = (once, token) else {
        return (operation.handler)(http, call).await;
    };
    let asked = once::asked(operation, &call);
    let once = http.use_cases.answers.request(key, &operation.name(), name, &asked);
    call.actor.once = Some(once);
    let holder = call.actor.request.unwrap_or_default();
    once::perform(http, operation, call, IdempotentRequest { once, token, holder }).await
}
