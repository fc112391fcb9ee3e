//! The outermost layer: headers and one log line for every response. A request whose client leaves
//! before gets neither.
//!
//! The line names the operation by its pattern and contains no client input: path, query and method
//! of a request may hold anything, even a key.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::app::panics::caught;
use crate::domain::id::AccountId;
use crate::domain::repeats::{LogCause, Repeats};
use crate::http::error::{Code, Problem, masked};
use crate::http::limits::rates::{self, Quota};
use crate::http::operation::Operation;
use crate::http::state::Http;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// An error of a response that has its page: for the log.
#[derive(Clone, Debug)]
pub(crate) struct ShownProblem(pub(crate) Problem);

/// Facts about a request, collected on its way for the log. The first value of each stays.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<RequestFacts>);

#[derive(Debug, Default)]
struct RequestFacts {
    request: Uuid,
    operation: OnceLock<&'static Operation>,
    /// For unmatched paths.
    route: OnceLock<&'static str>,
    caller: OnceLock<AccountId>,
    from: OnceLock<IpAddr>,
    quota: OnceLock<Quota>,
}

impl Trace {
    fn new(request: Uuid) -> Self {
        Self(Arc::new(RequestFacts { request, ..RequestFacts::default() }))
    }

    pub(crate) fn request(&self) -> Uuid {
        self.0.request
    }

    pub(in crate::http) fn set_operation(&self, operation: &'static Operation) {
        self.0.operation.get_or_init(|| operation);
    }

    pub(crate) fn set_route(&self, route: &'static str) {
        self.0.route.get_or_init(|| route);
    }

    pub(crate) fn set_client(&self, client: IpAddr) {
        self.0.from.get_or_init(|| client);
    }

    pub(in crate::http) fn set_quota(&self, quota: Option<Quota>) {
        if let Some(quota) = quota {
            self.0.quota.get_or_init(|| quota);
        }
    }

    pub(in crate::http) fn set_caller(&self, account: AccountId) {
        self.0.caller.get_or_init(|| account);
    }
}

/// Runs one request within its deadline, and finishes its response. At the deadline the request is
/// dropped (503); a panic gives 500. Sending the body is not part of the deadline.
pub(in crate::http) async fn observe(
    State(http): State<Arc<Http>>,
    mut request: Request,
    next: Next,
) -> Response {
    let (id, began) = (http.mint.uuid(), Instant::now());
    let method = known_method(request.method());
    let trace = Trace::new(id);
    request.extensions_mut().insert(trace.clone());
    let mut response = match timeout(http.rules.limits.request(), caught(next.run(request))).await {
        Ok(Ok(response)) => response,
        // A bug in one handler ends one request only.
        Ok(Err(panic)) => Problem::internal(format!("a handler panicked: {panic}")).into_response(),
        Err(_) => Problem::unavailable("the request took too long").into_response(),
    };
    let mut problem = response.extensions_mut().remove::<Problem>();
    if let Some(problem) = &problem {
        write_problem(problem, id, &mut response);
    } else if let Some(ShownProblem(shown)) = response.extensions_mut().remove() {
        problem = Some(shown);
    }
    if let Some(problem) = &problem
        && matches!(problem.code, Code::Unavailable | Code::RateLimited)
    {
        let seconds = problem.retry_after.unwrap_or(http.rules.limits.retry_after_seconds);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    set_common_headers(id, response.headers_mut());
    if let Some(quota) = trace.0.quota.get() {
        set_quota_headers(quota, response.headers_mut());
    }
    let (status, latency) = (response.status(), began.elapsed());
    let answered = AnsweredRequest { method, status, problem: problem.as_ref(), latency };
    log(&http.repeats, &trace, &answered);
    if let Some(operation) = trace.0.operation.get() {
        http.use_cases.system.metrics.request(operation.id, status.as_u16());
    }
    response
}

/// Writes the body of an error into its response, and keeps other headers (`Allow`).
fn write_problem(problem: &Problem, id: Uuid, response: &mut Response) {
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    *response.body_mut() = Body::from(serde_json::to_string(&problem.body(id)).unwrap_or_default());
}

fn set_common_headers(id: Uuid, headers: &mut HeaderMap) {
    if let Ok(id) = HeaderValue::try_from(id.to_string()) {
        headers.insert(X_REQUEST_ID, id);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// draft-ietf-httpapi-ratelimit-headers-10: reads and writes have separate quotas, and a response
/// shows the one that its request was counted in.
fn set_quota_headers(quota: &Quota, headers: &mut HeaderMap) {
    let (name, most) = (quota.effect.as_str(), quota.most);
    let reset = rates::whole_seconds(quota.full_in);
    let policy = format!("\"{name}\";q={most};w=60");
    let left = format!("\"{name}\";r={};t={reset}", quota.left);
    for (header, text) in [(RATE_LIMIT_POLICY, policy), (RATE_LIMIT, left)] {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(header, value);
        }
    }
}

/// A request with its response, for the log.
struct AnsweredRequest<'r> {
    method: &'static str,
    status: StatusCode,
    problem: Option<&'r Problem>,
    latency: Duration,
}

fn log(repeats: &Repeats, trace: &Trace, answered: &AnsweredRequest<'_>) {
    let AnsweredRequest { method, status, problem, latency } = answered;
    let operation = trace.0.operation.get();
    let beside = trace.0.route.get().copied().unwrap_or("-");
    let route = operation.map_or(beside, |operation| operation.path);
    let effect = operation.map_or("-", |operation| operation.need.effect.as_str());
    let client = trace.0.from.get().map(tracing::field::display);
    let account = trace.0.caller.get().map(|account| account.get());
    let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    let code = problem.map(|problem| problem.code.as_str());
    let request = tracing::field::display(trace.request());
    match problem {
        Some(Problem { cause: Some(cause), .. }) => {
            if let Some(left_out) = repeats.due(LogCause::Request(route)) {
                tracing::error!(
                    request.id = request,
                    http.route = route,
                    error = cause,
                    left_out,
                    "request failed"
                );
            }
        }
        Some(Problem { code: Code::Unavailable, detail, .. }) => {
            if let Some(left_out) = repeats.due(LogCause::PutOff(route)) {
                tracing::warn!(
                    request.id = request,
                    http.route = route,
                    reason = masked(detail),
                    left_out,
                    "request refused for now: the client is asked to try again later"
                );
            }
        }
        _ => {}
    }
    tracing::info!(
        request.id = request,
        http.method = method,
        http.route = route,
        http.effect = effect,
        http.status = status.as_u16(),
        account.id = account,
        client.address = client,
        error.code = code,
        latency_ms,
        "request answered"
    );
}

/// A method may be any token (RFC 9110 §9.1); only these appear in the log.
fn known_method(method: &Method) -> &'static str {
    const KNOWN: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}
