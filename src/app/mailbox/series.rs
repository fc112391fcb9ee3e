//! Metrics over the conversation log: by bucket, by group, and over the whole time.

use std::collections::BTreeMap;

use jiff::ToSpan as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::Mailbox;
use super::logs::as_number;
use crate::domain::clock::Timestamp;
use crate::domain::condition::LogFilter;
use crate::domain::id::AccountId;
use crate::domain::metric::{Grouping, Interval, Metric, Tally};
use crate::domain::scope::Scope;
use crate::rules::LogRules;
use crate::store::{Bucketing, StoreError};
use crate::wire::{Date, Number, Seconds};

/// A metric with its time and grouping.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRequest {
    pub metric: Metric,
    /// The time is bounded on both sides: from `since` on, and before `before`.
    pub since: Timestamp,
    pub before: Timestamp,
    pub interval: Interval,
    pub grouping: Option<Grouping>,
}

/// The result over some rows.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// The result; null if there is none.
    #[schemars(with = "Option<f64>")]
    value: Option<Value>,
    /// Number of rows that the result rests on.
    event_count: u64,
    /// Whether those rows are too few.
    below_minimum_sample: bool,
}

/// A metric over a part of the time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MetricBucket")]
pub struct Bucket {
    #[serde(flatten)]
    point: Point,
    /// The beginning of the bucket.
    start: Date,
    /// The beginning of the bucket, in Unix seconds.
    timestamp: Seconds,
}

/// The result over all rows of one kind, and bucket by bucket.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Series {
    #[serde(flatten)]
    whole: Point,
    /// Bucket by bucket, empty ones too.
    series: Vec<Bucket>,
}

/// A group of rows.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Group {
    /// The common value of the rows; null if they have none.
    key: Option<Key>,
    #[serde(flatten)]
    series: Series,
}

/// As in the log: an account by its number.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Key {
    Account(Number),
    Word(String),
}

/// The result of a metric.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Measured {
    #[serde(flatten)]
    all: Series,
    /// Group by group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Group>")]
    groups: Option<Vec<Group>>,
}

#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    #[error(
        "more than {0} records lie between start and end: narrow start and end, or choose a target \
         with fewer accounts below it"
    )]
    TooManyRows(u32),
    #[error(
        "more than {0} buckets lie between start and end: narrow start and end, or choose a longer \
         interval"
    )]
    TooManyBuckets(usize),
    #[error("more than {0} groups: choose another groupBy, or filter")]
    TooManyGroups(usize),
    #[error(
        "more than {0} points (groups times buckets): narrow start and end, or choose a longer \
         interval"
    )]
    TooManyPoints(usize),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A month is the sum of its days.
const DAYS: usize = 31;

impl Mailbox {
    /// Calculates a metric. Fails if it needs too many rows, groups, buckets or points.
    pub async fn measure(
        &self,
        scope: &Scope,
        asked: &MetricRequest,
        rules: &LogRules,
    ) -> Result<Measured, MetricError> {
        let starts = starts(asked, rules.max_buckets)
            .ok_or(MetricError::TooManyBuckets(rules.max_buckets))?;
        let conditions = asked.metric.filters.clone();
        let (since, before) = (Some(asked.since), Some(asked.before));
        let filter = LogFilter { conditions, since, before }.narrowed();
        let most = rules.max_metric_rows;
        if self.store.end_of_log(scope, filter.time(), most.saturating_add(1)).await?.is_some() {
            return Err(MetricError::TooManyRows(rules.max_metric_rows));
        }
        let most = match asked.interval {
            Interval::Month => rules.max_points.saturating_mul(DAYS),
            _ => rules.max_points,
        };
        let by = Bucketing { interval: asked.interval, grouping: asked.grouping };
        let wanted = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
        let found =
            self.store.log_tallies(scope, &filter, &asked.metric.formula, by, wanted).await?;
        if found.len() > most {
            return Err(MetricError::TooManyPoints(rules.max_points));
        }
        let mut all = Tallies::new();
        let mut groups: BTreeMap<Option<String>, Tallies> = BTreeMap::new();
        for bucket in found {
            let start = begin(bucket.start, asked.interval);
            all.entry(start).or_default().add(&bucket.tally);
            if asked.grouping.is_some() {
                let group = groups.entry(bucket.group).or_default();
                group.entry(start).or_default().add(&bucket.tally);
            }
        }
        if groups.len() > rules.max_groups {
            return Err(MetricError::TooManyGroups(rules.max_groups));
        }
        if groups.len().saturating_mul(starts.len()) > rules.max_points {
            return Err(MetricError::TooManyPoints(rules.max_points));
        }
        let series = |found: &Tallies| series(&asked.metric, &starts, found);
        let group = |(word, found): (Option<String>, Tallies)| Group {
            key: word.map(|word| key(asked.grouping, word)),
            series: series(&found),
        };
        let groups = asked.grouping.map(|_| groups.into_iter().map(group).collect());
        Ok(Measured { all: series(&all), groups })
    }
}

type Tallies = BTreeMap<Timestamp, Tally>;

fn series(metric: &Metric, starts: &[Timestamp], found: &Tallies) -> Series {
    let bucket = |start: &Timestamp| Bucket {
        point: point(metric, &found.get(start).copied().unwrap_or_default()),
        start: Date(*start),
        timestamp: Seconds(*start),
    };
    let mut whole = Tally::default();
    found.values().for_each(|tally| whole.add(tally));
    Series { whole: point(metric, &whole), series: starts.iter().map(bucket).collect() }
}

fn point(metric: &Metric, tally: &Tally) -> Point {
    Point {
        value: metric.result(tally).map(as_number),
        event_count: tally.events,
        below_minimum_sample: tally.events < metric.minimum_sample,
    }
}

fn key(by: Option<Grouping>, word: String) -> Key {
    let id = word.parse::<AccountId>().ok().filter(|_| by == Some(Grouping::AccountId));
    id.map_or(Key::Word(word), |id| Key::Account(id.into()))
}

/// Returns the beginnings of the buckets, or None if there are more than `most`.
fn starts(asked: &MetricRequest, most: usize) -> Option<Vec<Timestamp>> {
    let mut starts = Vec::new();
    let mut start = begin(asked.since, asked.interval);
    while start < asked.before {
        if starts.len() >= most {
            return None;
        }
        starts.push(start);
        start = next(start, asked.interval);
    }
    Some(starts)
}

/// Returns the beginning of the bucket of a moment.
fn begin(at: Timestamp, interval: Interval) -> Timestamp {
    // The Unix epoch was a Thursday: its week began three days before, on a Monday.
    let shift = if interval == Interval::Week { 3 * DAY } else { 0 };
    match width(interval) {
        Some(width) => {
            let begun = (at.millis() + shift).div_euclid(width) * width - shift;
            Timestamp::from_millis(begun)
        }
        None => Timestamp::from_utc(at.utc().date().first_of_month().into()),
    }
}

fn next(start: Timestamp, interval: Interval) -> Timestamp {
    match width(interval) {
        Some(width) => Timestamp::from_millis(start.millis() + width),
        None => Timestamp::from_utc(start.utc().saturating_add(1.month())),
    }
}

const DAY: i64 = 86_400_000;

const fn width(interval: Interval) -> Option<i64> {
    match interval {
        Interval::Hour => Some(DAY / 24),
        Interval::Day => Some(DAY),
        Interval::Week => Some(7 * DAY),
        Interval::Month => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        crate::domain::instant::parse(text).unwrap()
    }

    #[test]
    fn buckets_begin_where_calendars_have_them() {
        let question = |since, before, interval| MetricRequest {
            metric: Metric::ready("accepted").unwrap(),
            since: at(since),
            before: at(before),
            interval,
            grouping: None,
        };
        for (since, before, interval, expected) in [
            (
                "2026-11-22T05:20:00Z",
                "2026-11-22T07:00:00Z",
                Interval::Hour,
                vec!["2026-11-22T05:00:00Z", "2026-11-22T06:00:00Z"],
            ),
            (
                "2024-02-28T23:00:00Z",
                "2024-03-01T00:00:01Z",
                Interval::Day,
                vec!["2024-02-28", "2024-02-29", "2024-03-01"],
            ),
            // A Sunday, and the Monday after it.
            ("2026-11-22", "2026-11-24", Interval::Week, vec!["2026-11-16", "2026-11-23"]),
            (
                "2025-11-30",
                "2026-02-01",
                Interval::Month,
                vec!["2025-11-01", "2025-12-01", "2026-01-01"],
            ),
            ("2026-01-01", "2026-01-01", Interval::Day, vec![]),
        ] {
            let asked = question(since, before, interval);
            let expected: Vec<_> = expected.into_iter().map(at).collect();
            assert_eq!(starts(&asked, 3), Some(expected), "{since} {before}");
        }
        let long = question("2026-01-01", "2026-01-05", Interval::Day);
        assert_eq!((starts(&long, 3), starts(&long, 4).unwrap().len()), (None, 4));
    }
}
