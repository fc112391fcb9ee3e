//! The router, generated from the table of operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodRouter, get, post};

use crate::egress::client::LOOP;
use crate::http::connection::cors;
use crate::http::error::{Code, NOTHING_HERE, Problem};
use crate::http::operation::{BASE, Operation, shape};
use crate::http::passage::head;
use crate::http::passage::observe;
use crate::http::passage::perform;
use crate::http::public::inbound;
use crate::http::public::{description, health, metrics, mta_sts, tls_reports};
use crate::http::state::Http;
use crate::http::table::OPERATIONS;
use crate::wire;

/// The router of the API, of the paths without a key (health, the description, the policy of MTA-STS,
/// reports on TLS, and posts of providers), and of the rooms beside it (`console`, `mcp`).
pub fn router(http: Arc<Http>, beside: Router<Arc<Http>>) -> Router {
    let operations = served().into_iter().fold(Router::new(), |router, (path, verbs)| {
        router.route(&path, verbs.into_values().fold(MethodRouter::new(), on))
    });
    let whole = Router::new()
        .nest(BASE, operations)
        .route("/", get(description::here))
        .route(BASE, get(description::here))
        .route(description::OPENAPI, get(description::openapi))
        .route("/docs", get(description::docs))
        .route("/docs/{page}", get(description::docs))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route(mta_sts::PATH, get(mta_sts::policy))
        .route(tls_reports::PATH, post(tls_reports::take))
        .route("/inbound/{type}/{key}", post(inbound::post))
        .route("/inbound/{type}/{key}/mime", post(inbound::post));
    observed(whole.merge(beside), http)
}

/// The router of the listener for Prometheus and for health checks, which is never encrypted.
pub fn metrics_router(http: Arc<Http>) -> Router {
    let paths = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready));
    observed(paths, http)
}

type PathParams = Result<RawPathParams, RawPathParamsRejection>;

/// The operations that share a path and a verb.
#[derive(Clone, Copy, Default)]
struct Served {
    /// Takes the segments that are no id of a message.
    any: Option<&'static Operation>,
    /// Takes the id of a message, which is a UUID; a room's id never is.
    message: Option<&'static Operation>,
}

/// The operations by shape and verb.
fn served() -> BTreeMap<String, BTreeMap<&'static str, Served>> {
    let mut all: BTreeMap<String, BTreeMap<&'static str, Served>> = BTreeMap::new();
    for operation in OPERATIONS {
        for path in operation.paths() {
            let verbs = all.entry(shape(path)).or_default();
            let served = verbs.entry(operation.verb.as_str()).or_default();
            let is_of_message = path.contains(MESSAGE);
            let place = if is_of_message { &mut served.message } else { &mut served.any };
            *place = Some(operation);
        }
    }
    all
}

/// The first segment with a name, if it holds the id of a message.
const MESSAGE: &str = "{messageUuid}";

fn on(methods: MethodRouter<Arc<Http>>, served: Served) -> MethodRouter<Arc<Http>> {
    let Some(usual) = served.any.or(served.message) else { return methods };
    let perform = move |State(http): State<Arc<Http>>, path: PathParams, request: Request| {
        let first = path.as_ref().ok().and_then(|path| path.iter().next());
        let is_uuid = first.is_some_and(|(_, value)| wire::uuid(value).is_some());
        let operation = served.message.filter(|_| is_uuid).unwrap_or(usual);
        perform::perform(http, operation, path.ok(), request)
    };
    methods.on(usual.verb.filter(), perform)
}

/// Adds the parts common to all responses, those for unknown paths and wrong methods included.
pub(super) fn observed(router: Router<Arc<Http>>, http: Arc<Http>) -> Router {
    let router = router
        .fallback(async || Problem::new(Code::NotFound, NOTHING_HERE))
        .method_not_allowed_fallback(async || {
            Problem::new(Code::MethodNotAllowed, "use one of the methods in the Allow header")
        })
        .layer(axum::middleware::from_fn(refuse));
    let router = match cors::layer(&http.cors_origins) {
        Some(layer) => router.layer(layer),
        None => router,
    };
    router
        .layer(axum::middleware::from_fn_with_state(Arc::clone(&http), observe::observe))
        .with_state(http)
}

/// Refuses requests whose head says too little or too much (400), and those that a gateway sent
/// (508): a webhook that leads back here would make an event of each event, forever (threats H10),
/// whichever key its URL holds.
async fn refuse(mut request: Request, next: Next) -> Response {
    if let Err(problem) = head::settle(&mut request) {
        return problem.into_response();
    }
    if request.headers().contains_key(LOOP) {
        let detail = "a webhook or a relay leads back to this gateway: give it the URL of your own \
                      application";
        return Problem::new(Code::LoopDetected, detail).into_response();
    }
    next.run(request).await
}
