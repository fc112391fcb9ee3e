//! Prints every verdict, event and webhook attempt, one per line, as the API returns them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::forward::Forward;
use crate::cli::events::about;
use crate::cli::paint::Paint;
use crate::cli::{Failure, plain, say};
use crate::domain::clock::{Clock, Timestamp};
use crate::testkit::http_client::Api;

/// Polling interval for verdicts and attempts, which cannot be waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Pause after a failed request.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Wait of a request for events; at most `events.max_wait_seconds`.
const EVENT_WAIT_SECONDS: u64 = 20;
/// Refusals at RCPT share one record per minute (contract §2.3); a record may change this long.
const WINDOW: Duration = Duration::from_secs(90);
/// Ids remembered as shown, per kind: far more than occur within [`WINDOW`]. Bounds memory.
const MOST_REMEMBERED: usize = 20_000;

/// Follows everything since `started`.
#[derive(Debug)]
pub(super) struct Follower {
    api: Api,
    clock: Clock,
    started: Timestamp,
    paint: Paint,
}

/// Ids that were shown, with their count then. Ids grow with time.
#[derive(Debug, Default)]
struct PrintedIds(BTreeMap<String, u64>);

impl PrintedIds {
    /// Remembers an id. Returns whether the id is new or its count has grown.
    fn is_new(&mut self, id: &str, times: u64) -> bool {
        let before = self.0.insert(id.to_owned(), times);
        while self.0.len() > MOST_REMEMBERED {
            self.0.pop_first();
        }
        before.is_none_or(|before| before < times)
    }
}

impl Follower {
    pub fn new(api: Api, clock: Clock, started: Timestamp, paint: Paint) -> Self {
        Self { api, clock, started, paint }
    }

    /// Prints until dropped, or until the output fails.
    pub async fn run(&self, forward: Option<&Forward>) -> Result<(), Failure> {
        tokio::try_join!(self.verdicts(), self.events(), self.attempts(forward))?;
        Ok(())
    }

    /// Sends a GET, and retries forever if the API fails: a failing API must not end the SMTP
    /// server.
    async fn get(&self, path: &str) -> Result<Value, Failure> {
        loop {
            match self.api.get(path).await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let shown = self.paint.alarm(&format!("{:<8}", "error"));
                    say!("          {shown}  cannot follow, retrying: {error}")?;
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    async fn verdicts(&self) -> Result<(), Failure> {
        let mut shown = PrintedIds::default();
        loop {
            let since = self.clock.now().minus(WINDOW).max(self.started);
            let first = format!("/email/intake?since={since}&limit=200");
            let mut new = Vec::new();
            let mut path = Some(first.clone());
            while let Some(next) = path.take() {
                let mut page = self.get(&next).await?;
                let (records, before) = (take_list(&mut page, "intake"), new.len());
                new.extend(
                    records
                        .into_iter()
                        .filter(|record| shown.is_new(text(record, "id"), number(record, "count"))),
                );
                // Records older than a page without news were shown already.
                if new.len() > before {
                    path = page
                        .get("next")
                        .and_then(Value::as_str)
                        .map(|at| format!("{first}&before={at}"));
                }
            }
            for record in new.iter().rev() {
                self.print_verdict(record)?;
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    fn print_verdict(&self, record: &Value) -> Result<(), Failure> {
        let verdict = text(record, "verdict");
        let shown = self.paint.verdict(verdict, &format!("{verdict:<8}"));
        let sender = some_or(text(record, "sender"), "(no sender)");
        let recipient = some_or(text(record, "recipient"), "(no recipient)");
        let times = number(record, "count");
        let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
        let why = plain::line(text(record, "explanation"));
        // The Agent's key opens only records of the Agent.
        let is_agents = record.get("agentId").is_some_and(|id| !id.is_null());
        let url = format!("{}/email/intake/{}", self.api.base(), text(record, "id"));
        let url = if is_agents { format!("  {}", self.paint.faint(&url)) } else { String::new() };
        let time = time(record, "date");
        say!("{time}  {shown}  {sender} -> {recipient}  {why}{times}{url}")
    }

    async fn events(&self) -> Result<(), Failure> {
        let mut from = format!("since={}", self.started);
        loop {
            let mut page =
                self.get(&format!("/events?{from}&wait={EVENT_WAIT_SECONDS}&limit=200")).await?;
            if let Some(last) = page.get("next").and_then(Value::as_str) {
                from = format!("after={last}");
            }
            for event in take_list(&mut page, "events") {
                self.print_event(&event)?;
            }
        }
    }

    fn print_event(&self, event: &Value) -> Result<(), Failure> {
        let shown = self.paint.news(&format!("{:<8}", "event"));
        let (time, name) = (time(event, "timestamp"), text(event, "event"));
        say!("{time}  {shown}  {name}  {}", about(event))
    }

    async fn attempts(&self, forward: Option<&Forward>) -> Result<(), Failure> {
        let Some(Forward { account, id, .. }) = forward else { return Ok(()) };
        let mut shown = PrintedIds::default();
        loop {
            let since = self.started;
            let path = format!(
                "/webhooks/{id}/deliveries?targetAccountId={account}&since={since}&limit=200"
            );
            let mut page = self.get(&path).await?;
            for delivery in take_list(&mut page, "deliveries").iter().rev() {
                let attempts = delivery.get("attempts").and_then(Value::as_array);
                for attempt in attempts.into_iter().flatten() {
                    if shown.is_new(text(attempt, "id"), 1) {
                        self.print_attempt(delivery, attempt)?;
                    }
                }
            }
            sleep(POLL_INTERVAL).await;
        }
    }

    fn print_attempt(&self, delivery: &Value, attempt: &Value) -> Result<(), Failure> {
        let status = attempt.get("status").and_then(Value::as_u64);
        let has_arrived = status.is_some_and(|status| (200..300).contains(&status));
        let mut became = status.map_or_else(String::new, |status| format!("answered {status}"));
        if !has_arrived {
            let error = plain::line(text(attempt, "error"));
            became = if error.is_empty() { became } else { error };
            let next = some_or(time(delivery, "nextAttemptAt"), "never");
            became = format!("{became}; next attempt: {next}");
        }
        let label = format!("{:<8}", "webhook");
        let label = if has_arrived { self.paint.news(&label) } else { self.paint.alarm(&label) };
        let (time, event) = (time(attempt, "date"), text(delivery, "event"));
        say!("{time}  {label}  {event}  {became}")
    }
}

/// Takes a list out of a response.
fn take_list(answer: &mut Value, name: &str) -> Vec<Value> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a count; 1 if there is none.
fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(1)
}

fn some_or<'t>(text: &'t str, otherwise: &'t str) -> &'t str {
    if text.is_empty() { otherwise } else { text }
}

/// The time of day of a date, in UTC.
fn time<'v>(value: &'v Value, key: &str) -> &'v str {
    text(value, key).get(11..19).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_shown_again_when_it_counts_more() {
        let mut shown = PrintedIds::default();
        assert!(shown.is_new("a", 1));
        assert!(!shown.is_new("a", 1));
        assert!(shown.is_new("a", 3));
        for number in 0..=MOST_REMEMBERED {
            shown.is_new(&format!("b{number:06}"), 1);
        }
        assert_eq!(shown.0.len(), MOST_REMEMBERED);
    }
}
