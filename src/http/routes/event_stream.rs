//! The log of events as a stream (HTML, "Server-sent events").
//!
//! It is read as the connection takes it, a few events at a time: nothing is held for a reader who is
//! slow. A client that connects again goes on behind the id that it was told last: so it is told where
//! it stands before anything happened, too, and when much was passed over. Whoever loses the key or the right to see something is not shown another event of it.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tokio::time::{Instant, sleep_until};

use crate::app::delivery::{Shown, Waiting};
use crate::domain::id::EventId;
use crate::http::connection::serve::Endless;
use crate::http::request::call::{Again, STREAM};
use crate::http::routes::event_view::{View, Wanted};
use crate::http::state::Http;

/// Tells proxies that would gather an answer not to (nginx).
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A stream that is being read.
pub(super) struct Stream {
    http: Arc<Http>,
    again: Again,
    wanted: Wanted,
    view: View,
    waiting: Waiting,
    after: i64,
    /// Up to where it was read while the request was known to see the same.
    sure: i64,
    /// The id behind which the client goes on, where it does not know that yet.
    untold: Option<EventId>,
    /// It ends then: no connection is served for longer.
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

/// What comes next.
enum Next {
    Text(Bytes),
    /// Something may have happened.
    Look,
    End,
}

impl Stream {
    pub(super) fn new(
        http: Arc<Http>,
        again: Again,
        (wanted, view): (Wanted, View),
        waiting: Waiting,
        (after, mark): (i64, EventId),
    ) -> Self {
        let (now, rules) = (Instant::now(), &http.rules);
        let until = now + rules.connections.lifetime();
        let (heartbeat, check) = (now + rules.events.heartbeat(), now + rules.events.check());
        let state = State::Opened;
        let untold = Some(mark);
        let sure = after;
        Self {
            http,
            again,
            wanted,
            view,
            waiting,
            after,
            sure,
            untold,
            until,
            heartbeat,
            check,
            state,
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
                    self.heartbeat = Instant::now() + self.http.rules.events.heartbeat();
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

    /// A block with an id and no data is no event, and is remembered all the same.
    fn mark(&mut self) -> String {
        self.untold.take().map(|id| format!("id: {id}\n")).unwrap_or_default()
    }

    fn retry(&self) -> String {
        format!("retry: {}\n\n", self.http.rules.events.retry_millis)
    }

    async fn look(&mut self) -> Next {
        if self.http.shutdown.is_stopping() || Instant::now() >= self.until {
            return Next::End;
        }
        let log = &self.http.use_cases.events;
        let (scope, filter) = (&self.view.scope, &self.view.filter);
        let rules = &self.http.rules;
        let bounds = (rules.events.place_at_once, rules.events.max_chunk_bytes);
        let Ok(part) = log.read_on(scope, filter, self.after, bounds).await else {
            return Next::End;
        };
        if part.events.is_empty() {
            self.after = part.through;
            if let Some(last) = part.last {
                self.untold = Some(last.event);
            }
            return if part.more { Next::Look } else { self.wait().await };
        }
        // Asked when it has been read: what happened after a key ended is shown to nobody.
        match self.may_go_on().await {
            Some(true) => {}
            Some(false) => return Next::Look,
            None => return Next::End,
        }
        let shown = part.events.last().map(|event| event.id);
        (self.after, self.sure) = (part.through, part.through);
        if let Some(last) = part.last {
            self.untold = Some(last.event).filter(|event| Some(*event) != shown);
        }
        Next::Text(part.text(|events| events.iter().fold(String::new(), written)))
    }

    /// Whether the request may still see the same; `None` if it may see nothing, or if that cannot be
    /// found out.
    async fn may_go_on(&mut self) -> Option<bool> {
        let view = self.wanted.again(&self.http, &self.again).await.ok()?;
        self.check = Instant::now() + self.http.rules.events.check();
        if view == self.view {
            return Some(true);
        }
        // What it did not see before may lie behind what was read since.
        self.after = self.sure;
        // The event that it was told last may be one that it does not see any more.
        self.untold = Some(self.http.use_cases.events.mark(&view.scope, self.after).await.ok()?);
        self.waiting.concern(&view.scope);
        self.view = view;
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
            // All before that was read, and nothing came up to there.
            quiet = self.waiting.changed() => self.after = self.after.max(quiet.unwrap_or_default()),
            () = sleep_until(until) => {}
            () = self.http.shutdown.soft() => {}
        }
        Next::Look
    }
}

/// One event. Its body is JSON in one line.
fn written(mut text: String, event: &Shown) -> String {
    if let Ok(body) = std::str::from_utf8(&event.body) {
        // Writing to a string does not fail.
        let _ = write!(text, "id: {}\nevent: {}\ndata: {body}\n\n", event.id, event.name);
    }
    text
}

/// The answer that goes on as long as the stream does.
pub(super) fn response(stream: Stream) -> Response {
    let texts = stream::unfold(stream, async |mut stream| {
        let text = stream.next().await?;
        Some((Ok::<_, Infallible>(text), stream))
    });
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(STREAM)),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    (headers, Extension(Endless), Body::from_stream(texts)).into_response()
}
