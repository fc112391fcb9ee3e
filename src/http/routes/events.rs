//! `/events`: what happened, pulled by whoever has no URL that a webhook could be sent to.
//!
//! A list, a list that waits, and a stream of the same log, in the same order, with the same bodies.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::super::answer::{json, success};
use super::super::call::{Again, Call};
use super::super::error::{Code, Problem};
use super::super::page;
use super::super::state::Http;
use super::event_stream::{self, Stream};
use super::event_view::{View, Wanted};
use crate::app::delivery::{Begin, Begun, Part, Waiting, catalog};
use crate::domain::id::EventId;
use crate::domain::scope::Scope;
use crate::store::EventPlace;
use crate::wire;

/// What a reader may ask for.
pub(in super::super) const LIST: &[&str] = &["after", "since", "type", "event", "limit", "wait"];

/// The events behind a place, oldest first; with `wait`, as soon as there are any. As a stream, where
/// that is what the request accepts.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let limit = page::limit(&call, &http.rules)?;
    let wait = wait(&http, &call)?;
    let wanted = Wanted::of(&call)?;
    let view = wanted.view(call.caller(), call.target().clone())?;
    let begin = begin(&call)?;
    let waiting = match wait.is_some() || call.wants_stream() {
        true => Some(place(&http, &call, &view.scope)?),
        false => None,
    };
    let log = &http.use_cases.events;
    let after = match log.begin(&view.scope, begin).await? {
        Begun::At(after) => after,
        Begun::Later => return Err(later(&http)),
        Begun::Unknown => return Err(unknown()),
    };
    match waiting {
        Some(waiting) if call.wants_stream() => {
            let mark = log.mark(&view.scope, after).await?;
            let from = (after, mark);
            let stream = Stream::new(http, call.again(), (wanted, view), waiting, from);
            Ok(event_stream::response(stream))
        }
        waiting => {
            let patience = wait.zip(waiting);
            let page =
                read(&http, &call.again(), (&wanted, view), patience, (after, limit)).await?;
            Ok(shown(&page, call.query().get("after")))
        }
    }
}

/// All events with their schemas.
pub(in super::super) async fn catalog(_: Arc<Http>, _: Call) -> Result<Response, Problem> {
    let shape = |entry: catalog::Entry| {
        json!({
            "event": entry.name.as_str(),
            "type": entry.name.category().as_str(),
            "description": entry.description,
            "schema": entry.schema,
        })
    };
    let events: Vec<Value> = catalog::catalog().into_iter().map(shape).collect();
    Ok(success(StatusCode::OK, "events found", json!({ "events": events })))
}

/// An answer of the list.
struct Page {
    part: Arc<Part>,
    /// Up to where the log was read.
    last: Option<EventPlace>,
    /// More may be committed by now.
    more: bool,
}

/// The next part of the log, as soon as there is any. More may follow also where more is committed
/// than has its place: that is no reason not to wait.
async fn read(
    http: &Http,
    again: &Again,
    (wanted, mut view): (&Wanted, View),
    patience: Option<(Duration, Waiting)>,
    (mut after, limit): (i64, u32),
) -> Result<Page, Problem> {
    let log = &http.use_cases.events;
    let bounds = (limit, http.rules.limits.max_page_bytes);
    let mut behind = log.is_behind();
    let part = log.read(&view.scope, &view.filter, after, bounds).await?;
    let (mut passed, mut is_over) = (part.last, false);
    let is_shown = patience.is_none() || part.more || !part.events.is_empty();
    let (Some((patience, waiting)), false) = (patience, is_shown) else {
        let more = part.more || behind;
        return Ok(Page { part, last: passed, more });
    };
    let until = Instant::now() + patience;
    while !is_over {
        after = passed.map_or(after, |last| last.position);
        is_over = tokio::select! {
            woken = timeout_at(until, waiting.changed()) => woken.is_err(),
            () = http.shutdown.soft() => true,
        };
        // Again at once, where the request sees something else by now: what woke it may be in that.
        // Each turn needs a change of rights, and the request has its time.
        let next = loop {
            behind = log.is_behind();
            let next = log.read_on(&view.scope, &view.filter, after, bounds).await?;
            // Asked when it has been read: what happened after a key ended is shown to nobody.
            let now = wanted.again(http, again).await?;
            if now == view {
                break next;
            }
            view = now;
            waiting.concern(&view.scope);
            // The event before may be one that the request does not see any more.
            let event = log.mark(&view.scope, after).await?;
            passed = Some(EventPlace { event, position: after });
        };
        passed = next.last.or(passed);
        if next.more || !next.events.is_empty() {
            let more = next.more || behind;
            return Ok(Page { part: next, last: passed, more });
        }
    }
    Ok(Page { part: Arc::default(), last: passed, more: behind })
}

fn shown(page: &Page, after: Option<&str>) -> Response {
    let events = page.part.events.iter();
    let bodies: Vec<&str> =
        events.filter_map(|event| std::str::from_utf8(&event.body).ok()).collect();
    let next = page.last.map(|last| last.event.to_string());
    let next = json!(next.as_deref().or(after));
    // Put together as text, so that each body is byte for byte what a webhook sends.
    let text = format!(
        "{{\"success\":true,\"message\":\"events found\",\"events\":[{}],\"next\":{next},\
         \"more\":{}}}",
        bodies.join(","),
        page.more
    );
    json(StatusCode::OK, text)
}

fn place(http: &Http, call: &Call, scope: &Scope) -> Result<Waiting, Problem> {
    let holder = (call.caller().key.id, call.caller().account.id);
    let waiting = http.use_cases.events.wait(holder, scope);
    waiting.map_err(|full| {
        let retry_after = Some(http.rules.limits.retry_after_seconds);
        Problem { retry_after, ..Problem::new(Code::RateLimited, full.to_string()) }
    })
}

/// How long the answer may wait for an event.
fn wait(http: &Http, call: &Call) -> Result<Option<Duration>, Problem> {
    let Some(text) = call.query().get("wait") else { return Ok(None) };
    if call.wants_stream() {
        return Err(Problem::invalid("wait is for lists: a stream waits by itself"));
    }
    let most = http.rules.events.max_wait_seconds;
    let seconds = text.parse().ok().filter(|seconds: &u64| seconds.to_string() == text);
    let seconds = seconds.filter(|seconds| *seconds <= most).ok_or_else(|| {
        Problem::invalid(format!("wait must be a whole number of seconds from 0 to {most}"))
    })?;
    // The request must be answered in time.
    let longest = http.rules.limits.request() * 9 / 10;
    Ok(Some(Duration::from_secs(seconds).min(longest)).filter(|wait| !wait.is_zero()))
}

fn begin(call: &Call) -> Result<Begin, Problem> {
    let after = call.query().get("after");
    // A client that connects again sends the URL of its first request: the header is newer.
    let after = call.last_event_id().filter(|_| call.wants_stream()).or(after);
    match (after, call.time("since")?) {
        (Some(text), None) => {
            wire::uuid(text).map(|id| Begin::After(EventId(id))).ok_or_else(|| {
                Problem::invalid(
                    "after (or Last-Event-ID) must be the id of an event, as answers show it",
                )
            })
        }
        (None, Some(since)) => Ok(Begin::Since(since)),
        (Some(_), Some(_)) if call.query().get("after").is_some() => {
            Err(Problem::invalid("after and since exclude each other: send one"))
        }
        (Some(text), Some(_)) => wire::uuid(text)
            .map(|id| Begin::After(EventId(id)))
            .ok_or_else(|| Problem::invalid("Last-Event-ID must be the id of an event")),
        (None, None) if call.wants_stream() => Ok(Begin::Now),
        (None, None) => Ok(Begin::Oldest),
    }
}

/// A backlog is being put in order, and the event is in it.
fn later(http: &Http) -> Problem {
    let detail = "the event to go on behind has no place in the log yet, which many events wait for: \
                  try again later";
    let retry_after = Some(http.rules.limits.retry_after_seconds);
    Problem { retry_after, ..Problem::new(Code::Unavailable, detail) }
}

/// One answer for what was erased, what is another's and what never was.
fn unknown() -> Problem {
    let detail = "the event to go on behind is not in this log: it is not kept any more, or never was \
                  here; begin anew without after and Last-Event-ID, or with since";
    Problem::new(Code::NotFound, detail)
}
