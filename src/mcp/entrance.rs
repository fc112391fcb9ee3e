//! The path of every request: origin, key, rates, body. Then the SDK answers it.
//!
//! The key is in `Authorization: Bearer`, where clients of the protocol put it, and nowhere else; a
//! wrong one counts as one of the API. Each request counts as one that reads, and a call of a tool that
//! changes something as one that writes, too.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::Instant;

use super::call::Held;
use super::cancelling::{ClientName, Running, SESSION, Sent};
use super::server::Server;
use crate::app::access::need::Effect;
use crate::app::access::{Caller, Credential, Denied, token};
use crate::http::Http;
use crate::http::error::{Code, Problem};
use crate::http::in_process::InProcess;
use crate::http::passage::auth::{RatedClient, Unauthenticated, within_rates};
use crate::http::passage::observe::Trace;
use crate::http::remote::{ConnectionEnd, Peer};
use crate::http::request::body;

/// Where the server is.
pub(super) const ROUTE: &str = "/mcp";

/// Where tools that change something are there, within the rights of their key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    Never,
    /// With keys that were made for it.
    ByKey,
    /// With every key.
    Always,
}

/// Settings that all requests share.
pub(super) struct Door {
    pub(super) http: Arc<Http>,
    pub(super) changes: Changes,
    pub(super) running: Running,
}

type Answering = StreamableHttpService<Server, NeverSessionManager>;

#[derive(Clone)]
struct Entrance {
    door: Arc<Door>,
    answering: Answering,
}

/// The client of a request, authenticated. It holds a key: it has no `Debug`.
#[derive(Clone)]
pub(super) struct Visitor {
    pub(super) api: InProcess,
    pub(super) trace: Trace,
    pub(super) held: Held,
    /// None if it names no session.
    pub(super) client: Option<ClientName>,
    /// When the connection is dropped at the latest.
    pub(super) end: Option<Instant>,
    key: String,
    from: IpAddr,
}

/// The server of the protocol.
pub fn router(http: Arc<Http>, changes: Changes) -> Router<Arc<Http>> {
    // Hosts are not checked: a page that reaches this server by a name of its own has no key, and
    // the browser sends none by itself. Origins are checked below, before the key is looked at.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_sse_retry(None)
        .with_max_request_body_bytes(http.rules.limits.max_body_bytes)
        .disable_allowed_hosts();
    let door = Arc::new(Door { http, changes, running: Running::default() });
    let server = Server(Arc::clone(&door));
    let sessions = Arc::new(NeverSessionManager::default());
    let answering = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    Router::new().route(ROUTE, post(answer)).with_state(Entrance { door, answering })
}

async fn answer(State(entrance): State<Entrance>, request: Request) -> Response {
    match enter(&entrance, request).await {
        Ok(response) => response,
        Err(problem) => {
            let is_unknown = problem.code == Code::Unauthorized;
            let mut response = problem.into_response();
            if is_unknown {
                // RFC 6750 §3.
                let bearer = HeaderValue::from_static("Bearer");
                response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
            }
            response
        }
    }
}

async fn enter(
    Entrance { door, answering }: &Entrance,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let http = &door.http;
    let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
    trace.set_route(ROUTE);
    let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let from = http.proxies.client(peer, &parts.headers);
    trace.set_client(from);
    check_origin(&http.cors_origins, &parts.headers)?;
    let key = bearer(&parts.headers);
    let client = rated(key.as_deref(), from, Effect::Read, &trace);
    let look_up = http.use_cases.access.caller(key.as_deref());
    let found = within_rates(http, client, look_up).await;
    let caller = found.map_err(|error| match error {
        Unauthenticated::Denied(Denied::NoKey) => unknown(key.is_some()),
        error => error.into(),
    })?;
    let key = key.unwrap_or_default();
    let credential = Credential::Key(key.clone());
    let mut api = InProcess::new(Arc::clone(http), caller, credential, from, &trace);
    let body = body::read_plain(http, &parts.headers, body).await?;
    // The SDK would answer 415.
    let none = "the body is not JSON: send one message of JSON-RPC";
    let sent = Sent::read(&body).ok_or_else(|| Problem::invalid(none))?;
    // The body may have come slowly, and the key may have ended meanwhile.
    api.authenticate_again().await.map_err(refused)?;
    // The SDK has no use for the key.
    parts.headers.remove(AUTHORIZATION);
    let client = ClientName::read(token::hash(&key), &parts.headers);
    let session = sent.begins().then(|| http.mint.uuid().to_string());
    if let (Some(client), Some(request)) = (client, sent.cancelled()) {
        door.running.cancel(client, request);
    }
    let held = Held::default();
    let end = parts.extensions.get::<ConnectionEnd>().map(|end| end.0);
    let visitor = Visitor { api, trace, held: held.clone(), client, end, key, from };
    parts.extensions.insert(visitor);
    let request = Request::from_parts(parts, Body::from(body));
    let mut answer = answering.handle(request).await.map(Body::new);
    if let Some(session) = session.and_then(|name| HeaderValue::try_from(name).ok()) {
        answer.headers_mut().insert(SESSION, session);
    }
    // An answer that hands over a file is no stream: nothing else of its call tells of progress.
    match held.take() {
        Some(place) => place.hold(answer).await,
        None => Ok(answer),
    }
}

fn rated<'c>(key: Option<&str>, from: IpAddr, effect: Effect, trace: &'c Trace) -> RatedClient<'c> {
    RatedClient { hash: key.and_then(token::hash), from, effect, trace }
}

/// Refuses a page of another site (Streamable HTTP, "Security Warning"): a browser names it, and
/// only the operator knows the others.
fn check_origin(allowed: &[String], headers: &HeaderMap) -> Result<(), Problem> {
    let foreign =
        |origin: &HeaderValue| allowed.iter().all(|one| one.as_bytes() != origin.as_bytes());
    if headers.get_all(ORIGIN).iter().any(foreign) {
        let detail = "pages of this origin may not use this server: the operator names those that \
                      may by --cors-origin";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(())
}

/// The key of a request, if there is exactly one.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let (scheme, key) = fields.next()?.to_str().ok()?.split_once(' ')?;
    let is_one = scheme.eq_ignore_ascii_case("bearer") && fields.next().is_none();
    is_one.then(|| key.trim().to_owned())
}

/// A key that has ended, or lost a right, since its request began.
pub(super) fn refused(denied: Denied) -> Problem {
    match denied {
        Denied::NoKey => unknown(true),
        denied => denied.into(),
    }
}

/// 401, for every key that opens nothing.
fn unknown(is_sent: bool) -> Problem {
    let detail = match is_sent {
        true => Denied::NoKey.to_string() + ": send a valid one as Authorization: Bearer",
        false => {
            "there is no key in this request: send one as Authorization: Bearer, and once; a key in \
             the URL opens nothing here"
                .to_owned()
        }
    };
    Problem::new(Code::Unauthorized, detail)
}

impl Door {
    /// Whether tools may make changes with the key of this caller.
    pub(super) fn lets_change(&self, caller: &Caller) -> bool {
        match self.changes {
            Changes::Never => false,
            Changes::ByKey => caller.key.mcp_changes,
            Changes::Always => true,
        }
    }
}

impl Visitor {
    /// Counts a change in the rate of the key, and authenticates the key again.
    pub(super) async fn count_change(
        &self,
        http: &Http,
        api: &mut InProcess,
    ) -> Result<(), Problem> {
        let client = rated(Some(&self.key), self.from, Effect::Write, &self.trace);
        let look_up = http.use_cases.access.caller(Some(&self.key));
        api.caller = within_rates(http, client, look_up).await.map_err(|error| match error {
            Unauthenticated::Denied(denied) => refused(denied),
            error => error.into(),
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    #[test]
    fn a_key_is_one_bearer() {
        let key = |fields: &[(&'static str, &'static str)]| bearer(&headers(fields));
        assert_eq!(key(&[("authorization", "Bearer gp_x")]).as_deref(), Some("gp_x"));
        assert_eq!(key(&[("authorization", "bearer  gp_x ")]).as_deref(), Some("gp_x"));
        for none in [
            &[][..],
            &[("authorization", "Basic gp_x")],
            &[("authorization", "gp_x")],
            &[("authorization", "Bearer gp_x"), ("authorization", "Bearer gp_y")],
        ] {
            assert_eq!(key(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_page_is_of_an_origin_that_the_operator_named() {
        let allowed = ["https://app.example.com".to_owned()];
        let check = |fields: &[(&'static str, &'static str)]| {
            check_origin(&allowed, &headers(fields)).is_ok()
        };
        assert!(check(&[]) && check(&[("origin", "https://app.example.com")]));
        for foreign in ["null", "https://app.example.com:8443", "http://app.example.com", ""] {
            assert!(!check(&[("origin", foreign)]), "{foreign}");
        }
        assert!(!check(&[
            ("origin", "https://app.example.com"),
            ("origin", "https://evil.example")
        ]));
    }
}
