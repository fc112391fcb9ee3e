//! A request for the conversation log, as it is read: rows by any of their fields, between two moments.

use super::super::call::Call;
use super::super::error::Problem;
use super::super::query::{FILTERS, quoted};
use super::super::target::TARGET;
use crate::domain::condition::{Condition, ConditionError, LogFilter, delivery_terms};
use crate::domain::log_field::{LogField, Op};
use crate::rules::LogRules;

/// The parameters that it knows, beside the filters.
pub(in super::super) const LIST: [&str; 8] =
    ["start", "end", "fields", "includeFields", "format", "page", "pageSize", FILTERS];

/// A request, read.
pub(super) struct Wanted {
    pub(super) filter: LogFilter,
    pub(super) fields: Vec<LogField>,
    /// Its number, from 1, and its size.
    pub(super) page: (u64, u32),
    /// Whether one is asked for.
    pub(super) is_paged: bool,
    pub(super) describes: bool,
}

/// Reads a request.
pub(super) fn wanted(call: &Call, rules: &LogRules) -> Result<Wanted, Problem> {
    let describes = match call.query().get("includeFields") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::invalid("includeFields must be true or false")),
    };
    let number = |name: &str, otherwise: u64, most: u64| {
        let Some(text) = call.query().get(name) else { return Ok(otherwise) };
        let number = text.parse().ok().filter(|number: &u64| number.to_string() == text);
        number.filter(|number| (1..=most).contains(number)).ok_or_else(|| {
            Problem::invalid(format!("{name} must be a whole number from 1 to {most}"))
        })
    };
    let size = number("pageSize", rules.default_page.into(), rules.max_page.into())?;
    let page = number("page", 1, u32::MAX.into())?;
    Ok(Wanted {
        filter: filter(call, rules)?,
        fields: fields(call)?,
        page: (page, u32::try_from(size).unwrap_or(rules.max_page)),
        is_paged: ["page", "pageSize"].iter().any(|name| call.query().get(name).is_some()),
        describes,
    })
}

fn fields(call: &Call) -> Result<Vec<LogField>, Problem> {
    let Some(text) = call.query().get("fields") else {
        return Ok(LogField::ALL.iter().copied().filter(|field| field.is_listed()).collect());
    };
    let mut fields = Vec::new();
    for name in text.split(',').map(str::trim) {
        let field = LogField::named(name).ok_or_else(|| unknown("fields: ", name))?;
        if fields.contains(&field) {
            return Err(Problem::invalid(format!("fields: {name} is there twice")));
        }
        fields.push(field);
    }
    Ok(fields)
}

fn unknown(place: &str, name: &str) -> Problem {
    let known = LogField::names();
    Problem::invalid(format!("{place}{} is no field of the log: expected {known}", quoted(name)))
}

fn filter(call: &Call, rules: &LogRules) -> Result<LogFilter, Problem> {
    let (since, before) = (call.time("start")?, call.time("end")?);
    if since.zip(before).is_some_and(|(since, before)| since > before) {
        return Err(Problem::invalid("start lies behind end: exchange them"));
    }
    let mut conditions = Vec::new();
    for (name, value) in call.query().pairs() {
        if name != TARGET && !LIST.contains(&name) || name == FILTERS {
            conditions.push(condition(name, value, rules)?);
        }
    }
    if conditions.len() > rules.max_filters {
        return Err(Problem::invalid(format!("at most {} filters at once", rules.max_filters)));
    }
    check_delivery_terms(delivery_terms(&conditions), rules)?;
    Ok(LogFilter { conditions, since, before }.narrowed())
}

/// `field=value` or `field__op=value`; several values with commas between them.
fn condition(name: &str, value: &str, rules: &LogRules) -> Result<Condition, Problem> {
    let (field, op) = name.split_once("__").unwrap_or((name, Op::Eq.as_str()));
    let place = format!("query parameter {}: ", quoted(name));
    let field = LogField::named(field).ok_or_else(|| unknown(&place, field))?;
    let op: Op = op.parse().map_err(|_| {
        let known: Vec<_> = field.kind().ops().iter().map(|op| op.as_str()).collect();
        Problem::invalid(format!("{place}expected one of {} behind __", known.join(", ")))
    })?;
    let values: Vec<&str> = match op {
        Op::In | Op::Nin => value.split(',').collect(),
        _ => vec![value],
    };
    checked(field, op, &values, rules).map_err(|fault| Problem::invalid(format!("{place}{fault}")))
}

/// One comparison with no more values than may be.
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

/// For a page that lies behind the rows that a request looks at.
pub(super) fn behind(most: u32) -> Problem {
    Problem::invalid(format!(
        "a request looks at the newest {most} records between start and end, and this page lies \
         behind them: narrow start and end"
    ))
}

/// So often may a request name fields of deliveries.
pub(super) fn check_delivery_terms(terms: usize, rules: &LogRules) -> Result<(), Problem> {
    let most = rules.max_delivery_terms;
    let detail = format!(
        "filters and formula name deliveries, delivered, exhausted and pending {terms} times: at \
         most {most} times in one request"
    );
    if terms > most { Err(Problem::invalid(detail)) } else { Ok(()) }
}
