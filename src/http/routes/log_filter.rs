//! Parses a request for the conversation log: rows filtered by any fields, between two moments.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde_json::json;

use crate::domain::condition::{Condition, ConditionError, LogFilter, delivery_terms};
use crate::domain::fault::{Fault, join};
use crate::domain::log_field::{LogField, Op};
use crate::http::request::query::quoted;
use crate::http::typed::{Filters, Problem, refused};
use crate::rules::LogRules;
use crate::wire::Moment;

/// Shows the conversation log
///
/// Newest first; as JSON in pages, or as a table.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct List {
    /// Rows from then on.
    start: Option<Moment>,
    /// Rows before then.
    end: Option<Moment>,
    #[schemars(transform = about_fields, example = &"date,outcome,reason")]
    fields: Option<String>,
    /// Whether the answer explains the fields.
    include_fields: Option<bool>,
    /// csv for a table of all rows.
    pub(super) format: Option<Format>,
    /// Number of the page, from 1.
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    page: Option<u32>,
    /// Maximum number of rows on a page.
    #[schemars(extend("minimum" = 1, "maximum" = "logs.max_page", "default" = "logs.default_page"))]
    page_size: Option<u32>,
    #[serde(rename = "field__op")]
    #[schemars(transform = about_filters, example = json!({ "outcome": "refused" }))]
    filters: Option<Filters>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(super) enum Format {
    Json,
    Csv,
}

fn about_fields(schema: &mut Schema) {
    let about = format!("Names, separated by commas: {}.", LogField::names());
    schema.insert("description".to_owned(), about.into());
}

fn about_filters(schema: &mut Schema) {
    let ops = Op::ALL.iter().map(|op| op.as_str()).collect::<Vec<_>>().join(", ");
    let about = format!(
        "Filters, each as a parameter: field=value, or field__op=value, where op is one of {ops}."
    );
    schema.insert("description".to_owned(), about.into());
}

pub(super) struct LogQuery {
    pub(super) filter: LogFilter,
    pub(super) fields: Vec<LogField>,
    /// Number, from 1, and size of the page.
    pub(super) page: (u32, u32),
    /// Whether the request asks for a page.
    pub(super) is_paged: bool,
    pub(super) describes: bool,
}

pub(super) fn parse(request: List, rules: &LogRules) -> Result<LogQuery, Problem> {
    let (since, before) = (request.start.map(|Moment(at)| at), request.end.map(|Moment(at)| at));
    if since.zip(before).is_some_and(|(since, before)| since > before) {
        return Err(Problem::invalid("start lies after end: swap them"));
    }
    let conditions = conditions(&request.filters.unwrap_or_default(), rules)?;
    Ok(LogQuery {
        filter: LogFilter { conditions, since, before }.narrowed(),
        fields: fields(request.fields.as_deref())?,
        page: (request.page.unwrap_or(1), request.page_size.unwrap_or(rules.default_page)),
        is_paged: request.page.is_some() || request.page_size.is_some(),
        describes: request.include_fields.unwrap_or_default(),
    })
}

fn fields(request: Option<&str>) -> Result<Vec<LogField>, Problem> {
    let Some(text) = request else {
        return Ok(LogField::ALL.iter().copied().filter(|field| field.is_listed()).collect());
    };
    let mut fields = Vec::new();
    for name in text.split(',').map(str::trim) {
        let unknown = || refused("fields", &format!("{} {}", quoted(name), FilterError::Field));
        let field = LogField::named(name).ok_or_else(unknown)?;
        if fields.contains(&field) {
            return Err(refused("fields", &format!("{name} is sent twice")));
        }
        fields.push(field);
    }
    Ok(fields)
}

fn conditions(filters: &Filters, rules: &LogRules) -> Result<Vec<Condition>, Problem> {
    if filters.len() > rules.max_filters {
        return Err(Problem::invalid(format!(
            "too many filters: send at most {}",
            rules.max_filters
        )));
    }
    let (mut conditions, mut faults) = (Vec::new(), Vec::new());
    for (name, value) in filters {
        match condition(name, value, rules) {
            Ok(condition) => conditions.push(condition),
            Err(error) => faults.push(Fault { pointer: join("", name), detail: error.to_string() }),
        }
    }
    if !faults.is_empty() {
        return Err(Problem::mistaken(faults));
    }
    check_delivery_terms(delivery_terms(&conditions), rules)?;
    Ok(conditions)
}

/// A mistake in a filter. Its text follows the place of the filter.
#[derive(Debug, thiserror::Error)]
enum FilterError {
    #[error("is not a field of the log: expected {}", LogField::names())]
    Field,
    #[error("has an unknown operator after __: expected one of {}", .0.kind().ops().iter().map(|op| op.as_str()).collect::<Vec<_>>().join(", "))]
    Op(LogField),
    #[error("is refused: {0}")]
    Condition(#[from] ConditionError),
}

/// Parses `field=value` or `field__op=value`; several values are separated by commas.
fn condition(name: &str, value: &str, rules: &LogRules) -> Result<Condition, FilterError> {
    let (field, op) = name.split_once("__").unwrap_or((name, Op::Eq.as_str()));
    let field = LogField::named(field).ok_or(FilterError::Field)?;
    let op: Op = op.parse().map_err(|_| FilterError::Op(field))?;
    let values: Vec<&str> = match op {
        Op::In | Op::Nin => value.split(',').collect(),
        _ => vec![value],
    };
    Ok(checked(field, op, &values, rules)?)
}

/// One comparison, with a bounded number of values.
pub(super) fn checked(
    field: LogField,
    op: Op,
    values: &[&str],
    rules: &LogRules,
) -> Result<Condition, ConditionError> {
    if values.len() > rules.max_values {
        return Err(ConditionError::TooMany { field, op, most: rules.max_values });
    }
    Condition::new(field, op, values)
}

/// 400 for a page beyond the rows that a request examines.
pub(super) fn page_too_far(most: u32) -> Problem {
    Problem::invalid(format!(
        "a request reads only the newest {most} records between start and end, and this page lies \
         beyond them: narrow start and end"
    ))
}

/// Fails with 400 if a request names fields of deliveries too often.
pub(super) fn check_delivery_terms(terms: usize, rules: &LogRules) -> Result<(), Problem> {
    let most = rules.max_delivery_terms;
    let detail = format!(
        "filters and formula name deliveries, delivered, exhausted and pending {terms} times: name \
         them at most {most} times in one request"
    );
    if terms > most { Err(Problem::invalid(detail)) } else { Ok(()) }
}
