//! System: the state of this gateway, for those who operate it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use serde::Deserialize;

use super::chart::{self, Column, Series, Tone};
use super::filters;
use super::frame::{Frame, Section};
use super::heat::HeatMap;
use super::visit::{Answer, Visit};
use crate::domain::clock::Timestamp;
use crate::http::error::Problem;

/// The answer of the API: `http::routes::system` declares it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    version: String,
    started_at: String,
    date: String,
    checks: Vec<Check>,
    sessions: Option<u64>,
    message_memory_bytes: Option<u64>,
    free_bytes: Option<u64>,
    gateways: Option<u64>,
    connections: u64,
    idle_connections: u64,
    waiting_deliveries: Option<u64>,
    overdue_ms: Option<u64>,
    certificates: Vec<Certificate>,
    durations: Durations,
    minutes: Vec<Minute>,
    messages: Vec<MessageCount>,
    recipients_refused: Vec<Count>,
    authentication: Vec<Authentication>,
    attempts: Vec<Count>,
    attempts_to_success: Vec<Bucket>,
    sizes: Vec<Bucket>,
    tls: Vec<Count>,
    dns_queries: Vec<Count>,
    requests: Vec<Count>,
    gateway_versions: Vec<Count>,
}

#[derive(Debug, Deserialize)]
struct Check {
    name: String,
    fault: Option<String>,
    since: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Certificate {
    listener: String,
    ends_at: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Durations {
    accept: Percentiles,
    first_attempt: Percentiles,
    commit: Percentiles,
    dns_query: Percentiles,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Percentiles {
    count: u64,
    p50_micros: Option<u64>,
    p95_micros: Option<u64>,
    p99_micros: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Minute {
    began: String,
    accepted: u64,
    refused: u64,
    deferred: u64,
}

#[derive(Debug, Deserialize)]
struct MessageCount {
    outcome: String,
    reason: String,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct Authentication {
    spf: String,
    dkim: String,
    dmarc: String,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct Count {
    name: String,
    count: u64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bucket {
    up_to: Option<u64>,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct Shown {
    system: State,
}

/// A row of durations.
struct Duration<'s> {
    words: &'static str,
    percentiles: &'s Percentiles,
}

#[derive(Template)]
#[template(path = "system.html", config = "src/console/templates/askama.toml")]
struct SystemPage {
    frame: Frame,
    state: State,
    /// Messages of the last five minutes, the one under way among them.
    recent: u64,
    minutes: String,
    sizes: String,
    attempts: String,
    /// Messages by the results of SPF and DKIM, and of DMARC.
    proofs: HeatMap,
    /// Requests by operation and status.
    requests: HeatMap,
}

impl SystemPage {
    fn durations(&self) -> [Duration<'_>; 4] {
        let of = &self.state.durations;
        let row = |words, percentiles| Duration { words, percentiles };
        [
            row("A message, from its last octet to 250", &of.accept),
            row("An event, to the end of its first attempt", &of.first_attempt),
            row("A commit", &of.commit),
            row("A DNS query", &of.dns_query),
        ]
    }

    /// How long the first delivery has been due, in microseconds.
    fn overdue(&self) -> Option<u64> {
        self.state.overdue_ms.filter(|millis| *millis > 0).map(|millis| millis * 1_000)
    }

    /// How long the gateway has run.
    fn up(&self) -> String {
        let now: Option<jiff::Timestamp> = self.state.date.parse().ok();
        let now = now.map_or(0, jiff::Timestamp::as_millisecond);
        match filters::ago(&self.state.started_at, Timestamp::from_millis(now)).as_str() {
            "now" => "less than a second".to_owned(),
            up => up.to_owned(),
        }
    }
}

impl Percentiles {
    const fn all(&self) -> [Option<u64>; 3] {
        [self.p50_micros, self.p95_micros, self.p99_micros]
    }
}

impl Certificate {
    /// Whole days until the end; negative after it.
    fn days(&self, now: &str) -> i64 {
        let at = |text: &str| text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second);
        match (at(&self.ends_at), at(now)) {
            (Some(end), Some(now)) => (end - now).div_euclid(86_400),
            _ => 0,
        }
    }

    /// The days in words; beyond ten years nobody counts them.
    fn left(&self, now: &str) -> String {
        match self.days(now) {
            3_650.. => "more than 10 years".to_owned(),
            1 => "1 day".to_owned(),
            days @ 0.. => format!("{days} days"),
            _ => "nothing".to_owned(),
        }
    }

    fn tone(&self, now: &str) -> &'static str {
        match self.days(now) {
            ..0 => "bad",
            0..14 => "wait",
            _ => "good",
        }
    }
}

/// The parts of a minute.
const OUTCOMES: &[Series] =
    &[(Tone::Good, "accepted"), (Tone::Bad, "refused"), (Tone::Wait, "deferred")];

/// Classes of status that a request can end with.
const CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Most operations on the page: those of which a request failed here, then those asked for most.
const MOST_OPERATIONS: usize = 20;

/// Shows the state.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let frame = visit.frame(Section::System).await?;
    let Shown { system: state } = visit.ask(visit.on("getSystem")).await?;
    let last = state.minutes.iter().rev().take(5);
    let recent = last.map(|one| one.accepted + one.refused + one.deferred).sum();
    let minutes = minutes(&state);
    let minutes = chart::columns(&minutes, OUTCOMES)?;
    let sizes = buckets(&state.sizes, size);
    let attempts = buckets(&state.attempts_to_success, |number| number.to_string());
    let sizes = chart::columns(&sizes, &[(Tone::Plain, "messages")])?;
    let attempts = chart::columns(&attempts, &[(Tone::Plain, "deliveries")])?;
    let (proofs, requests) = (proofs(&state.authentication), requests(&state.requests));
    let page = SystemPage { frame, state, recent, minutes, sizes, attempts, proofs, requests };
    Answer::page(&page)
}

/// Messages by what SPF and DKIM said, one row for each pair, and what DMARC made of it.
fn proofs(counts: &[Authentication]) -> HeatMap {
    let columns: BTreeSet<&str> = counts.iter().map(|one| &*one.dmarc).collect();
    let mut rows = BTreeMap::<(&str, &str), Vec<u64>>::new();
    for one in counts {
        let row = rows.entry((&one.spf, &one.dkim)).or_insert_with(|| vec![0; columns.len()]);
        let place = columns.iter().position(|dmarc| *dmarc == one.dmarc);
        if let Some(count) = place.and_then(|place| row.get_mut(place)) {
            *count += one.count;
        }
    }
    let rows = rows.into_iter().map(|((spf, dkim), row)| (format!("{spf}, {dkim}"), row));
    let columns = columns.into_iter().map(|dmarc| format!("DMARC {dmarc}")).collect();
    HeatMap::new("SPF, DKIM", columns, rows)
}

/// Requests by operation and class of status, the most asked for first.
fn requests(counts: &[Count]) -> HeatMap {
    let mut operations = BTreeMap::<&str, Vec<u64>>::new();
    for one in counts {
        let Some((operation, status)) = one.name.split_once(' ') else { continue };
        let row = operations.entry(operation).or_insert_with(|| vec![0; CLASSES.len()]);
        let place = CLASSES.iter().position(|class| *class == status);
        if let Some(count) = place.and_then(|place| row.get_mut(place)) {
            *count += one.count;
        }
    }
    let mut rows: Vec<_> =
        operations.into_iter().map(|(name, counts)| (name.to_owned(), counts)).collect();
    let failed = |counts: &[u64]| counts.last().is_some_and(|count| *count > 0);
    rows.sort_by_key(|(_, counts)| Reverse((failed(counts), counts.iter().sum::<u64>())));
    rows.truncate(MOST_OPERATIONS);
    HeatMap::new("Operation", CLASSES.map(str::to_owned).to_vec(), rows)
}

/// An hour of minutes, those before the start empty.
fn minutes(state: &State) -> Vec<Column> {
    let empty = || Column { label: String::new(), parts: vec![0, 0, 0] };
    let missing = 61_usize.saturating_sub(state.minutes.len());
    let before = std::iter::repeat_with(empty).take(missing);
    before.chain(state.minutes.iter().map(minute)).collect()
}

fn minute(one: &Minute) -> Column {
    // Hours and minutes of an RFC 3339 date in UTC.
    let label = one.began.get(11..16).unwrap_or_default().to_owned();
    Column { label, parts: vec![one.accepted, one.refused, one.deferred] }
}

fn buckets(buckets: &[Bucket], words: fn(u64) -> String) -> Vec<Column> {
    let column = |bucket: &Bucket| {
        let label = bucket.up_to.map_or_else(|| "more".to_owned(), words);
        Column { label, parts: vec![bucket.count] }
    };
    buckets.iter().map(column).collect()
}

fn size(bytes: u64) -> String {
    match bytes {
        ..1_048_576 => format!("{} KiB", bytes / 1_024),
        bytes => format!("{} MiB", bytes / 1_048_576),
    }
}
