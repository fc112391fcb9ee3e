//! The path of every request for a page: session, rates, CSRF, page.
//!
//! A session that is missing or has ended leads to the sign-in, and back from there. A change that
//! fails shows its page again with what is wrong on top, and the fields as they were sent.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use askama::Template;
use axum::body::{Body, to_bytes};
use axum::extract::{OriginalUri, RawPathParams, Request, State};
use axum::http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use url::form_urlencoded::{byte_serialize, parse};

use super::frame::{Frame, ProblemPage, Section};
use super::session;
use super::table::{Console, Row};
use crate::app::access::need::Effect;
use crate::app::access::{Credential, Denied, token};
use crate::http::error::{Code, Problem};
use crate::http::in_process::{Asked, InProcess, PagePlace};
use crate::http::passage::auth::Unauthenticated;
use crate::http::passage::observe::{ShownProblem, Trace};
use crate::http::remote::Peer;

/// Longest form of a session in bytes: a list of senders is the longest field.
const MAX_FORM: usize = 256 * 1024;
/// Longest form of a browser without a session.
pub(super) const MAX_SIGN_IN: usize = 4 * 1024;
/// Most fields of a form or a query; those behind them are left out.
const MAX_FIELDS: usize = 64;

/// The sign of the console in a browser's tab.
const ICON: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#0a55a5"/><path d="M4 5h8v6H4z M4 5l4 4 4-4" fill="none" stroke="#fff"/></svg>"##;

/// Nothing loads from elsewhere, and nobody frames a page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; \
     frame-ancestors 'none'",
);
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Names and values of a query or a form.
#[derive(Clone, Debug, Default)]
pub(super) struct Pairs(Vec<(String, String)>);

impl Pairs {
    pub(super) fn parse(text: &[u8]) -> Self {
        Self(parse(text).into_owned().take(MAX_FIELDS).collect())
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first value of this name, without white space around it; empty without one.
    pub(super) fn get(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.trim())
    }
}

/// The answer of a handler.
pub(super) enum Answer {
    /// A page, or a piece of one.
    Html(String),
    /// The page to go to after a change.
    See(String),
    /// A file of a message, or a page that is sent piece by piece.
    File(Response),
}

impl Answer {
    /// Renders a page. Writing to a String does not fail.
    pub(super) fn page(page: &impl Template) -> Result<Self, Problem> {
        page.render().map(Self::Html).map_err(Problem::internal)
    }

    /// Renders a page that waits for its place among the downloads only now: a row that is large
    /// waits before.
    pub(super) async fn large_page(visit: &Visit, page: &impl Template) -> Result<Self, Problem> {
        let text = page.render().map_err(Problem::internal)?;
        Ok(Self::placed(visit.api.page_place().await?, text))
    }

    fn placed(place: PagePlace, text: String) -> Self {
        Self::File(page(place.answer(text)))
    }
}

/// An authenticated request for a page of an account. It holds a secret: it has no `Debug`.
#[derive(Clone)]
pub(super) struct Visit {
    pub(super) console: Arc<Console>,
    pub(super) api: InProcess,
    /// The account of the page, which every request of the page acts on.
    pub(super) account: i64,
    segments: Vec<(String, String)>,
    pub(super) query: Pairs,
    /// The form that was sent; empty if the page is only shown.
    pub(super) form: Pairs,
    /// The error of the form that was sent.
    pub(super) problem: Option<Problem>,
    pub(super) secret: String,
    pub(super) session: uuid::Uuid,
}

impl Visit {
    /// A segment of the path, decoded; empty if the path has none of this name.
    pub(super) fn segment(&self, name: &str) -> &str {
        let found = self.segments.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// A request of this operation on the account of the page.
    pub(super) fn on(&self, operation: &'static str) -> Asked {
        Asked::of(operation).on(self.account)
    }

    /// Makes a request of the API, and reads its answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, asked: Asked) -> Result<T, Problem> {
        self.api.ask(asked).await
    }

    /// Makes a request of the API that changes something. A form that is sent twice is carried out
    /// once.
    pub(super) async fn carry_out(&self, asked: Asked) -> Result<Value, Problem> {
        self.api.ask(asked.once(self.form.get("once"))).await
    }

    /// Leaves the form out, after it was carried out.
    pub(super) fn without_form(self) -> Self {
        Self { form: Pairs::default(), ..self }
    }

    /// Makes the frame of the page.
    pub(super) async fn frame(&self, section: Section) -> Result<Frame, Problem> {
        Frame::of(self, section).await
    }

    /// Leads to a page of this account, which says that `done` happened.
    pub(super) fn see(&self, page: &str, done: &str) -> Answer {
        let sign = if page.contains('?') { '&' } else { '?' };
        Answer::See(format!("/console/{}{page}{sign}done={done}", self.account))
    }
}

/// Shows a page.
pub(super) async fn show(
    console: Arc<Console>,
    row: &'static Row,
    path: Option<RawPathParams>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let entered = enter(&console, Entrance { row, path, effect: Effect::Read }, &parts).await;
    let visit = match entered {
        Ok(visit) => visit,
        Err(refused) => return refused.answer(&parts),
    };
    let shown = show_row(row, &visit).await;
    answer(visit, shown).await
}

/// Makes the page of a row. A large one waits for its place first.
async fn show_row(row: &Row, visit: &Visit) -> Result<Answer, Problem> {
    let place = if row.is_large { Some(visit.api.page_place().await?) } else { None };
    match ((row.show)(visit.clone()).await?, place) {
        (Answer::Html(text), Some(place)) => Ok(Answer::placed(place, text)),
        (answer, _) => Ok(answer),
    }
}

/// Carries a form out.
pub(super) async fn change(
    console: Arc<Console>,
    row: &'static Row,
    path: Option<RawPathParams>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let entered = enter(&console, Entrance { row, path, effect: Effect::Write }, &parts).await;
    let mut visit = match entered {
        Ok(visit) => visit,
        Err(refused) => return refused.answer(&parts),
    };
    match form(&console, &parts.headers, body, MAX_FORM).await {
        Ok(form) => visit.form = form,
        Err(problem) => return answer(visit, Err(problem)).await,
    }
    // The form may have come slowly, and the session may have ended, or lost rights, meanwhile.
    match visit.api.authenticate_again().await {
        Ok(()) => {}
        Err(Denied::NoKey) => return Refused::SignIn.answer(&parts),
        Err(denied) => return Refused::Problem(denied.into()).answer(&parts),
    }
    if !session::csrf_matches(&visit.secret, visit.form.get("csrf")) {
        let detail = "this form is not of your session: open the page again and send it from there";
        let problem = Problem::new(Code::Forbidden, detail);
        return answer(visit, Err(problem)).await;
    }
    let Some(handler) = row.change else { return answer(visit, Err(nothing_here())).await };
    let problem = match handler(visit.clone()).await {
        Err(problem) if problem.code.status().is_client_error() => problem,
        done => return answer(visit, done).await,
    };
    let (status, failed) = (problem.code.status(), problem.clone());
    visit.problem = Some(problem.masked());
    let shown = show_row(row, &visit).await;
    let mut again = answer(visit, shown).await;
    if again.status().is_success() {
        *again.status_mut() = status;
        again = told(again, &failed);
    }
    again
}

/// Reads a form of at most `most` bytes that a page of this server sent, within the time of a body.
pub(super) async fn form(
    console: &Console,
    headers: &HeaderMap,
    body: Body,
    most: usize,
) -> Result<Pairs, Problem> {
    if is_of_another_site(headers) {
        let detail = "another site sent this form: open the console itself and send it from there";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let reading = timeout(console.http.rules.limits.body(), to_bytes(body, most));
    let text = reading.await.map_err(|_| {
        Problem::new(Code::RequestTimeout, "the form did not come in time: send it again")
    })?;
    let text = text.map_err(|_| {
        Problem::new(Code::PayloadTooLarge, format!("a form has at most {most} bytes here"))
    })?;
    Ok(Pairs::parse(&text))
}

/// Whether a browser says that another site sent the request. Programs need not say anything, and
/// over plain http browsers say it in `Origin` alone.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match (text(SEC_FETCH_SITE), text(ORIGIN), text(HOST)) {
        (Some(site), _, _) => site != "same-origin" && site != "none",
        (None, Some(origin), Some(host)) => {
            origin.split_once("://").is_none_or(|(_, of)| !of.eq_ignore_ascii_case(host))
        }
        (None, _, _) => false,
    }
}

struct Entrance {
    row: &'static Row,
    path: Option<RawPathParams>,
    effect: Effect,
}

/// Why a request gets no page.
enum Refused {
    /// No session: sign in first.
    SignIn,
    Problem(Problem),
}

impl Refused {
    fn answer(self, parts: &Parts) -> Response {
        match self {
            Self::SignIn => {
                let whole = parts.extensions.get::<OriginalUri>().map(|uri| uri.0.to_string());
                let whole = whole.filter(|whole| !names_secret(whole)).unwrap_or_default();
                let to: String = byte_serialize(whole.as_bytes()).collect();
                moved(&format!("/console/sign-in?to={to}"))
            }
            Self::Problem(problem) => problem_page(&problem, None),
        }
    }
}

/// Whether a key or a ticket is in an address, in any spelling: it is not repeated (threats W10).
fn names_secret(whole: &str) -> bool {
    let decoded = |text: &str| {
        let pairs = parse(text.as_bytes()).map(|(name, value)| format!("{name} {value}"));
        pairs.collect::<Vec<_>>().join(" ")
    };
    // Clients encode twice what they were given encoded.
    let once = decoded(whole);
    let twice = decoded(&once);
    let has = |text: &str| token::API.is_in(text) || token::SESSION.is_in(text);
    has(whole) || has(&once) || has(&twice)
}

/// The address of the client, which the log names.
pub(super) fn client(console: &Console, parts: &Parts) -> (IpAddr, Trace) {
    let trace = parts.extensions.get::<Trace>().cloned().unwrap_or_default();
    let peer = parts.extensions.get::<Peer>().map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.0);
    let from = console.http.proxies.client(peer, &parts.headers);
    trace.set_client(from);
    (from, trace)
}

/// Authenticates the session of a request.
async fn enter(
    console: &Arc<Console>,
    entrance: Entrance,
    parts: &Parts,
) -> Result<Visit, Refused> {
    let Entrance { row, path, effect } = entrance;
    let (from, trace) = client(console, parts);
    trace.set_route(row.path);
    let Some(secret) = session::secret_of(console, &parts.headers) else {
        return Err(Refused::SignIn);
    };
    let found = session::find(console, &secret, session::From { from, effect, trace: &trace });
    let visitor = found.await.map_err(|error| match error {
        Unauthenticated::Denied(Denied::NoKey) => Refused::SignIn,
        error => Refused::Problem(error.into()),
    })?;
    let credential = Credential::Session(secret.clone());
    let http = Arc::clone(&console.http);
    let api = InProcess::new(http, visitor.caller, credential, from, &trace);
    let params = path.iter().flat_map(RawPathParams::iter);
    let segments: Vec<_> = params.map(|(name, value)| (name.into(), value.into())).collect();
    let account = segments.first().and_then(|(_, text): &(String, String)| text.parse().ok());
    let account = account.ok_or_else(|| Refused::Problem(nothing_here()))?;
    let query = Pairs::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let (console, form) = (Arc::clone(console), Pairs::default());
    let (problem, session) = (None, visitor.session.id.0);
    Ok(Visit { console, api, account, segments, query, form, problem, secret, session })
}

async fn answer(visit: Visit, answered: Result<Answer, Problem>) -> Response {
    match answered {
        Ok(Answer::Html(text)) => html(StatusCode::OK, text),
        Ok(Answer::See(place)) => moved(&place),
        Ok(Answer::File(response)) => response,
        Err(problem) => {
            let frame = visit.frame(Section::None).await.ok();
            problem_page(&problem, frame)
        }
    }
}

fn nothing_here() -> Problem {
    Problem::new(Code::NotFound, "the console has no such page: begin at /console")
}

/// Any other path of the console.
pub(super) async fn nowhere(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let (_, trace) = client(&console, &parts);
    trace.set_route("/console");
    problem_page(&nothing_here(), None)
}

/// Shows what is wrong, in the frame if there is one.
pub(super) fn problem_page(problem: &Problem, frame: Option<Frame>) -> Response {
    let page = ProblemPage { problem: problem.clone().masked(), frame };
    told(html(problem.code.status(), page.render().unwrap_or_default()), problem)
}

/// Names the error of a page for the log.
pub(super) fn told(mut response: Response, problem: &Problem) -> Response {
    response.extensions_mut().insert(ShownProblem(problem.clone()));
    response
}

pub(super) fn html(status: StatusCode, text: String) -> Response {
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    page((status, [(CONTENT_TYPE, kind)], text).into_response())
}

/// Adds the policy of a page.
fn page(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, POLICY);
    response
}

/// Leads elsewhere by GET (RFC 9110 §15.4.4).
pub(super) fn moved(place: &str) -> Response {
    let place = HeaderValue::try_from(place).unwrap_or(HeaderValue::from_static("/console"));
    (StatusCode::SEE_OTHER, [(LOCATION, place)]).into_response()
}

pub(super) async fn style() -> Response {
    file("text/css; charset=utf-8", include_str!("../http/templates/style.css"))
}

pub(super) async fn script() -> Response {
    file("text/javascript; charset=utf-8", include_str!("templates/script.js"))
}

pub(super) async fn icon() -> Response {
    file("image/svg+xml", ICON)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static(kind))], text).into_response()
}
