//! The log of events as a stream (HTML, "Server-sent events").
//!
//! Events are read a few at a time, as fast as the connection takes them: nothing is held in memory
//! for a slow reader. A client that reconnects continues after the last id that it got. So it gets
//! an id even before the first event, and after passing over many events. Before any event is sent,
//! key and rights are checked again. The stream ends when they are lost, when the store fails, at
//! the soft stop, and at the age limit of its connection.

use std::convert::Infallible;
use std::fmt::Write as _;

use axum::body::Bytes;
use axum::response::Response;
use futures_util::stream;
use tokio::time::{Instant, sleep_until};

use crate::app::delivery::{EventLogBounds, RenderedEvent, Waiting};
use crate::domain::id::EventId;
use crate::http::connection::endless::endless;
use crate::http::routes::event_view::FollowedEvents;
use crate::store::EventPlace;

/// A stream being read.
pub(super) struct Stream {
    followed: FollowedEvents,
    waiting: Waiting,
    after: i64,
    /// The last position read while the request had unchanged rights.
    sure: i64,
    /// An id that the client has not got yet, to continue from.
    unsent_id: Option<EventId>,
    /// The age limit.
    until: Instant,
    heartbeat: Instant,
    check: Instant,
    state: State,
}

enum State {
    Opened,
    Running,
    Ended,
}

enum Next {
    Text(Bytes),
    /// There may be new events.
    Look,
    End,
}

impl Stream {
    /// A stream of the events after this place.
    pub(super) fn new(followed: FollowedEvents, waiting: Waiting, after: EventPlace) -> Self {
        let (now, rules) = (Instant::now(), &followed.http.rules);
        let until = now + rules.connections.lifetime();
        let (heartbeat, check) = (now + rules.events.heartbeat(), now + rules.events.check());
        Self {
            followed,
            waiting,
            after: after.position,
            sure: after.position,
            unsent_id: Some(after.event),
            until,
            heartbeat,
            check,
            state: State::Opened,
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::Opened => {
                self.state = State::Running;
                return Some(format!(": events follow\n{}{}", self.mark(), self.retry()).into());
            }
            State::Running => {}
            State::Ended => return None,
        }
        loop {
            match self.look().await {
                Next::Text(text) => {
                    self.heartbeat = Instant::now() + self.followed.http.rules.events.heartbeat();
                    return Some(text);
                }
                Next::Look => {}
                Next::End => {
                    self.state = State::Ended;
                    return Some(self.retry().into());
                }
            }
        }
    }

    /// An id without data is no event, but the client remembers it.
    fn mark(&mut self) -> String {
        self.unsent_id.take().map(|id| format!("id: {id}\n")).unwrap_or_default()
    }

    fn retry(&self) -> String {
        format!("retry: {}\n\n", self.followed.http.rules.events.retry_millis)
    }

    async fn look(&mut self) -> Next {
        if self.followed.http.shutdown.is_stopping() || Instant::now() >= self.until {
            return Next::End;
        }
        let log = &self.followed.http.use_cases.events;
        let (scope, filter) = (&self.followed.view.scope, &self.followed.view.filter);
        let rules = &self.followed.http.rules;
        let events = rules.events.place_at_once;
        let bounds = EventLogBounds { events, octets: rules.events.max_chunk_bytes };
        let Ok(part) = log.read_on(scope, filter, self.after, bounds).await else {
            return Next::End;
        };
        if part.events.is_empty() {
            self.after = part.through;
            if let Some(last) = part.last {
                self.unsent_id = Some(last.event);
            }
            return if part.more { Next::Look } else { self.wait().await };
        }
        // Checked after reading: events after a key's end are shown to nobody.
        match self.may_go_on().await {
            Some(true) => {}
            Some(false) => return Next::Look,
            None => return Next::End,
        }
        let shown = part.events.last().map(|event| event.id);
        (self.after, self.sure) = (part.through, part.through);
        if let Some(last) = part.last {
            self.unsent_id = Some(last.event).filter(|event| Some(*event) != shown);
        }
        Next::Text(part.text(|events| events.iter().fold(String::new(), written)))
    }

    /// Whether the request still has the same view. None if it may see nothing, or if the check
    /// failed.
    async fn may_go_on(&mut self) -> Option<bool> {
        let view = self.followed.current_view().await.ok()?;
        self.check = Instant::now() + self.followed.http.rules.events.check();
        if view == self.followed.view {
            return Some(true);
        }
        // Events newly in view may lie before the current position.
        self.after = self.sure;
        // The event of the last id may be out of view now, so a new id marks the position.
        self.unsent_id =
            Some(self.followed.http.use_cases.events.mark(&view.scope, self.after).await.ok()?);
        self.waiting.concern(&view.scope);
        self.followed.view = view;
        Some(false)
    }

    async fn wait(&mut self) -> Next {
        let now = Instant::now();
        if now >= self.check {
            let read = self.after;
            match self.may_go_on().await {
                Some(true) => self.sure = read,
                Some(false) => return Next::Look,
                None => return Next::End,
            }
        }
        if now >= self.heartbeat {
            return Next::Text(format!(":\n{}\n", self.mark()).into());
        }
        let until = self.check.min(self.heartbeat).min(self.until);
        tokio::select! {
            // Nothing between `after` and `quiet` is in view.
            quiet = self.waiting.changed() => self.after = self.after.max(quiet.unwrap_or_default()),
            () = sleep_until(until) => {}
            () = self.followed.http.shutdown.soft() => {}
        }
        Next::Look
    }
}

/// One event; its body is JSON on one line.
fn written(mut text: String, event: &RenderedEvent) -> String {
    if let Ok(body) = std::str::from_utf8(&event.body) {
        // Writing to a String does not fail.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {body}\n\n", event.id, event.name);
    }
    text
}

/// Returns the response, which lasts as long as the stream.
pub(super) fn response(stream: Stream) -> Response {
    let texts = stream::unfold(stream, async |mut stream| {
        let text = stream.next().await?;
        Some((Ok::<_, Infallible>(text), stream))
    });
    endless(texts)
}
