//! The one table of paths. A path without a handler for a method is 405; every handler is reached
//! by `visit` alone.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::{RawPathParams, Request, State};
use axum::routing::{MethodRouter, get, post};

use super::visit::{self, Answer, Visit};
use super::{
    accounts, agent, audit, domains, keys, live, message, policy, refused, rooms, search, session,
    setup, source, system, verdict, webhooks,
};
use crate::http::Http;
use crate::http::error::Problem;

/// The parts of the server that pages use.
#[derive(Debug)]
pub struct Console {
    pub(super) http: Arc<Http>,
    /// Whether browsers reach the server by https: then they send the cookie by https only.
    pub(super) secure: bool,
}

impl Console {
    pub const fn new(http: Arc<Http>, secure: bool) -> Self {
        Self { http, secure }
    }
}

pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Answer, Problem>> + Send>>;
pub(super) type Handler = fn(Visit) -> Answering;

/// A path below `/console/{account}`.
pub(super) struct Row {
    /// The whole path, for the router and the log.
    pub(super) path: &'static str,
    pub(super) show: Handler,
    /// Carries out the forms of the page.
    pub(super) change: Option<Handler>,
    /// Whether the page shows texts of messages, megabytes of them: it takes a place among the
    /// downloads.
    pub(super) is_large: bool,
}

impl Row {
    const fn large(self) -> Self {
        Self { is_large: true, ..self }
    }
}

/// Where the console is.
const ROOT: &str = "/console";

macro_rules! row {
    ($path:literal, $show:path $(, $change:path)?) => {
        Row {
            path: concat!("/console/{account}", $path),
            show: |visit| Box::pin($show(visit)),
            change: row!(@ $($change)?),
            is_large: false,
        }
    };
    (@) => { None };
    (@ $change:path) => { Some(|visit| Box::pin($change(visit))) };
}

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row!("/live", live::show),
    row!("/live/stream", live::follow),
    row!("/search", search::show).large(),
    row!("/verdicts/{id}", verdict::show, verdict::change),
    row!("/messages/{uuid}", message::show, message::change).large(),
    row!("/messages/{uuid}/raw", message::raw),
    row!("/messages/{uuid}/source", source::show),
    row!("/messages/{uuid}/parts/{filename}", message::part),
    row!("/refused", refused::show),
    row!("/policy", policy::show, policy::change),
    row!("/webhooks", webhooks::list, webhooks::create),
    row!("/webhooks/{id}", webhooks::show, webhooks::change).large(),
    row!("/catalog", webhooks::catalog),
    row!("/accounts", accounts::show, accounts::change),
    row!("/domains", domains::show, domains::change),
    row!("/keys", keys::show, keys::change),
    row!("/audit", audit::show),
    row!("/agent", agent::show, agent::change),
    row!("/setup", setup::show),
    row!("/system", system::show),
    row!("/rooms", rooms::list),
    row!("/rooms/{room}", rooms::show, rooms::change).large(),
    row!("/sessions", session::list, session::end),
];

/// The pages, with sign-in and the files that pages load.
pub fn router(console: Console) -> Router<Arc<Http>> {
    let console = Arc::new(console);
    let pages = ROWS.iter().fold(Router::new(), |router, row| {
        router.route(row.path.strip_prefix(ROOT).unwrap_or(row.path), methods(row))
    });
    let pages = pages
        .route("/", get(session::begin))
        .route("/sign-in", get(session::form).post(session::sign_in))
        .route("/sign-out", post(session::sign_out))
        .route("/open", get(session::ticket).post(session::open))
        .route("/style.css", get(visit::style))
        .route("/script.js", get(visit::script))
        .route("/icon.svg", get(visit::icon))
        .fallback(visit::nowhere);
    let root = get(session::begin);
    Router::new().nest(ROOT, pages).route("/console/", root).with_state(console)
}

type Params = Result<RawPathParams, axum::extract::rejection::RawPathParamsRejection>;

fn methods(row: &'static Row) -> MethodRouter<Arc<Console>> {
    let show = move |State(console): State<Arc<Console>>, path: Params, request: Request| {
        visit::show(console, row, path.ok(), request)
    };
    let methods = get(show);
    if row.change.is_none() {
        return methods;
    }
    methods.post(move |State(console): State<Arc<Console>>, path: Params, request: Request| {
        visit::change(console, row, path.ok(), request)
    })
}
