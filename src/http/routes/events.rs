//! `/events`: what happened, pulled by whoever has no URL that a webhook could be sent to.
//!
//! A list, a list that waits, and a stream of the same log, in the same order, with the same bodies.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use crate::app::delivery::{Begin, Begun, Part, Waiting, catalog};
use crate::domain::event::{Category, EventName};
use crate::domain::id::EventId;
use crate::domain::scope::Scope;
use crate::http::error::{Code, Problem};
use crate::http::request::call::{Again, Call, STREAM};
use crate::http::routes::event_stream::{self, Stream};
use crate::http::routes::event_view::{View, Wanted};
use crate::http::state::Http;
use crate::http::typed::description::Answer;
use crate::http::typed::page;
use crate::http::typed::schema::{Fields, reference};
use crate::http::typed::{Answers, Headed, Limit, successes};
use crate::store::EventPlace;
use crate::wire::{self, Id, Moment, Texts, Word};

/// Lists events
///
/// Oldest first. With `wait` the answer waits for an event; with `Accept: text/event-stream` it is a
/// stream. Send the id of the last event as `after` to continue: no event is shown twice.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    /// Only items after this one: `next`, or the id of an item.
    after: Option<Id>,
    /// Only events from then on.
    since: Option<Moment>,
    /// Only events of this category.
    #[serde(rename = "type")]
    category: Option<Word<Category>>,
    /// Only this event.
    event: Option<Word<EventName>>,
    limit: Option<Limit>,
    /// How many seconds to wait for an event.
    #[schemars(extend("maximum" = "events.max_wait_seconds"))]
    wait: Option<u64>,
}

/// An event, as a webhook gets it in full: `catalog` describes each.
#[derive(Debug)]
struct Event;

impl JsonSchema for Event {
    fn schema_name() -> Cow<'static, str> {
        "Event".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let full: Vec<_> = EventName::ALL.iter().map(|name| reference(name.as_str())).collect();
        json_schema!({
            "description": "An event, as a webhook gets it in full.", "anyOf": full,
        })
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Listed {
    /// The oldest first.
    events: Texts<Event>,
    /// The last event that was looked at. Send it as `after` to get the next page.
    next: Option<Id>,
    /// Whether more may follow already: go on. If not, you have read all that was there when you asked.
    more: bool,
}

/// A page, or a stream that goes on.
#[derive(Debug)]
pub enum Followed {
    Page(Headed<Listed>),
    Stream(Response),
}

impl Answers for Followed {
    fn described(generator: &mut SchemaGenerator) -> Vec<Answer> {
        let mut answers = Listed::described(generator);
        answers.iter_mut().for_each(|answer| answer.also = Some(STREAM));
        answers
    }

    fn heeds() -> Fields {
        let about = "The last event that a client of a stream saw: only newer ones follow.";
        let id = json!({ "type": "string", "format": "uuid", "description": about });
        vec![("Last-Event-ID?", id)]
    }

    fn response(self) -> Result<Response, Problem> {
        match self {
            Self::Page(page) => page.response(),
            Self::Stream(response) => Ok(response),
        }
    }
}

/// The events behind a place, oldest first; with `wait`, as soon as there are any. As a stream, where
/// that is what the request accepts.
pub async fn list(http: Arc<Http>, call: Call, asked: List) -> Result<Followed, Problem> {
    let limit = page::at_most(asked.limit, &http.rules);
    let wait = wait(&http, &call, asked.wait)?;
    let (category, name) = (asked.category.map(|Word(it)| it), asked.event.map(|Word(it)| it));
    let wanted = Wanted::of(category, name, asked.since.map(|Moment(at)| at))?;
    let view = wanted.view(call.caller(), call.target().clone())?;
    let begin = begin(&call, &asked)?;
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
            Ok(Followed::Stream(event_stream::response(stream)))
        }
        waiting => {
            let patience = wait.zip(waiting);
            let page =
                read(&http, &call.again(), (&wanted, view), patience, (after, limit)).await?;
            let next = page.last.map(|last| Id(last.event.0)).or(asked.after);
            let link = next.map(|Id(id)| ("after", id.to_string()));
            let listed = Listed { events: bodies(&page.part)?, next, more: page.more };
            Ok(Followed::Page(page::followed(&call, "/events", link, listed)))
        }
    }
}

/// Each body is byte for byte what a webhook sends.
fn bodies(part: &Part) -> Result<Texts<Event>, Problem> {
    let bodies = part.events.iter().filter_map(|event| std::str::from_utf8(&event.body).ok());
    let array = format!("[{}]", bodies.collect::<Vec<_>>().join(","));
    Texts::of(array).map_err(|error| Problem::internal(error.to_string()))
}

/// Shows all events with their schemas
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowCatalog {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Catalog {
    /// All of them.
    events: Vec<Entry>,
}

/// An event of the catalogue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Entry {
    /// The name.
    event: Word<EventName>,
    /// The category: webhooks of this type get the event.
    #[serde(rename = "type")]
    category: Word<Category>,
    /// When the event happens.
    description: &'static str,
    /// The bodies, as JSON Schema.
    #[schemars(with = "Map<String, Value>")]
    schema: Value,
}

successes! {
    Listed = OK "events found", pages;
    Catalog = OK "events found";
}

pub async fn catalog(_: Arc<Http>, _: Call, _: ShowCatalog) -> Result<Catalog, Problem> {
    let entry = |entry: catalog::Entry| {
        let (name, description, schema) = (entry.name, entry.description, entry.schema);
        Entry { event: Word(name), category: Word(name.category()), description, schema }
    };
    Ok(Catalog { events: catalog::catalog().into_iter().map(entry).collect() })
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

fn place(http: &Http, call: &Call, scope: &Scope) -> Result<Waiting, Problem> {
    let holder = (call.caller().key.id, call.caller().account.id);
    let waiting = http.use_cases.events.wait(holder, scope);
    waiting.map_err(|full| {
        let retry_after = Some(http.rules.limits.retry_after_seconds);
        Problem { retry_after, ..Problem::new(Code::RateLimited, full.to_string()) }
    })
}

/// How long the answer may wait for an event.
fn wait(http: &Http, call: &Call, seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    if call.wants_stream() {
        return Err(Problem::invalid("wait is for lists: a stream waits by itself"));
    }
    // The request must be answered in time.
    let longest = http.rules.limits.request() * 9 / 10;
    Ok(Some(Duration::from_secs(seconds).min(longest)).filter(|wait| !wait.is_zero()))
}

fn begin(call: &Call, asked: &List) -> Result<Begin, Problem> {
    if asked.after.is_some() && asked.since.is_some() {
        return Err(Problem::invalid("after and since exclude each other: send one"));
    }
    // A client that connects again sends the URL of its first request: the header is newer.
    let last = call.last_event_id().filter(|_| call.wants_stream()).map(|text| {
        let detail = "Last-Event-ID must be the id of an event, as answers show it";
        wire::uuid(text).ok_or_else(|| Problem::invalid(detail))
    });
    let after = last.transpose()?.or(asked.after.map(|Id(id)| id));
    Ok(match (after, asked.since) {
        (Some(id), _) => Begin::After(EventId(id)),
        (None, Some(Moment(since))) => Begin::Since(since),
        (None, None) if call.wants_stream() => Begin::Now,
        (None, None) => Begin::Oldest,
    })
}

/// A backlog is being put in order, and the event is in it.
fn later(http: &Http) -> Problem {
    let detail = "this event is not in order yet because many events wait: try again after the time in \
                  Retry-After";
    let retry_after = Some(http.rules.limits.retry_after_seconds);
    Problem { retry_after, ..Problem::new(Code::Unavailable, detail) }
}

/// One answer for what was erased, what is another's and what never was.
fn unknown() -> Problem {
    let detail =
        "unknown or expired event: start again without after and Last-Event-ID, or with since";
    Problem::new(Code::NotFound, detail)
}
