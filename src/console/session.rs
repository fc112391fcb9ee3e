//! Signing in and out, links of administrators, and the list of sessions.

use std::net::IpAddr;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HeaderValue, SET_COOKIE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;

use super::filters;
use super::frame::{Frame, Section};
use super::table::Console;
use super::visit::{self, Answer, Pairs, Visit, html, moved, problem_page};
use crate::app::access::need::{Effect, Need, TargetType};
use crate::app::access::{self, Denied, SignInFrom, SignedIn, Visitor, token};
use crate::domain::clock::Timestamp;
use crate::domain::id::ConsoleSessionId;
use crate::http::error::Problem;
use crate::http::passage::auth::{RatedClient, Unauthenticated, within_rates};
use crate::http::passage::observe::Trace;

pub(super) use access::{csrf, csrf_matches};

/// Holds the secret of the session.
const NAME: &str = "gatepost_console";

/// Sessions of accounts and members, as their keys are.
const READ: Need = Need::read(TargetType::Identity).administrators();
const WRITE: Need = Need::write(TargetType::Identity).administrators();

/// Where a request with a session comes from.
pub(super) struct From<'f> {
    pub(super) from: IpAddr,
    pub(super) effect: Effect,
    pub(super) trace: &'f Trace,
}

/// The secret in the cookie of a request, if there is exactly one.
pub(super) fn secret_of(headers: &HeaderMap) -> Option<String> {
    let fields = headers.get_all(COOKIE).iter().filter_map(|field| field.to_str().ok());
    let pairs = fields.flat_map(|field| field.split(';')).filter_map(|pair| pair.split_once('='));
    let mut secrets = pairs.filter(|(name, _)| name.trim() == NAME).map(|(_, value)| value.trim());
    secrets.next().filter(|_| secrets.next().is_none()).map(str::to_owned)
}

/// Looks a session up, within the rates of the session and of its address.
pub(super) async fn find(
    console: &Console,
    secret: &str,
    client: From<'_>,
) -> Result<Visitor, Unauthenticated> {
    let From { from, effect, trace } = client;
    let rated = RatedClient { hash: token::SESSION.hash(secret), from, effect, trace };
    let look_up = console.http.use_cases.access.session(Some(secret));
    within_rates(&console.http, rated, look_up).await
}

/// The first page: that of the caller's account, or the sign-in.
pub(super) async fn begin(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let (from, trace) = visit::client(&console, &parts);
    trace.set_route("/console");
    let Some(secret) = secret_of(&parts.headers) else { return moved("/console/sign-in") };
    let from = From { from, effect: Effect::Read, trace: &trace };
    match find(&console, &secret, from).await {
        Ok(visitor) => moved(&home(visitor.caller.account.id.get())),
        Err(Unauthenticated::Denied(Denied::NoKey)) => moved("/console/sign-in"),
        Err(error) => problem_page(&error.into(), None),
    }
}

fn home(account: i64) -> String {
    format!("/console/{account}/live")
}

#[derive(Template)]
#[template(path = "sign_in.html", config = "src/console/templates/askama.toml")]
struct SignInPage<'p> {
    /// The page to go to afterwards.
    to: &'p str,
    problem: &'p str,
}

/// Asks for a key.
pub(super) async fn form(uri: Uri) -> Response {
    let query = Pairs::parse(uri.query().unwrap_or_default().as_bytes());
    sign_in_page(StatusCode::OK, query.get("to"), "")
}

fn sign_in_page(status: StatusCode, to: &str, problem: &str) -> Response {
    html(status, SignInPage { to, problem }.render().unwrap_or_default())
}

/// Makes a session of a key. A wrong key counts as one of the API does.
pub(super) async fn sign_in(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (from, trace) = visit::client(&console, &parts);
    trace.set_route("/console/sign-in");
    let form = match visit::form(&parts.headers, body).await {
        Ok(form) => form,
        Err(problem) => return problem_page(&problem, None),
    };
    let key = form.get("key");
    let rated = RatedClient { hash: token::hash(key), from, effect: Effect::Write, trace: &trace };
    let look_up = console.http.use_cases.access.sign_in(key, sign_in_from(&parts, from));
    match within_rates(&console.http, rated, look_up).await {
        Ok(signed_in) => entered(&console, signed_in, form.get("to")),
        Err(Unauthenticated::Denied(Denied::NoKey)) => {
            const WRONG: &str = "This key is unknown, revoked or expired, or its account is \
                                 inactive. Paste the whole key; it begins with gp_.";
            sign_in_page(StatusCode::UNAUTHORIZED, form.get("to"), WRONG)
        }
        Err(Unauthenticated::Limited(problem)) => {
            sign_in_page(problem.code.status(), form.get("to"), &problem.detail)
        }
        Err(error) => problem_page(&error.into(), None),
    }
}

fn sign_in_from(parts: &Parts, from: IpAddr) -> SignInFrom {
    let client = parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    SignInFrom { remote: Some(from), client: client.map(str::to_owned) }
}

/// Gives the browser its cookie, and leads to the page that was asked for.
fn entered(console: &Console, signed_in: SignedIn, to: &str) -> Response {
    let home = home(signed_in.caller.account.id.get());
    // Only pages of this console: a path, and none that a browser takes for another server.
    let is_page = to.starts_with("/console/") && !to.contains(['\\', '\r', '\n', '\t']);
    let mut response = moved(if is_page { to } else { &home });
    let now = console.http.mint.clock().now();
    let seconds = (signed_in.session.expires_at.millis() - now.millis()).max(0) / 1_000;
    set_cookie(&mut response, console, &signed_in.secret, seconds);
    response
}

fn set_cookie(response: &mut Response, console: &Console, secret: &str, seconds: i64) {
    let secure = if console.secure { "; Secure" } else { "" };
    let cookie = format!(
        "{NAME}={secret}; Path=/console; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
    );
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Ends the session of this browser.
pub(super) async fn sign_out(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (_, trace) = visit::client(&console, &parts);
    trace.set_route("/console/sign-out");
    let secret = secret_of(&parts.headers).unwrap_or_default();
    let form = match visit::form(&parts.headers, body).await {
        Ok(form) => form,
        Err(problem) => return problem_page(&problem, None),
    };
    if csrf_matches(&secret, form.get("csrf"))
        && let Err(denied) = console.http.use_cases.access.sign_out(&secret).await
    {
        return problem_page(&denied.into(), None);
    }
    let mut response = moved("/console/sign-in");
    set_cookie(&mut response, &console, "", 0);
    response
}

#[derive(Template)]
#[template(path = "open.html", config = "src/console/templates/askama.toml")]
struct OpenPage<'p> {
    ticket: &'p str,
}

/// Shows a button that opens a link: programs that read ahead in mail must not use it up.
pub(super) async fn ticket(uri: Uri) -> Response {
    let query = Pairs::parse(uri.query().unwrap_or_default().as_bytes());
    let page = OpenPage { ticket: query.get("ticket") };
    html(StatusCode::OK, page.render().unwrap_or_default())
}

/// Makes a session of a link.
pub(super) async fn open(State(console): State<Arc<Console>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let (from, trace) = visit::client(&console, &parts);
    trace.set_route("/console/open");
    let form = match visit::form(&parts.headers, body).await {
        Ok(form) => form,
        Err(problem) => return problem_page(&problem, None),
    };
    let ticket = form.get("ticket");
    let hash = token::SESSION.hash(ticket);
    let rated = RatedClient { hash, from, effect: Effect::Write, trace: &trace };
    let look_up = console.http.use_cases.access.open_link(ticket, sign_in_from(&parts, from));
    match within_rates(&console.http, rated, look_up).await {
        Ok(signed_in) => entered(&console, signed_in, ""),
        Err(Unauthenticated::Denied(Denied::NoKey)) => {
            const USED: &str = "This link was used before, or has expired. Ask for another, or \
                                sign in with a key.";
            sign_in_page(StatusCode::UNAUTHORIZED, "", USED)
        }
        Err(error) => problem_page(&error.into(), None),
    }
}

#[derive(Template)]
#[template(path = "sessions.html", config = "src/console/templates/askama.toml")]
struct SessionsPage {
    frame: Frame,
    sessions: Vec<SessionRow>,
}

struct SessionRow {
    id: String,
    is_own: bool,
    began: String,
    ends: String,
    remote: String,
    client: String,
}

/// Lists the sessions in reach.
pub(super) async fn list(visit: Visit) -> Result<Answer, Problem> {
    let access = &visit.console.http.use_cases.access;
    let target = visit.api.target(visit.account, READ).await?;
    let found = access.sessions(&target).await?;
    let shown = |at: Timestamp| at.to_string();
    let row = |session: crate::domain::console_session::ConsoleSession| SessionRow {
        is_own: session.id.0 == visit.session,
        id: session.id.0.to_string(),
        began: shown(session.created_at),
        ends: shown(session.expires_at),
        remote: session.remote.map_or_else(String::new, |remote| remote.to_string()),
        client: session.client.unwrap_or_default(),
    };
    let sessions = found.into_iter().map(row).collect();
    Answer::page(&SessionsPage { frame: visit.frame(Section::Sessions).await?, sessions })
}

/// Ends one of them.
pub(super) async fn end(visit: Visit) -> Result<Answer, Problem> {
    let target = visit.api.target(visit.account, WRITE).await?;
    let id = visit.form.get("session").parse().map_err(|_| Problem::not_found("session"))?;
    let access = &visit.console.http.use_cases.access;
    if !access.end_session(&target, ConsoleSessionId(id), visit.api.actor()).await? {
        return Err(Problem::not_found("session"));
    }
    Ok(visit.see("/sessions", "ended"))
}
