//! `wait_for_message`: waits for mail, so that a model need not ask again and again.
//!
//! It follows the log of events in turns. Readers of the log are bounded by `[events]` of
//! `access.toml`. Each turn has the rights that the key has then.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::pin;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::call::{Answer, Call, Progress, within};
use super::entrance::refused;
use super::letter::{Cut, Letter};
use super::messages;
use super::shapes::Events;
use crate::domain::clock::Timestamp;
use crate::http::error::{Code, Problem};
use crate::wire;

/// Seconds of a wait.
const USUAL: u32 = 20;
const LONGEST: u32 = 300;
/// Seconds of a turn, and of a wait whose answer is no stream.
const TURN: u64 = 25;
/// Pause between two reports of progress.
const REPORTS: Duration = Duration::from_secs(5);
/// Messages of an answer.
const MOST: u32 = 5;
/// Characters of each text.
const BEGINNING: Cut = Cut { offset: 0, length: 1_000 };

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wait {
    /// Only this inbox, from list_inboxes; without it all in reach.
    inbox: Option<i64>,
    /// `after` of the answer before, so that nothing between is missed; without it, messages from now
    /// on.
    after: Option<String>,
    /// How long to wait; at most 25 seconds unless the client asked for progress. The answer may come
    /// sooner.
    #[schemars(range(min = 1, max = LONGEST))]
    seconds: Option<u32>,
}

/// The messages that came.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Came {
    /// The messages, oldest first; empty if none came in time.
    messages: Vec<Letter>,
    /// Send it as `after` of the next call.
    after: String,
    /// Whether the time ended before a message came.
    timed_out: bool,
}

pub(super) async fn wait(mut call: Call, request: Wait) -> Result<Answer<Came>, Problem> {
    let seconds = within("seconds", request.seconds, USUAL, LONGEST)?;
    let began = Instant::now();
    let until = began + longest(&call, began).min(Duration::from_secs(seconds.into()));
    // One for all turns, so that its numbers only grow.
    let report = report(call.progress.as_ref(), began, until);
    pin!(report);
    let now = || call.http.mint.clock().now().to_string();
    let mut place = match request.after {
        Some(place) if is_place(&place) => place,
        Some(_) => return Err(Problem::invalid("after must be that of an earlier answer")),
        None => now(),
    };
    let (mut messages, mut is_first, mut is_over) = (Vec::new(), true, false);
    while messages.is_empty() && !is_over {
        // The caller may have lost rights since the turn before.
        call.api.authenticate_again().await.map_err(refused)?;
        let found = tokio::select! {
            found = follow(&call, request.inbox, &place, until) => found,
            () = &mut report => Ok(None),
            () = call.http.shutdown.soft() => Ok(None),
        };
        let events = match found {
            Ok(Some(events)) => events,
            Ok(None) => break,
            // Another reader has taken the place, which is free between two turns.
            Err(problem) if problem.code == Code::RateLimited && !is_first => break,
            Err(problem) => match time_of(&place).filter(|_| !is_first) {
                // The turn before read that event with rights that the caller has lost since.
                Some(time) if problem.code == Code::NotFound => {
                    place = time;
                    continue;
                }
                _ => return Err(problem),
            },
        };
        is_first = false;
        is_over = !events.more && Instant::now() >= until;
        place = events.next.unwrap_or(place);
        call.api.authenticate_again().await.map_err(refused)?;
        for uuid in events.events.into_iter().filter_map(|event| event.message_uuid) {
            match messages::message(&call, &uuid).await {
                Ok(message) => messages.push(Letter::of(&message, BEGINNING)),
                // Erased meanwhile.
                Err(problem) if problem.code == Code::NotFound => {}
                Err(problem) => return Err(problem),
            }
        }
    }
    let timed_out = messages.is_empty();
    let mut text = messages::shown(&call, &messages);
    if timed_out {
        text.push_str("No message came in this time.\n");
    }
    text.push_str(&format!("To wait for the next message, send after {place}.\n"));
    Ok(Answer::of(text, Came { messages, after: place, timed_out }))
}

/// The longest wait from `began` on. A stream must end before its connection, any other answer must
/// begin within `limits.request_seconds`; of these some are left to read the messages and to send them.
fn longest(call: &Call, began: Instant) -> Duration {
    let request = call.http.rules.limits.request();
    match (&call.progress, call.end) {
        (None, _) => Duration::from_secs(TURN).min(request * 9 / 10),
        (Some(_), Some(end)) => end.saturating_duration_since(began).saturating_sub(request / 10),
        (Some(_), None) => Duration::MAX,
    }
}

/// Whether a text is the id of an event, or a time.
fn is_place(text: &str) -> bool {
    wire::uuid(text).is_some() || text.parse::<jiff::Timestamp>().is_ok()
}

/// The time in the id of an event; None for a place that is a time itself.
fn time_of(place: &str) -> Option<String> {
    let (seconds, nanos) = wire::uuid(place)?.get_timestamp()?.to_unix();
    let millis = seconds.checked_mul(1000)?.checked_add(u64::from(nanos / 1_000_000))?;
    i64::try_from(millis).ok().map(|millis| Timestamp::from_millis(millis).to_string())
}

const UNKNOWN: &str = "the event of after is unknown, or has expired: send a time as after";

/// Reads the events after a place, and waits for them until the deadline. None after it.
async fn follow(
    call: &Call,
    inbox: Option<i64>,
    place: &str,
    until: Instant,
) -> Result<Option<Events>, Problem> {
    let left = until.saturating_duration_since(Instant::now());
    // Whole seconds: the last turn may begin within the last one, and is cut off below.
    let most = TURN.min(call.http.rules.events.max_wait_seconds);
    let seconds = left.as_secs().saturating_add(1).min(most);
    let name = if wire::uuid(place).is_some() { "after" } else { "since" };
    let asked = call.on("listEvents", inbox).with("type", "incoming");
    let asked = asked.with("limit", call.rows(None, MOST, MOST)?).with(name, place);
    let asked = asked.with("wait", seconds);
    tokio::select! {
        found = call.api.ask::<Events>(asked) => found.map(Some).map_err(|problem| match problem.code {
            // In the words of the tool.
            Code::NotFound => Problem { detail: UNKNOWN.to_owned(), ..problem },
            _ => problem,
        }),
        () = sleep_until(until) => Ok(None),
    }
}

/// Reports progress for as long as it is polled.
async fn report(progress: Option<&Progress>, began: Instant, until: Instant) {
    let Some(progress) = progress else { return std::future::pending().await };
    let mut ticks = interval(REPORTS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let (waited, whole) = (began.elapsed(), until.duration_since(began));
        progress.tell(waited, whole, "waiting for a message").await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_an_event_tells_its_time() {
        let event = "01a2276f-b817-7223-bf31-268c4bca6661";
        let time = Timestamp::from_millis(0x01a2_276f_b817).to_string();
        assert!(is_place(&time), "{time}");
        assert_eq!(time_of(event), Some(time));
        for place in ["2026-11-29T12:00:00.000Z", "9b2e4f3c-9d2f-4c1e-8a51-0c9f6a4d7e11"] {
            assert_eq!(time_of(place), None, "{place}");
        }
    }
}
