//! `/events`: the log of events, for clients without a URL for webhooks.
//!
//! A list, a waiting list, and a stream: the same log, order and bodies.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout_at};

use crate::app::delivery::{Begin, Beginning, EventLogBounds, EventLogPage, Waiting, catalog};
use crate::domain::event::{Category, EventName};
use crate::domain::id::EventId;
use crate::domain::scope::Scope;
use crate::http::error::{Code, Problem};
use crate::http::request::call::{Again, Call, STREAM};
use crate::http::routes::event_stream::{self, Stream};
use crate::http::routes::event_view::{View, WantedEvents};
use crate::http::state::Http;
use crate::http::typed::description::DescribedSuccess;
use crate::http::typed::page;
use crate::http::typed::schema::{Fields, reference};
use crate::http::typed::{Answers, Headed, Limit, successes};
use crate::store::EventPlace;
use crate::wire::{self, Id, Moment, Texts, Word};

/// Lists events
///
/// Oldest first. With `wait` the answer waits for an event; with `Accept: text/event-stream` it is
/// a stream. Send the id of the last event as `after` to continue: no event is shown twice.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {
    /// Only events after this one: `next`, or the id of an event.
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
    /// Oldest first.
    events: Texts<Event>,
    /// The last event examined. Send it as `after` to continue.
    next: Option<Id>,
    /// Whether more may follow already: if so, continue. If not, you have all events up to your
    /// request.
    more: bool,
}

/// A page, or an event stream.
#[derive(Debug)]
pub enum Followed {
    Page(Headed<Listed>),
    Stream(Response),
}

impl Answers for Followed {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        let mut answers = Listed::described(generator);
        answers.iter_mut().for_each(|answer| answer.also = Some(STREAM));
        answers
    }

    fn heeds() -> Fields {
        let about = "The last event that the client of a stream saw: the stream continues with \
                     newer events.";
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

/// Returns the events after a position, oldest first; with `wait`, as soon as there are any; or a
/// stream, if the client accepts one.
pub async fn list(http: Arc<Http>, call: Call, asked: List) -> Result<Followed, Problem> {
    let limit = page::at_most(asked.limit, &http.rules);
    let wait = wait(&http, &call, asked.wait)?;
    let (category, name) = (asked.category.map(|Word(it)| it), asked.event.map(|Word(it)| it));
    let wanted = WantedEvents::of(category, name, asked.since.map(|Moment(at)| at))?;
    let view = wanted.view(call.caller(), call.target().clone())?;
    let begin = begin(&call, &asked)?;
    let waiting = match wait.is_some() || call.wants_stream() {
        true => Some(place(&http, &call, &view.scope)?),
        false => None,
    };
    let log = &http.use_cases.events;
    let after = match log.begin(&view.scope, begin).await? {
        Beginning::At(after) => after,
        Beginning::Later => return Err(later(&http)),
        Beginning::Unknown => return Err(unknown()),
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
            // `since` is left out, because it gives a position, too.
            let link = next.map(|Id(id)| vec![("after", Some(id.to_string())), ("since", None)]);
            let listed = Listed { events: bodies(&page.part)?, next, more: page.more };
            Ok(Followed::Page(page::followed_with(&call, link, listed)))
        }
    }
}

/// Each body is byte for byte that of a webhook.
fn bodies(part: &EventLogPage) -> Result<Texts<Event>, Problem> {
    let bodies = part.events.iter().filter_map(|event| std::str::from_utf8(&event.body).ok());
    let array = format!("[{}]", bodies.collect::<Vec<_>>().join(","));
    Texts::of(array).map_err(|error| Problem::internal(error.to_string()))
}

/// Shows all events with their schemas
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowCatalog {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Catalog {
    /// All events.
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

/// A page of the list.
struct Page {
    part: Arc<EventLogPage>,
    /// The last position read.
    last: Option<EventPlace>,
    /// More may be committed already.
    more: bool,
}

/// Reads the next part of the log, waiting for it if requested. Events that are committed but have
/// no position yet are no reason not to wait.
async fn read(
    http: &Http,
    again: &Again,
    (wanted, mut view): (&WantedEvents, View),
    patience: Option<(Duration, Waiting)>,
    (mut after, limit): (i64, u32),
) -> Result<Page, Problem> {
    let log = &http.use_cases.events;
    let bounds = EventLogBounds { events: limit, octets: http.rules.limits.max_page_bytes };
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
        // Read again at once if the view has changed, because the event that woke this request may
        // be in the new view. Each turn needs a change of rights, and the request has a deadline.
        let next = loop {
            behind = log.is_behind();
            let next = log.read_on(&view.scope, &view.filter, after, bounds).await?;
            // Checked after reading: events after a key's end are shown to nobody.
            let now = wanted.again(http, again).await?;
            if now == view {
                break next;
            }
            view = now;
            waiting.concern(&view.scope);
            // The event before may be out of view now, so a new id marks the position.
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
    let caller = call.caller();
    let waiting = http.use_cases.events.wait(caller.key.id, caller.account.id, scope);
    waiting.map_err(|full| {
        let retry_after = Some(http.rules.limits.retry_after_seconds);
        Problem { retry_after, ..Problem::new(Code::RateLimited, full.to_string()) }
    })
}

/// How long the request may wait for an event; None if it must not wait.
fn wait(http: &Http, call: &Call, seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    if call.wants_stream() {
        return Err(Problem::invalid("wait is for lists: a stream waits by itself"));
    }
    // Leaves time to answer within the request's deadline.
    let longest = http.rules.limits.request() * 9 / 10;
    Ok(Some(Duration::from_secs(seconds).min(longest)).filter(|wait| !wait.is_zero()))
}

fn begin(call: &Call, asked: &List) -> Result<Begin, Problem> {
    if asked.after.is_some() && asked.since.is_some() {
        return Err(Problem::invalid("after and since exclude each other: send one"));
    }
    // A reconnecting client repeats the URL of its first request: the header is newer.
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

/// 503: the event is in a backlog whose order is not decided yet.
fn later(http: &Http) -> Problem {
    let detail = "this event has no place in the log yet because many events wait: try again after \
                  the time in Retry-After";
    let retry_after = Some(http.rules.limits.retry_after_seconds);
    Problem { retry_after, ..Problem::new(Code::Unavailable, detail) }
}

/// 404, the same for erased events, for those of others and for unknown ids.
fn unknown() -> Problem {
    let detail = "unknown or expired event: start again without after and Last-Event-ID, or with \
                  since";
    Problem::new(Code::NotFound, detail)
}
