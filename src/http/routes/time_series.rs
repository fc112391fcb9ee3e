//! `POST /logs/timeSeries`: a metric over the conversation log, calculated in the database.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::super::turns::to_the_end;
use super::log_filter::check_delivery_terms;
use super::metric_definition::Definition;
use crate::app::mailbox::logs::as_number;
use crate::app::mailbox::series::{Question, Series, Unmeasured};
use crate::domain::clock::Timestamp;
use crate::domain::instant;
use crate::domain::metric::{Grouping, Interval, Metric, Tally};

/// The fields of its body, beside the target.
pub(in super::super) const FIELDS: &[&str] =
    &["metric", "definition", "start", "end", "interval", "groupBy"];

/// The value over the whole time and bucket by bucket, each with how many rows it rests on.
pub(in super::super) async fn measure(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let body = call.body();
    let definition = match (body.get("metric"), body.get("definition")) {
        (Some(one), None) | (None, Some(one)) => Definition::read(one, &http.rules.logs)?,
        (None, None) => {
            let known = Metric::ready_names();
            let detail = format!("metric is missing: send one of {known}, or a definition");
            return Err(Problem::invalid(detail));
        }
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("metric and definition exclude each other: send one"));
        }
    };
    let (since, before) = (moment(&call, "start")?, moment(&call, "end")?);
    if since > before {
        return Err(Problem::invalid("start lies behind end: exchange them"));
    }
    let interval = body.text("interval")?.map_or(Ok(Interval::Day), str::parse);
    let grouping: Option<Grouping> =
        body.text("groupBy")?.map(str::parse).transpose().map_err(Problem::invalid)?;
    let metric = definition.metric.clone();
    let interval = interval.map_err(Problem::invalid)?;
    let asked = Question { metric, since, before, interval, grouping };
    check_delivery_terms(asked.metric.delivery_terms(), &http.rules.logs)?;
    let turn = call.turn_at_logs(&http)?;
    let (mailbox, permit) = (http.use_cases.mailbox.clone(), http.logs.permit().await?);
    let (scope, rules) = (call.target().scope.clone(), http.rules.logs);
    let measuring = async move { (mailbox.measure(&scope, &asked, &rules).await, asked) };
    let (found, asked) = to_the_end((turn, permit), measuring).await?;
    let found = found.map_err(|why| match why {
        Unmeasured::Store(error) => error.into(),
        too_much => Problem::invalid(too_much.to_string()),
    })?;
    let mut fields = shown(&asked.metric, &found.all);
    fields.extend([
        ("metric".to_owned(), definition.shown()),
        ("start".to_owned(), since.seconds().into()),
        ("end".to_owned(), before.seconds().into()),
        ("interval".to_owned(), interval.as_str().into()),
    ]);
    if let Some(grouping) = grouping {
        let groups = found.groups.iter().map(|(word, series)| {
            let mut group = shown(&asked.metric, series);
            group.insert("key".into(), group_key(grouping, word.as_deref()));
            Value::Object(group)
        });
        fields.insert("groups".into(), groups.collect());
        fields.insert("groupBy".into(), grouping.as_str().into());
    }
    Ok(success(StatusCode::OK, "metric calculated", Value::Object(fields)))
}

/// A moment of the body, which must be there.
fn moment(call: &Call, name: &str) -> Result<Timestamp, Problem> {
    let text = match call.body().get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    instant::parse(&text).ok_or_else(|| {
        Problem::invalid(format!(
            "field {name} must be Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z"
        ))
    })
}

/// As in the log: an account by its number.
fn group_key(grouping: Grouping, word: Option<&str>) -> Value {
    let number = word.filter(|_| grouping == Grouping::AccountId).and_then(|id| id.parse().ok());
    number.map_or_else(|| word.into(), |id: i64| id.into())
}

fn shown(metric: &Metric, series: &Series) -> Map<String, Value> {
    let mut fields = point(metric, &series.whole);
    let buckets = series.buckets.iter().map(|(start, tally)| {
        let mut bucket = point(metric, tally);
        bucket.insert("start".into(), start.to_string().into());
        bucket.insert("timestamp".into(), start.seconds().into());
        Value::Object(bucket)
    });
    fields.insert("series".into(), buckets.collect());
    fields
}

fn point(metric: &Metric, tally: &Tally) -> Map<String, Value> {
    let fields = [
        ("value", metric.result(tally).map(as_number).into()),
        ("eventCount", tally.events.into()),
        ("belowMinimumSample", (tally.events < metric.minimum_sample).into()),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
