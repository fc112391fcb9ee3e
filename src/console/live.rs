//! The live page: every verdict, newest first, below the figures of the last hour and day.

use std::convert::Infallible;
use std::future::ready;
use std::time::Duration;

use askama::Template;
use futures_util::StreamExt as _;
use futures_util::stream::{once, unfold};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};
use url::form_urlencoded::Serializer;

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::app::access::need::{Need, TargetType};
use crate::app::delivery::Waiting;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::reason::Reason;
use crate::domain::verdict::Outcome;
use crate::domain::words::Words;
use crate::http::connection::endless::endless;
use crate::http::error::{Code, Problem};
use crate::http::in_process::Asked;
use crate::http::in_process::shapes::{Record, Records};

/// Verdicts of one Agent, or of all Agents below an account.
const READ: Need = Need::read(TargetType::Any).narrows();

/// Rows of a page.
const ROWS: u32 = 50;

/// Time between two looks for new rows, for each page that is followed.
const LOOKS: Duration = Duration::from_secs(1);
/// Looks after which a comment shows that the connection lives.
const IDLE: u32 = 15;

/// The filters, which are in the address of the page.
const FILTERS: &[&str] = &["verdict", "sender", "recipient", "reason", "agentId", "since", "until"];

#[derive(Template)]
#[template(path = "live.html", config = "src/console/templates/askama.toml")]
struct Live {
    frame: Frame,
    filters: Filters,
    rows: Rows,
    /// The address of the next page; empty on the last one.
    older: String,
    /// Whether this is the newest page, which the script follows.
    follows: bool,
    /// Only on the newest page, and as they were when it was opened.
    figures: Vec<Figure>,
    /// Why the last hour or day is not counted; empty if both are.
    uncounted: &'static str,
}

/// How much mail had an outcome.
struct Figure {
    outcome: &'static str,
    /// In the last hour, and in the last 24; None if it was not counted.
    hour: Option<u64>,
    day: Option<u64>,
}

impl Figure {
    /// The average of the day; nothing if that is less than one.
    fn an_hour(&self) -> String {
        match self.day.unwrap_or(0) {
            ..24 => String::new(),
            day @ ..240 => format!(", {}.{} an hour", day / 24, day % 24 * 10 / 24),
            day => format!(", {} an hour", filters::thousands(day / 24)),
        }
    }
}

#[derive(Deserialize)]
struct Measured {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    key: Option<String>,
    value: Option<u64>,
}

/// The rows alone, for the page and for those who follow it.
#[derive(Template)]
#[template(path = "live_rows.html", config = "src/console/templates/askama.toml")]
struct Rows {
    account: i64,
    now: Timestamp,
    records: Vec<Record>,
}

/// The filters as they were sent.
struct Filters {
    values: Vec<(&'static str, String)>,
}

impl Filters {
    fn of(visit: &Visit) -> Self {
        let sent = |name: &&'static str| (*name, visit.query.get(name).to_owned());
        Self { values: FILTERS.iter().map(sent).collect() }
    }

    fn get(&self, wanted: &str) -> &str {
        let found = self.values.iter().find(|(name, _)| *name == wanted);
        found.map_or("", |(_, value)| value.as_str())
    }

    fn has(&self, name: &str, wanted: &str) -> bool {
        self.get(name) == wanted
    }

    fn any(&self) -> bool {
        self.values.iter().any(|(_, value)| !value.is_empty())
    }

    /// Whether the address names a time, which the figures do not know.
    fn has_time(&self) -> bool {
        !self.get("since").is_empty() || !self.get("until").is_empty()
    }

    /// The filters in the form of a metric.
    fn conditions(&self) -> Map<String, Value> {
        let condition = |(name, field): &(&str, &str)| {
            let text = self.get(name);
            let test = match *name {
                _ if text.is_empty() => return None,
                "sender" => {
                    let known = Handle::asked(text).map(|sender| sender.to_string());
                    json!({ "op": "eq", "value": known.unwrap_or_else(|_| text.to_owned()) })
                }
                // Kept as the client wrote it.
                "recipient" => json!({ "op": "in", "value": [text, text.to_ascii_lowercase()] }),
                _ => json!({ "op": "eq", "value": text }),
            };
            Some(((*field).to_owned(), test))
        };
        let fields = [
            ("verdict", "outcome"),
            ("reason", "reason"),
            ("sender", "sender"),
            ("recipient", "recipient"),
            ("agentId", "accountId"),
        ];
        fields.iter().filter_map(condition).collect()
    }

    fn outcomes(&self) -> Vec<&'static str> {
        Outcome::all().iter().map(|outcome| outcome.word()).collect()
    }

    fn reasons(&self) -> Vec<&'static str> {
        Reason::all().iter().map(|reason| reason.word()).collect()
    }

    fn asked(&self, asked: Asked) -> Asked {
        let with = |asked: Asked, (name, value): &(&str, String)| asked.with(name, value);
        self.values.iter().fold(asked, with)
    }

    /// The filters as a query, with one more parameter.
    fn query(&self, name: &str, value: &str) -> String {
        let sent = self.values.iter().filter(|(_, value)| !value.is_empty());
        let sent = sent.map(|(name, value)| (*name, value.as_str()));
        Serializer::new(String::new()).extend_pairs(sent).append_pair(name, value).finish()
    }
}

async fn records(visit: &Visit, filters: &Filters) -> Result<Records, Problem> {
    let asked = filters.asked(visit.on("listIntakeRecords").with("limit", ROWS));
    visit.ask(asked.with("before", visit.query.get("before"))).await
}

/// Shows a page of verdicts.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Live).await?;
    let filters = Filters::of(&visit);
    let found = records(&visit, &filters).await?;
    let older = found.next.map_or_else(String::new, |next| {
        format!("{}?{}", frame.to("/live"), filters.query("before", &next))
    });
    let now = visit.console.http.mint.clock().now();
    let rows = Rows { account: visit.account, now, records: found.intake };
    let follows = visit.query.get("before").is_empty();
    let (figures, uncounted) = match follows {
        true => figures(&visit, &filters, now).await,
        false => (Vec::new(), ""),
    };
    Answer::page(&Live { frame, filters, rows, older, follows, figures, uncounted })
}

/// Longest wait for each of the figures.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts the mail of the last hour and of the last 24, by outcome. The API bounds what a metric
/// reads: what is beyond is not counted.
async fn figures(visit: &Visit, filters: &Filters, now: Timestamp) -> (Vec<Figure>, &'static str) {
    let mut uncounted = "";
    let mut counts = Vec::new();
    for hours in [1, 24] {
        let begin = now.minus(Duration::from_secs(hours * 3_600));
        let definition = json!({
            "filters": filters.conditions(), "formula": "count", "aggregation": "sum",
        });
        let asked = visit.on("getTimeSeries").sends(json!({
            "definition": definition, "start": begin.to_string(), "end": now.to_string(),
            "groupBy": "outcome",
        }));
        counts.push(match timeout(PATIENCE, visit.ask::<Measured>(asked)).await {
            Ok(Ok(measured)) => Some(measured.groups),
            Ok(Err(problem))
                if problem.code.status().is_client_error() && problem.code != Code::RateLimited =>
            {
                uncounted = "There is too much mail to count all of it here.";
                None
            }
            // The page must not fail, nor wait, for its figures.
            Ok(Err(_)) | Err(_) => {
                uncounted = "Not all is counted, because others count now: reload this page.";
                None
            }
        });
    }
    let count = |at: usize, outcome: &str| {
        let groups = counts.get(at)?.as_ref()?;
        let group = groups.iter().find(|group| group.key.as_deref() == Some(outcome));
        Some(group.and_then(|group| group.value).unwrap_or(0))
    };
    let shown = |outcome: &&'static str| ["", *outcome].contains(&filters.get("verdict"));
    let outcomes = filters.outcomes().into_iter().filter(shown);
    let figure = |outcome| Figure { outcome, hour: count(0, outcome), day: count(1, outcome) };
    (outcomes.map(figure).collect(), uncounted)
}

/// Follows the newest page as a stream of events (HTML, "Server-sent events"): each has all rows.
/// The first comes at once, the others once they change. The stream ends with its session, and with the server's soft stop.
pub(super) async fn follow(visit: Visit) -> Result<Answer, Problem> {
    let (shutdown, filters) = (visit.console.http.shutdown.clone(), Filters::of(&visit));
    let target = visit.api.target(visit.account, READ, "GET /console/{account}/live").await?;
    let place = visit.api.place(&target)?;
    // The page may be older than this, as after a pause: all rows come at once.
    let found = records(&visit, &filters).await?.intake;
    let newest = newest(&found);
    let following = Following { filters, visit, newest, idle: 0, _place: place };
    let first = following.rows(found).map_err(Problem::internal)?;
    let rows = once(ready(Ok(first))).chain(unfold(following, Following::next));
    let rows = rows.take_until(Box::pin(async move { shutdown.soft().await }));
    Ok(Answer::File(endless(rows)))
}

/// A reader of the newest page.
struct Following {
    visit: Visit,
    filters: Filters,
    /// The newest record that the reader has.
    newest: Option<(String, u64)>,
    /// Looks since something was sent.
    idle: u32,
    /// Bounds how many follow.
    _place: Waiting,
}

impl Following {
    /// The event with all rows.
    fn rows(&self, records: Vec<Record>) -> askama::Result<String> {
        let now = self.visit.console.http.mint.clock().now();
        let rows = Rows { account: self.visit.account, now, records };
        let lines: Vec<_> = rows.render()?.split(['\r', '\n']).map(data).collect();
        Ok(format!("event: rows\n{}\n", lines.concat()))
    }

    /// Looks again and again, until there is something to send; None once the session has ended.
    async fn next(mut self) -> Option<(Result<String, Infallible>, Self)> {
        loop {
            sleep(LOOKS).await;
            let found = records(&self.visit, &self.filters).await.ok()?.intake;
            // Nothing is sent that was read with rights which are lost since.
            let former = self.visit.api.caller.clone();
            self.visit.api.authenticate_again().await.ok()?;
            if self.visit.api.caller != former {
                continue;
            }
            let newest = newest(&found);
            self.idle += 1;
            if newest != self.newest {
                (self.newest, self.idle) = (newest, 0);
                return Some((Ok(self.rows(found).ok()?), self));
            }
            if self.idle >= IDLE {
                self.idle = 0;
                return Some((Ok(":\n\n".to_owned()), self));
            }
        }
    }
}

/// The newest record, and how many refusals it counts.
fn newest(records: &[Record]) -> Option<(String, u64)> {
    records.first().map(|record| (record.id.clone(), record.count))
}

/// A line of an event.
fn data(line: &str) -> String {
    format!("data: {line}\n")
}
