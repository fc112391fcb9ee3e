//! The live page: every verdict, newest first.

use std::convert::Infallible;
use std::time::Duration;

use askama::Template;
use futures_util::StreamExt as _;
use futures_util::stream::unfold;
use tokio::time::sleep;
use url::form_urlencoded::Serializer;

use super::filters;
use super::frame::{Frame, Section};
use super::shapes::{Record, Records};
use super::visit::{Answer, Visit};
use crate::app::access::need::{Need, TargetType};
use crate::app::delivery::Waiting;
use crate::domain::clock::Timestamp;
use crate::domain::reason::Reason;
use crate::domain::verdict::Outcome;
use crate::domain::words::Words;
use crate::http::connection::endless::endless;
use crate::http::error::Problem;
use crate::http::in_process::Asked;

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
    Answer::page(&Live { frame, filters, rows, older, follows })
}

/// Follows the newest page as a stream of events (HTML, "Server-sent events"): each has all rows,
/// and is sent once they change. The stream ends with its session, and with the server's soft stop.
pub(super) async fn follow(visit: Visit) -> Result<Answer, Problem> {
    let (shutdown, filters) = (visit.console.http.shutdown.clone(), Filters::of(&visit));
    let target = visit.api.target(visit.account, READ, "GET /console/{account}/live").await?;
    let place = visit.api.place(&target)?;
    let newest = newest(&records(&visit, &filters).await?.intake);
    let following = Following { filters, visit, newest, idle: 0, _place: place };
    let rows = unfold(following, Following::next);
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
                let now = self.visit.console.http.mint.clock().now();
                let rows = Rows { account: self.visit.account, now, records: found };
                let lines: Vec<_> = rows.render().ok()?.split(['\r', '\n']).map(data).collect();
                (self.newest, self.idle) = (newest, 0);
                return Some((Ok(format!("event: rows\n{}\n", lines.concat())), self));
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
