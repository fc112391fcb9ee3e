//! Refused and deferred mail: by reason over time, by sender, by domain and by recipient.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;

use super::chart::{self, Column, Series, Tone};
use super::filters;
use super::frame::{Frame, Section};
use super::heat::HeatMap;
use super::visit::{Answer, Visit};
use crate::domain::clock::Timestamp;
use crate::domain::reason::Reason;
use crate::http::error::Problem;
use crate::http::in_process::shapes::{Record, Records};

/// Most pages of records that are read of each verdict, and their rows: the newest.
const PAGES: usize = 3;
const ROWS: usize = 200;

/// The periods to choose from, in hours.
const PERIODS: &[Period] = &[
    Period { name: "hour", words: "Last hour", hours: 1 },
    DAY,
    Period { name: "week", words: "Last 7 days", hours: 24 * 7 },
    Period { name: "month", words: "Last 30 days", hours: 24 * 30 },
];

/// The period without a choice.
const DAY: Period = Period { name: "day", words: "Last 24 hours", hours: 24 };

struct Period {
    name: &'static str,
    words: &'static str,
    hours: u64,
}

/// Records that have something in common.
struct Group {
    name: String,
    count: u64,
    /// The meaning of a reason; empty for other groups.
    about: &'static str,
}

#[derive(Template)]
#[template(path = "refused.html", config = "src/console/templates/askama.toml")]
struct RefusedPage {
    frame: Frame,
    period: &'static Period,
    periods: &'static [Period],
    since: String,
    total: u64,
    /// Messages of which no From field was read.
    unnamed: u64,
    /// Whether there are more records than were read.
    is_cut: bool,
    chart: String,
    /// Reasons over time.
    heat: HeatMap,
    reasons: Vec<Group>,
    senders: Vec<Group>,
    domains: Vec<Group>,
    recipients: Vec<Group>,
}

/// Shows the groups of a period.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::Refused).await?;
    let named = PERIODS.iter().find(|period| period.name == visit.query.get("period"));
    let period = named.unwrap_or(&DAY);
    let lasts = Duration::from_secs(period.hours * 3_600);
    let now = visit.console.http.mint.clock().now();
    let begin = now.minus(lasts);
    let since = begin.to_string();
    let mut records = Vec::new();
    let mut is_cut = false;
    for verdict in ["refused", "deferred"] {
        is_cut |= read(&visit, verdict, &since, &mut records).await?;
    }
    let chart = chart::columns(&columns(&records, begin, lasts), PARTS)?;
    let by = |name: fn(&Record) -> String| groups(&records, name);
    let reasons = by(|record| record.reason.clone().unwrap_or_default());
    // By the From field, as the live page filters.
    let senders = by(|record| record.sender.clone().unwrap_or_default());
    let domains = by(|record| {
        let sender = record.sender.as_deref().unwrap_or_default();
        sender.rsplit('@').next().unwrap_or_default().to_owned()
    });
    let recipients = by(|record| record.recipient.clone());
    let heat = over_time(&records, &reasons, begin, lasts);
    let unnamed = records.iter().filter(|record| record.sender.is_none());
    let unnamed = unnamed.map(|record| record.count).sum();
    let total = records.iter().map(|record| record.count).sum();
    let periods = PERIODS;
    Answer::page(&RefusedPage {
        frame,
        period,
        periods,
        since,
        total,
        unnamed,
        is_cut,
        chart,
        heat,
        reasons,
        senders,
        domains,
        recipients,
    })
}

/// Reads the newest records with this verdict. Returns whether there are more.
async fn read(
    visit: &Visit,
    verdict: &str,
    since: &str,
    into: &mut Vec<Record>,
) -> Result<bool, Problem> {
    let mut before = String::new();
    for _ in 0..PAGES {
        let asked = visit.on("listIntakeRecords").with("verdict", verdict).with("limit", ROWS);
        let page: Records = visit.ask(asked.with("since", since).with("before", before)).await?;
        into.extend(page.intake);
        let Some(next) = page.next else { return Ok(false) };
        before = next;
    }
    Ok(true)
}

/// The twelve largest groups of records by name; records without one are in none.
fn groups(records: &[Record], name: fn(&Record) -> String) -> Vec<Group> {
    let mut counts = BTreeMap::<String, u64>::new();
    for record in records {
        *counts.entry(name(record)).or_default() += record.count;
    }
    let group = |(name, count): (String, u64)| {
        let about = name.parse::<Reason>().map_or("", Reason::explanation);
        Group { name, count, about }
    };
    counts.remove("");
    let mut groups: Vec<Group> = counts.into_iter().map(group).collect();
    groups.sort_by(|one, other| other.count.cmp(&one.count).then(one.name.cmp(&other.name)));
    groups.truncate(12);
    groups
}

/// The parts of each column.
const PARTS: &[Series] = &[(Tone::Bad, "refused"), (Tone::Wait, "deferred")];

/// Counts records by part of the period, and by verdict.
fn columns(records: &[Record], begin: Timestamp, lasts: Duration) -> Vec<Column> {
    let mut columns = chart::empty_columns(begin, lasts, PARTS.len());
    for record in records {
        let part = usize::from(record.verdict == "deferred");
        let column = place(record, begin, lasts).and_then(|place| columns.get_mut(place));
        if let Some(count) = column.and_then(|column| column.parts.get_mut(part)) {
            *count += record.count;
        }
    }
    columns
}

/// The number of the column of a record.
fn place(record: &Record, begin: Timestamp, lasts: Duration) -> Option<usize> {
    let at = record.date.parse::<jiff::Timestamp>().ok()?;
    Some(chart::place(at.as_millisecond(), begin.millis(), lasts))
}

/// Columns of the chart that are one column of the map, so that each count can be read.
const TOGETHER: usize = 4;

/// Counts records of these reasons by part of the period.
fn over_time(records: &[Record], reasons: &[Group], begin: Timestamp, lasts: Duration) -> HeatMap {
    let times = chart::empty_columns(begin, lasts, 0).into_iter().step_by(TOGETHER);
    let times: Vec<String> = times.map(|column| column.label).collect();
    let row = |group: &Group| {
        let mut counts = vec![0; times.len()];
        let of_it = |record: &&Record| record.reason.as_deref() == Some(&*group.name);
        for record in records.iter().filter(of_it) {
            let at = place(record, begin, lasts).map(|place| place / TOGETHER);
            if let Some(count) = at.and_then(|at| counts.get_mut(at)) {
                *count += record.count;
            }
        }
        (group.name.clone(), counts)
    };
    let rows: Vec<_> = reasons.iter().map(row).collect();
    HeatMap::new("Reason", times, rows)
}
