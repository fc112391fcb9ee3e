//! From a request to a [`Call`] and its response: the same steps, in the same order, for every
//! operation.
//!
//! The caller is authenticated first, so a stranger learns nothing about the parameters of an
//! operation. A target in path or query is checked before the body, so nobody sends a long body in
//! vain; a target in the body alone is checked last.

use std::net::Ipv4Addr;
use std::sync::Arc;

use axum::extract::{RawPathParams, Request};
use axum::http::header::{ACCEPT, HeaderName};
use axum::response::Response;

use crate::app::access::{Caller, Credential};
use crate::domain::audit::Actor;
use crate::http::answer::range::Conditions;
use crate::http::error::{Code, Problem};
use crate::http::operation::{BASE, MatchedRequest, Operation};
use crate::http::passage::auth;
use crate::http::passage::idempotency::{self, IdempotentRequest};
use crate::http::passage::linked::{self, SignedLink};
use crate::http::passage::observe::Trace;
use crate::http::remote::Peer;
use crate::http::request::body::{self, AllowedBody, BodyRule};
use crate::http::request::call::{AccessCheck, Call, LAST_EVENT_ID};
use crate::http::request::query::{self, Query};
use crate::http::request::target::{self, TargetRule};
use crate::http::state::Http;

/// Authenticates, authorises, reads and performs one request.
pub(in crate::http) async fn perform(
    http: Arc<Http>,
    operation: &'static Operation,
    path: Option<RawPathParams>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
    trace.set_operation(operation);
    // Without a connection (in tests) the peer is the unspecified address.
    let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let from = http.proxies.client(peer, &parts.headers);
    trace.set_client(from);
    let segments = operation.segments(path);
    let request = MatchedRequest { operation, segments, parts, body };
    if let Some(handler) = operation.linked
        && let Some(signed) = SignedLink::read(request.parts.uri.query().unwrap_or_default())
    {
        return handler(linked::visit(http, request, signed, from, &trace).await?).await;
    }
    let caller = auth::caller(&http, &request.parts, from, operation.need.effect, &trace).await?;
    trace.set_caller(caller.account.id);
    let actor = Actor { remote: Some(from), request: Some(trace.request()), ..caller.actor() };
    // A caller without a token was refused above.
    let token = query::token(request.parts.uri.query().unwrap_or_default()).unwrap_or_default();
    let client = Client { caller, actor, credential: Credential::Key(token) };
    perform_for(http, request, client).await
}

/// An authenticated client.
pub(in crate::http) struct Client {
    pub(in crate::http) caller: Caller,
    pub(in crate::http) actor: Actor,
    /// Authenticates the client again after a wait.
    pub(in crate::http) credential: Credential,
}

/// Authorises and performs the request of an authenticated client. The audit log counts a 403
/// `forbidden`, and each 403 of an operation that is a worker's (threats S1).
pub(in crate::http) async fn perform_for(
    http: Arc<Http>,
    request: MatchedRequest,
    client: Client,
) -> Result<Response, Problem> {
    let (audit, actor) = (http.use_cases.audit.clone(), client.actor.clone());
    let operation = request.operation;
    let performed = authorise(http, request, client).await;
    let is_counted = |problem: &Problem| match problem.code {
        Code::Forbidden => true,
        Code::FeatureRequired => operation.need.worker,
        _ => false,
    };
    if performed.as_ref().is_err_and(is_counted) {
        audit.denied(&actor, &operation.name());
    }
    performed
}

async fn authorise(
    http: Arc<Http>,
    request: MatchedRequest,
    client: Client,
) -> Result<Response, Problem> {
    let Client { caller, actor, credential } = client;
    let MatchedRequest { operation, segments, parts, body } = request;
    let raw_query = parts.uri.query().unwrap_or_default();
    let limit = http.rules.limits.max_query_bytes;
    let (need, names) = (operation.need, operation.target_names);
    let query = Query::parse(raw_query, limit, &operation.known(), names)?;
    let path =
        segments.ok_or_else(|| Problem::invalid("the path is not UTF-8 in percent-encoding"))?;
    let in_path = path.iter().find(|(name, _)| name == target::TARGET);
    let in_path = in_path.map(|(_, value)| value.as_str());
    let key_name = idempotency::key_name(operation, &parts.headers)?;
    let rule = TargetRule { need, names };
    let named = target::before_body(&http, &caller, rule, in_path, &query).await?;
    let allowed = AllowedBody { rule: operation.form.body, targets: names };
    let body = body::read(&http, &parts.headers, body, allowed, caller.key.id).await?;
    // Reading the body may take long, and the caller may lose its rights meanwhile: check it again
    // after the last wait.
    let caller = match operation.form.body {
        BodyRule::None => caller,
        _ => http.use_cases.access.authenticate(&credential).await?,
    };
    let rule = TargetRule { need, names: &operation.targets() };
    let target = target::target(&http, &caller, rule, named, &body).await?;
    let header = |name: HeaderName| parts.headers.get(name).cloned();
    let mut call = Call {
        actor,
        target,
        path,
        uri_path: format!("{BASE}{}", parts.uri.path()),
        query,
        body,
        access_check: AccessCheck { credential, named, need },
        accept: header(ACCEPT),
        last_event_id: header(LAST_EVENT_ID),
        conditions: Conditions::of(&parts),
        caller,
        http,
    };
    let Some(name) = key_name else {
        return (operation.handler)(call).await;
    };
    let canonical = idempotency::canonical(operation, &call);
    let answers = &call.http.use_cases.answers;
    let once = answers.request(call.caller.key.id, &operation.name(), name, &canonical);
    call.actor.once = Some(once);
    let holder = call.actor.request.unwrap_or_default();
    let secret = call.access_check.credential.secret().to_owned();
    idempotency::perform(operation, call, IdempotentRequest { once, secret, holder }).await
}
