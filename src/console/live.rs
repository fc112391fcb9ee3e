//! The live page: every verdict, newest first.

use askama::Template;
use url::form_urlencoded::Serializer;

use super::filters;
use super::frame::{Frame, Section};
use super::shapes::{Record, Records};
use super::visit::{Answer, Visit};
use crate::domain::clock::Timestamp;
use crate::domain::reason::Reason;
use crate::domain::verdict::Outcome;
use crate::domain::words::Words;
use crate::http::error::Problem;
use crate::http::passage::in_process::Asked;

/// Rows of a page.
const ROWS: u32 = 50;

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

/// The rows alone, for the script.
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

/// Shows the rows of the newest page alone.
pub(super) async fn rows(visit: Visit) -> Result<Answer, Problem> {
    let found = records(&visit, &Filters::of(&visit)).await?;
    let now = visit.console.http.mint.clock().now();
    Answer::page(&Rows { account: visit.account, now, records: found.intake })
}
