//! `POST /logs/timeSeries`: a metric over the conversation log, calculated in the database.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::super::turns::to_the_end;
use super::super::typed::successes;
use super::log_filter::check_delivery_terms;
use super::metric_definition::Asked;
use crate::app::mailbox::logs::as_number;
use crate::app::mailbox::series::{self, Question, Unmeasured};
use crate::domain::id::AccountId;
use crate::domain::metric::{Grouping, Interval, Metric, Tally};
use crate::wire::{Date, Moment, Number, Seconds, Word};

/// Calculates a metric over the conversation log
///
/// Send metric or definition.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    extend("x-one-of" = ["metric", "definition"]),
    example = json!({ "metric": "refused", "start": "2026-11-01", "end": "2026-11-20" })
)]
pub struct Measure {
    /// A metric by name, or a definition.
    #[schemars(example = &"refused")]
    metric: Option<Asked>,
    /// The same as metric.
    #[schemars(example = &"refused")]
    definition: Option<Asked>,
    /// Rows from then on.
    start: Moment,
    /// Rows before then.
    end: Moment,
    /// Length of a bucket; a day if missing.
    interval: Option<Word<Interval>>,
    /// What tells groups of rows apart.
    group_by: Option<Word<Grouping>>,
}

/// The metric over the whole time, and bucket by bucket.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    #[serde(flatten)]
    whole: Series,
    /// The definition as sent, completed with defaults.
    metric: Map<String, Value>,
    /// The beginning of the time.
    start: Seconds,
    /// The same as a date.
    start_date: Date,
    /// The end of the time.
    end: Seconds,
    /// The same as a date.
    end_date: Date,
    /// Length of a bucket.
    interval: Word<Interval>,
    /// The metric of each group.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Group>")]
    groups: Option<Vec<Group>>,
    /// What tells groups of rows apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Word<Grouping>")]
    group_by: Option<Word<Grouping>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Point {
    /// The result; null if there is none.
    #[schemars(with = "Option<f64>")]
    value: Option<Value>,
    /// Number of rows that the result rests on.
    event_count: u64,
    /// Whether those rows are too few.
    below_minimum_sample: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Series {
    #[serde(flatten)]
    point: Point,
    /// Bucket by bucket.
    series: Vec<Bucket>,
}

/// A metric over a part of the time.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MetricBucket")]
struct Bucket {
    #[serde(flatten)]
    point: Point,
    /// The beginning of the bucket.
    start: Date,
    /// The same in Unix seconds.
    timestamp: Seconds,
}

/// A group.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct Group {
    /// What the rows of the group have in common; null if they have no such value.
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

successes! { Measured = OK "metric calculated"; }

/// The value over the whole time and bucket by bucket, each with how many rows it rests on.
pub async fn measure(http: Arc<Http>, call: Call, asked: Measure) -> Result<Measured, Problem> {
    let rules = http.rules.logs;
    let defined = match (asked.metric, asked.definition) {
        (Some(metric), _) => metric.read("metric", &rules),
        (None, Some(definition)) => definition.read("definition", &rules),
        (None, None) => Err(Problem::invalid("send metric or definition")),
    }?;
    let (Moment(since), Moment(before)) = (asked.start, asked.end);
    if since > before {
        return Err(Problem::invalid("start lies behind end: exchange them"));
    }
    let interval = asked.interval.map_or(Interval::Day, |Word(interval)| interval);
    let grouping = asked.group_by.map(|Word(grouping)| grouping);
    let question = Question { metric: defined.metric, since, before, interval, grouping };
    check_delivery_terms(question.metric.delivery_terms(), &rules)?;
    let turn = call.turn_at_logs(&http)?;
    let (mailbox, permit) = (http.use_cases.mailbox.clone(), http.logs.permit().await?);
    let scope = call.target().scope.clone();
    let measuring = async move { (mailbox.measure(&scope, &question, &rules).await, question) };
    let (found, Question { metric, .. }) = to_the_end((turn, permit), measuring).await?;
    let found = found.map_err(|why| match why {
        Unmeasured::Store(error) => error.into(),
        too_much => Problem::invalid(too_much.to_string()),
    })?;
    let group = |(word, series): (Option<String>, series::Series)| Group {
        key: word.map(|word| key(asked.group_by, word)),
        series: shape(&metric, &series),
    };
    Ok(Measured {
        whole: shape(&metric, &found.all),
        metric: defined.shown,
        start: Seconds(since),
        start_date: Date(since),
        end: Seconds(before),
        end_date: Date(before),
        interval: Word(interval),
        groups: grouping.map(|_| found.groups.into_iter().map(group).collect()),
        group_by: asked.group_by,
    })
}

fn key(by: Option<Word<Grouping>>, word: String) -> Key {
    let id = word.parse::<AccountId>().ok().filter(|_| by == Some(Word(Grouping::AccountId)));
    id.map_or(Key::Word(word), |id| Key::Account(id.into()))
}

fn shape(metric: &Metric, series: &series::Series) -> Series {
    let bucket = |(start, tally): &(_, _)| Bucket {
        point: point(metric, tally),
        start: Date(*start),
        timestamp: Seconds(*start),
    };
    Series {
        point: point(metric, &series.whole),
        series: series.buckets.iter().map(bucket).collect(),
    }
}

fn point(metric: &Metric, tally: &Tally) -> Point {
    Point {
        value: metric.result(tally).map(as_number),
        event_count: tally.events,
        below_minimum_sample: tally.events < metric.minimum_sample,
    }
}
