//! `POST /logs/timeSeries`: a metric over the conversation log, calculated in the database.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::app::mailbox::series::{self, MetricError, MetricRequest};
use crate::domain::metric::{Grouping, Interval};
use crate::http::limits::turns::to_the_end;
use crate::http::routes::log_filter::check_delivery_terms;
use crate::http::routes::metric_definition::MetricQuery;
use crate::http::typed::{Call, Problem, successes};
use crate::wire::{Date, Moment, Seconds, Word};

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
    metric: Option<MetricQuery>,
    /// Alias of metric.
    #[schemars(example = &"refused")]
    definition: Option<MetricQuery>,
    /// Rows from then on.
    start: Moment,
    /// Rows before then.
    end: Moment,
    /// Length of a bucket; a day if missing.
    interval: Option<Word<Interval>>,
    /// The field that groups rows.
    group_by: Option<Word<Grouping>>,
}

successes! {
    Measured {
        #[serde(flatten)]
        measured: series::Measured,
        /// The definition as sent, with defaults added.
        metric: Map<String, Value>,
        /// The beginning of the time, in Unix seconds.
        start: Seconds,
        /// The beginning as a date.
        start_date: Date,
        /// The end of the time, in Unix seconds.
        end: Seconds,
        /// The end as a date.
        end_date: Date,
        /// Length of a bucket.
        interval: Word<Interval>,
        /// The field that groups rows.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Word<Grouping>")]
        group_by: Option<Word<Grouping>>,
    } = OK "metric calculated";
}

/// Returns the value over the whole time and per bucket, each with its number of rows.
pub async fn measure(call: Call, request: Measure) -> Result<Measured, Problem> {
    let rules = call.http.rules.logs;
    let defined = match (request.metric, request.definition) {
        (Some(metric), _) => metric.read("metric", &rules),
        (None, Some(definition)) => definition.read("definition", &rules),
        (None, None) => Err(Problem::invalid("send metric or definition")),
    }?;
    let (Moment(since), Moment(before)) = (request.start, request.end);
    if since > before {
        return Err(Problem::invalid("start lies after end: swap them"));
    }
    let interval = request.interval.map_or(Interval::Day, |Word(interval)| interval);
    let grouping = request.group_by.map(|Word(grouping)| grouping);
    let question = MetricRequest { metric: defined.metric, since, before, interval, grouping };
    check_delivery_terms(question.metric.delivery_terms(), &rules)?;
    let turn = call.turn_at_logs()?;
    let (mailbox, permit) = (call.http.use_cases.mailbox.clone(), call.http.logs.permit().await?);
    let scope = call.target.scope.clone();
    let measuring = async move { mailbox.measure(&scope, &question, &rules).await };
    let measured = to_the_end((turn, permit), measuring).await?.map_err(|why| match why {
        MetricError::Store(error) => error.into(),
        too_much => Problem::invalid(too_much.to_string()),
    })?;
    Ok(Measured {
        measured,
        metric: defined.shown,
        start: Seconds(since),
        start_date: Date(since),
        end: Seconds(before),
        end_date: Date(before),
        interval: Word(interval),
        group_by: request.group_by,
    })
}
