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
use crate::http::request::call::{Call, STREAM};
use crate::http::routes::event_stream::{self, Stream};
use crate::http::routes::event_view::{FollowedEvents, View, WantedEvents};
use crate::http::typed::description::DescribedSuccess;
use crate::http::typed::schema::{Fields, reference};
use crate::http::typed::{Answers, Limit, WithHeaders, page, successes};
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

/// A page, or an event stream.
#[derive(Debug)]
pub enum Followed {
    Page(WithHeaders<Listed>),
    Stream(Response),
}

impl Answers for Followed {
    fn described(generator: &mut SchemaGenerator) -> Vec<DescribedSuccess> {
        let mut answers = Listed::described(generator);
        answers.iter_mut().for_each(|answer| answer.also = Some(STREAM));
        answers
    }

    fn request_headers() -> Fields {
        let about = "The last event that the client saw: the answer continues with newer events, \
                     as by after. A stream prefers it to after; a page takes one of the two.";
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
pub async fn list(call: Call, request: List) -> Result<Followed, Problem> {
    let limit = page::limit(&call, request.limit);
    let wait = wait_time(&call, request.wait)?;
    let (category, name) = (request.category.map(|Word(it)| it), request.event.map(|Word(it)| it));
    let wanted = WantedEvents::of(category, name, request.since.map(|Moment(at)| at))?;
    let followed = FollowedEvents::of(&call, wanted)?;
    let scope = &followed.view.scope;
    let last_seen = last_seen(&call, &request)?;
    let begin = match (last_seen, request.since) {
        (Some(Id(id)), _) => Begin::After(EventId(id)),
        (None, Some(Moment(since))) => Begin::Since(since),
        (None, None) if call.wants_stream() => Begin::Now,
        (None, None) => Begin::Oldest,
    };
    let waiting = match wait.is_some() || call.wants_stream() {
        true => Some(register_waiting(&call, scope)?),
        false => None,
    };
    let log = &call.http.use_cases.events;
    let after = match log.begin(scope, begin).await? {
        Beginning::At(after) => after,
        Beginning::Later => return Err(not_placed_yet()),
        Beginning::Unknown => return Err(unknown_event()),
    };
    match waiting {
        Some(waiting) if call.wants_stream() => {
            let after = EventPlace { event: log.mark(scope, after).await?, position: after };
            let stream = Stream::new(followed, waiting, after);
            Ok(Followed::Stream(event_stream::response(stream)))
        }
        waiting => {
            let patience =
                wait.zip(waiting).map(|(longest, waiting)| Patience { longest, waiting });
            let page = read(followed, patience, after, limit).await?;
            let next = page.last.map(|last| Id(last.event.0)).or(last_seen);
            // `since` is left out, because it gives a position, too.
            let link = next.map(|Id(id)| vec![("after", Some(id.to_string())), ("since", None)]);
            let bodies = page.part.events.iter();
            // Each body is byte for byte that of a webhook.
            let bodies = bodies.filter_map(|event| std::str::from_utf8(&event.body).ok());
            let listed = Listed { events: page::list(bodies)?, next, more: page.more };
            Ok(Followed::Page(page::followed_with(&call, link, listed)))
        }
    }
}

/// Shows all events with their schemas
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ShowCatalog {}

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
    Listed {
        /// Oldest first.
        events: Texts<Event>,
        /// The last event examined. Send it as `after` to continue.
        next: Option<Id>,
        /// Whether more may follow already: if so, continue. If not, you have all events up to your
        /// request.
        more: bool,
    } = OK "events found", pages;
    Catalog {
        /// All events.
        events: Vec<Entry>
    } = OK "events found";
}

pub async fn catalog(_: Call, _: ShowCatalog) -> Result<Catalog, Problem> {
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

/// How a request waits for an event.
struct Patience {
    longest: Duration,
    waiting: Waiting,
}

/// Reads the next part of the log, waiting for it if requested, until the soft stop at the latest.
/// Waits also while committed events have no position yet.
async fn read(
    mut followed: FollowedEvents,
    patience: Option<Patience>,
    mut after: i64,
    limit: u32,
) -> Result<Page, Problem> {
    let http = Arc::clone(&followed.http);
    let log = &http.use_cases.events;
    let bounds = EventLogBounds { events: limit, octets: http.rules.limits.max_page_bytes };
    let mut behind = log.is_behind();
    let View { scope, filter } = &followed.view;
    let part = log.read(scope, filter, after, bounds).await?;
    let (mut passed, mut is_over) = (part.last, false);
    let is_shown = patience.is_none() || part.more || !part.events.is_empty();
    let (Some(Patience { longest, waiting }), false) = (patience, is_shown) else {
        let more = part.more || behind;
        return Ok(Page { part, last: passed, more });
    };
    let until = Instant::now() + longest;
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
            let View { scope, filter } = &followed.view;
            let next = log.read_on(scope, filter, after, bounds).await?;
            // Checked after reading: events after a key's end are shown to nobody.
            let now = followed.current_view().await?;
            if now == followed.view {
                break next;
            }
            waiting.concern(&now.scope);
            // The event before may be out of view now, so a new id marks the position.
            let event = log.mark(&now.scope, after).await?;
            followed.view = now;
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

fn register_waiting(call: &Call, scope: &Scope) -> Result<Waiting, Problem> {
    let (key, account) = (call.caller.key.id, call.caller.account.id);
    Ok(call.http.use_cases.events.wait(key, account, scope)?)
}

/// How long the request may wait for an event; None if it must not wait.
fn wait_time(call: &Call, seconds: Option<u64>) -> Result<Option<Duration>, Problem> {
    let Some(seconds) = seconds else { return Ok(None) };
    if call.wants_stream() {
        return Err(Problem::invalid("wait is for lists: a stream waits by itself"));
    }
    // Leaves time to answer within the request's deadline.
    let longest = call.http.rules.limits.request() * 9 / 10;
    Ok(Some(Duration::from_secs(seconds).min(longest)).filter(|wait| !wait.is_zero()))
}

/// The event after which the client continues: by `after`, or by `Last-Event-ID`. A stream that
/// reconnects repeats the URL of its first request, so its header is newer. Whoever asks for a page
/// chooses both, so two places are refused: following one would show events again, or never.
fn last_seen(call: &Call, request: &List) -> Result<Option<Id>, Problem> {
    if request.after.is_some() && request.since.is_some() {
        return Err(Problem::invalid("after and since exclude each other: send one"));
    }
    let Some(text) = call.last_event_id() else { return Ok(request.after) };
    let detail = "Last-Event-ID must be the id of an event, as answers show it";
    let last = wire::uuid(text).ok_or_else(|| Problem::invalid(detail))?;
    let differs = request.since.is_some() || request.after.is_some_and(|Id(id)| id != last);
    if differs && !call.wants_stream() {
        let detail = "the header Last-Event-ID and the parameter after or since say two places: \
                      send one";
        return Err(Problem::invalid(detail));
    }
    Ok(Some(Id(last)))
}

/// 503: the event is in a backlog whose order is not decided yet.
fn not_placed_yet() -> Problem {
    let detail = "this event has no place in the log yet because many events wait: try again after \
                  the time in Retry-After";
    Problem::new(Code::Unavailable, detail)
}

/// 404, the same for erased events, for those of others and for unknown ids.
fn unknown_event() -> Problem {
    let detail = "unknown or expired event: start again without after and Last-Event-ID, or with \
                  since";
    Problem::new(Code::NotFound, detail)
}
