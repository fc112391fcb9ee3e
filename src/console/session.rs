//! Signing in and out, links of administrators, and the list of sessions.

use std::net::IpAddr;
use std::sync::Arc;

use askama::Template;
use axum::extract::{Request, State};
use axum::http::header::{COOKIE, HeaderValue, SET_COOKIE, USER_AGENT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;

use super::filters;
use super::frame::{Frame, Section};
use super::table::Console;
use super::visit::{self, Answer, MAX_SIGN_IN, Pairs, Visit, html, moved, problem_page, told};
use crate::app::access::need::{Effect, Need, TargetType};
use crate::app::access::{self, Caller, Denied, SignedIn, Visitor, token};
use crate::domain::clock::Timestamp;
use crate::domain::console_session::{Browser, ConsoleSession};
use crate::domain::id::ConsoleSessionId;
use crate::domain::key::KeyHash;
use crate::http::error::{Code, Problem};
use crate::http::passage::auth::{Proven, RatedClient, Unauthenticated, within_rates};
use crate::http::passage::observe::Trace;

pub(super) use access::{csrf, csrf_matches};

/// The cookie with the secret of the session. By https no other host can set it (`__Host-`).
const fn name(console: &Console) -> &'static str {
    if console.secure { "__Host-gatepost_console" } else { "gatepost_console" }
}

/// Sessions of accounts and members, as their keys are.
const READ: Need = Need::read(TargetType::Identity).administrators();
const WRITE: Need = Need::write(TargetType::Identity).administrators();
/// Names a refusal in the audit log.
const NAME: &str = "console sessions";

/// Where a request with a session comes from.
pub(super) struct From<'f> {
    pub(super) from: IpAddr,
    pub(super) effect: Effect,
    pub(super) trace: &'f Trace,
}

/// The secret in the cookie of a request, if there is exactly one.
pub(super) fn secret_of(console: &Console, headers: &HeaderMap) -> Option<String> {
    // Cookies of others may have any bytes.
    let fields =
        headers.get_all(COOKIE).iter().flat_map(|field| field.as_bytes().split(|b| *b == b';'));
    let own = |field: &[u8]| {
        let (known, value) = str::from_utf8(field).ok()?.split_once('=')?;
        (known.trim() == name(console)).then(|| value.trim().to_owned())
    };
    let mut secrets = fields.filter_map(own);
    secrets.next().filter(|_| secrets.next().is_none())
}

impl Proven for Visitor {
    fn caller(&self) -> &Caller {
        &self.caller
    }
}

impl Proven for SignedIn {
    fn caller(&self) -> &Caller {
        &self.caller
    }
}

/// Looks a session up, within the rates of its key and of its address.
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
    let Some(secret) = secret_of(&console, &parts.headers) else {
        return moved("/console/sign-in");
    };
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

/// A request of a browser without a session.
struct Arrival {
    parts: Parts,
    from: IpAddr,
    trace: Trace,
    /// Its query, or the form that it sent.
    fields: Pairs,
}

/// Reads a request of a browser without a session; the error is its page.
async fn arrive(
    console: &Console,
    route: &'static str,
    request: Request,
) -> Result<Arrival, Response> {
    let (parts, body) = request.into_parts();
    let (from, trace) = visit::client(console, &parts);
    trace.set_route(route);
    let fields = if parts.method == Method::POST {
        let form = visit::form(console, &parts.headers, body, MAX_SIGN_IN).await;
        form.map_err(|problem| problem_page(&problem, None))?
    } else {
        Pairs::parse(parts.uri.query().unwrap_or_default().as_bytes())
    };
    Ok(Arrival { parts, from, trace, fields })
}

/// Asks for a key.
pub(super) async fn form(State(console): State<Arc<Console>>, request: Request) -> Response {
    match arrive(&console, "/console/sign-in", request).await {
        Ok(Arrival { fields, .. }) => sign_in_page(StatusCode::OK, fields.get("to"), ""),
        Err(page) => page,
    }
}

fn sign_in_page(status: StatusCode, to: &str, problem: &str) -> Response {
    html(status, SignInPage { to, problem }.render().unwrap_or_default())
}

/// Makes a session of a key. A wrong key counts as one of the API does.
pub(super) async fn sign_in(State(console): State<Arc<Console>>, request: Request) -> Response {
    const WRONG: &str = "This key is unknown, revoked or expired, or its account is inactive. Paste \
                         the whole key; it begins with gp_.";
    let arrival = match arrive(&console, "/console/sign-in", request).await {
        Ok(arrival) => arrival,
        Err(page) => return page,
    };
    let (key, from) = (arrival.fields.get("key"), browser(&arrival));
    let look_up = console.http.use_cases.access.sign_in(key, from);
    let entry = Entry { hash: token::hash(key), to: arrival.fields.get("to"), wrong: WRONG };
    enter(&console, &arrival, entry, look_up).await
}

/// A try to begin a session.
struct Entry<'e> {
    /// The hash of the key or the ticket; None if it is malformed.
    hash: Option<KeyHash>,
    /// The page to go to.
    to: &'e str,
    /// The words for one that opens nothing.
    wrong: &'e str,
}

/// Begins a session, within the rates of its key and of its address, and ends the one that the
/// browser had before.
async fn enter(
    console: &Console,
    arrival: &Arrival,
    entry: Entry<'_>,
    look_up: impl Future<Output = Result<SignedIn, Denied>>,
) -> Response {
    let Entry { hash, to, wrong } = entry;
    let (from, trace) = (arrival.from, &arrival.trace);
    let rated = RatedClient { hash, from, effect: Effect::Write, trace };
    let problem: Problem = match within_rates(&console.http, rated, look_up).await {
        Ok(signed_in) => {
            if let Some(former) = secret_of(console, &arrival.parts.headers) {
                // Unless the store fails, when it ends by itself.
                let _ended =
                    console.http.use_cases.access.sign_out(&former, &browser(arrival)).await;
            }
            return entered(console, &signed_in, to);
        }
        Err(error) => error.into(),
    };
    match problem.code {
        Code::Unauthorized => told(sign_in_page(problem.code.status(), to, wrong), &problem),
        Code::RateLimited => {
            told(sign_in_page(problem.code.status(), to, &problem.detail), &problem)
        }
        _ => problem_page(&problem, None),
    }
}

fn browser(arrival: &Arrival) -> Browser {
    let client = arrival.parts.headers.get(USER_AGENT).and_then(|value| value.to_str().ok());
    Browser {
        remote: Some(arrival.from),
        client: client.map(str::to_owned),
        request: Some(arrival.trace.request()),
    }
}

/// Gives the browser its cookie, and leads to the page that was asked for.
fn entered(console: &Console, signed_in: &SignedIn, to: &str) -> Response {
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
    // The prefix of the name needs the whole host as path.
    let path = if console.secure { "/; Secure" } else { "/console" };
    let name = name(console);
    let cookie =
        format!("{name}={secret}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Strict");
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
}

/// Ends the session of this browser.
pub(super) async fn sign_out(State(console): State<Arc<Console>>, request: Request) -> Response {
    let arrival = match arrive(&console, "/console/sign-out", request).await {
        Ok(arrival) => arrival,
        Err(page) => return page,
    };
    let secret = secret_of(&console, &arrival.parts.headers).unwrap_or_default();
    if !csrf_matches(&secret, arrival.fields.get("csrf")) {
        let detail = "this button is of another session: open the console again and sign out there";
        return problem_page(&Problem::new(Code::Forbidden, detail), None);
    }
    if let Err(denied) = console.http.use_cases.access.sign_out(&secret, &browser(&arrival)).await {
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
pub(super) async fn ticket(State(console): State<Arc<Console>>, request: Request) -> Response {
    let arrival = match arrive(&console, "/console/open", request).await {
        Ok(arrival) => arrival,
        Err(page) => return page,
    };
    // Anything else, like a key, is not repeated (threats W10).
    let sent = arrival.fields.get("ticket");
    let ticket = if token::SESSION.hash(sent).is_some() { sent } else { "" };
    let page = OpenPage { ticket };
    html(StatusCode::OK, page.render().unwrap_or_default())
}

/// Makes a session of a link.
pub(super) async fn open(State(console): State<Arc<Console>>, request: Request) -> Response {
    const USED: &str = "This link was used before, or has expired. Ask for another, or sign in with \
                        a key.";
    let arrival = match arrive(&console, "/console/open", request).await {
        Ok(arrival) => arrival,
        Err(page) => return page,
    };
    let (ticket, from) = (arrival.fields.get("ticket"), browser(&arrival));
    let look_up = console.http.use_cases.access.open_link(ticket, from);
    let entry = Entry { hash: token::SESSION.hash(ticket), to: "", wrong: USED };
    enter(&console, &arrival, entry, look_up).await
}

#[derive(Template)]
#[template(path = "sessions.html", config = "src/console/templates/askama.toml")]
struct SessionsPage {
    frame: Frame,
    sessions: Vec<SessionRow>,
    /// Links that nobody has opened yet.
    links: Vec<LinkRow>,
}

struct SessionRow {
    id: String,
    is_own: bool,
    began: String,
    ends: String,
    remote: String,
    client: String,
}

struct LinkRow {
    id: String,
    account: i64,
    key: String,
    made: String,
    ends: String,
}

/// The account of the page, or the member that visits it and is no administrator: its own sessions
/// are in its reach.
fn reach(visit: &Visit) -> i64 {
    let member = visit.api.caller.member.as_ref();
    let own = member.filter(|_| !visit.api.caller.is_administrator());
    own.map_or(visit.account, |member| member.id.get())
}

/// Lists the sessions in reach, and the links that nobody has opened yet.
pub(super) async fn list(visit: Visit) -> Result<Answer, Problem> {
    let target = visit.api.target(reach(&visit), READ, NAME).await?;
    let access = &visit.console.http.use_cases.access;
    let (found, links) = (access.sessions(&target).await?, access.links(&target).await?);
    let shown = |at: Timestamp| at.to_string();
    let link = |link: ConsoleSession| LinkRow {
        id: link.id.0.to_string(),
        account: link.account.get(),
        key: link.key.to_string(),
        made: shown(link.created_at),
        ends: shown(link.expires_at),
    };
    let links = links.into_iter().map(link).collect();
    let row = |session: ConsoleSession| SessionRow {
        is_own: session.id.0 == visit.session,
        id: session.id.0.to_string(),
        began: shown(session.created_at),
        ends: shown(session.expires_at),
        remote: session.remote.map_or_else(String::new, |remote| remote.to_string()),
        client: session.client.unwrap_or_default(),
    };
    let sessions = found.into_iter().map(row).collect();
    Answer::page(&SessionsPage { frame: visit.frame(Section::Sessions).await?, sessions, links })
}

/// Ends a session, or withdraws a link.
pub(super) async fn end(visit: Visit) -> Result<Answer, Problem> {
    let target = visit.api.target(reach(&visit), WRITE, NAME).await?;
    let (what, done) = match visit.form.get("link") {
        "" => ("session", "ended"),
        _ => ("link", "withdrawn"),
    };
    let id = visit.form.get(what).parse().map_err(|_| Problem::not_found(what))?;
    let access = &visit.console.http.use_cases.access;
    if !access.end_session(&target, ConsoleSessionId(id), visit.api.actor()).await? {
        return Err(Problem::not_found(what));
    }
    Ok(visit.see("/sessions", done))
}
