//! The definition of a metric, as v2 writes it, read strictly: `{name, title, filters, formula,
//! fieldTypes, aggregation, scale, format, precision, dateFilter, minimumSampleSize}`.

use serde_json::{Map, Value, json};

use super::super::error::Problem;
use super::super::query::quoted;
use super::log_filter::checked;
use crate::domain::condition::Condition;
use crate::domain::formula::Formula;
use crate::domain::log_field::{LogField, Op};
use crate::domain::metric::{Aggregation, Metric};
use crate::rules::LogRules;

const KNOWN: [&str; 11] = [
    "name",
    "title",
    "filters",
    "formula",
    "fieldTypes",
    "aggregation",
    "scale",
    "format",
    "precision",
    "dateFilter",
    "minimumSampleSize",
];
/// A value that is JSON inside of a text ends so.
const JSON: &str = "||json";
/// Texts that are only shown, characters.
const LONGEST: usize = 200;
/// Beyond it a result could leave the range of numbers.
const LARGEST_SCALE: f64 = 1e9;
const MOST_DIGITS: u64 = 10;

/// A metric, and what its definition says beside it, which is answered as it came.
pub(super) struct Definition {
    pub(super) metric: Metric,
    shown: Map<String, Value>,
}

impl Definition {
    /// By name one of those that everybody has, or a definition.
    pub(super) fn read(value: &Value, rules: &LogRules) -> Result<Self, Problem> {
        match value {
            Value::String(name) => {
                let metric = Metric::ready(name).ok_or_else(|| {
                    let known = Metric::ready_names();
                    Problem::invalid(format!(
                        "metric {} is not known: expected one of {known}, or a definition",
                        quoted(name)
                    ))
                })?;
                Ok(Self { metric, shown: Map::new() })
            }
            Value::Object(fields) => Self::of(fields, rules),
            _ => Err(Problem::invalid("metric must be a name, or a definition {…}")),
        }
    }

    fn of(fields: &Map<String, Value>, rules: &LogRules) -> Result<Self, Problem> {
        if let Some(name) = fields.keys().find(|name| !KNOWN.contains(&name.as_str())) {
            let (name, known) = (quoted(name), KNOWN.join(", "));
            return Err(fault(&format!("{name} is not known: expected {known}")));
        }
        // What is null is not there.
        let get = |name: &str| fields.get(name).filter(|value| !value.is_null());
        let text = |name: &str| match get(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.chars().count() <= LONGEST => Ok(Some(text.clone())),
            Some(_) => {
                Err(fault(&format!("{name} must be a text of at most {LONGEST} characters")))
            }
        };
        let name = text("name")?.unwrap_or_else(|| "custom".to_owned());
        let formula = match get("formula") {
            None => "1".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) => return Err(fault("formula must be a text")),
        };
        let aggregation = text("aggregation")?.map(|word| word.parse::<Aggregation>()).transpose();
        let aggregation = aggregation.map_err(|why| fault(&format!("aggregation: {why}")))?;
        let metric = Metric {
            title: text("title")?.unwrap_or_else(|| name.clone()),
            name,
            filters: get("filters").map_or(Ok(Vec::new()), |value| filters(value, rules))?,
            formula: Formula::parse(&formula).map_err(|why| fault(&why.to_string()))?,
            aggregation: aggregation.unwrap_or(Aggregation::Count),
            scale: get("scale").map_or(Ok(1.0), scale)?,
            precision: whole(get("precision"), "precision", MOST_DIGITS)?
                .and_then(|digits| u32::try_from(digits).ok()),
            minimum_sample: whole(get("minimumSampleSize"), "minimumSampleSize", u64::MAX)?
                .unwrap_or(0),
        };
        text("format")?;
        get("fieldTypes").map_or(Ok(()), field_types)?;
        if !get("dateFilter").is_none_or(|value| value == "timestamp" || value == "date") {
            return Err(fault(
                "dateFilter must be \"timestamp\" or \"date\": start and end say when",
            ));
        }
        Ok(Self { metric, shown: fields.clone() })
    }

    /// As it came, with what it left open.
    pub(super) fn shown(&self) -> Value {
        let metric = &self.metric;
        let mut shown = json!({
            "name": metric.name,
            "title": metric.title,
            "aggregation": metric.aggregation.as_str(),
            "scale": metric.scale,
            "precision": metric.precision,
            "minimumSampleSize": metric.minimum_sample,
        });
        if let Value::Object(shown) = &mut shown {
            let given = self.shown.iter().filter(|(_, value)| !value.is_null());
            shown.extend(given.map(|(name, value)| (name.clone(), value.clone())));
        }
        shown
    }
}

fn fault(what: &str) -> Problem {
    Problem::invalid(format!("definition: {what}"))
}

fn scale(value: &Value) -> Result<f64, Problem> {
    let number = value.as_f64().filter(|number| number.abs() <= LARGEST_SCALE);
    number.ok_or_else(|| fault(&format!("scale must be a number of at most {LARGEST_SCALE}")))
}

fn whole(value: Option<&Value>, name: &str, most: u64) -> Result<Option<u64>, Problem> {
    let Some(value) = value else { return Ok(None) };
    let number = value.as_u64().filter(|number| *number <= most);
    let fault = || fault(&format!("{name} must be a whole number from 0 to {most}"));
    number.map(Some).ok_or_else(fault)
}

/// Which type each field has is known here; the names must be.
fn field_types(value: &Value) -> Result<(), Problem> {
    let types = value.as_object().ok_or_else(|| fault("fieldTypes must be an object"))?;
    for (name, kind) in types {
        field(name)?;
        if !kind.is_string() {
            return Err(fault(&format!("fieldTypes: the type of {name} must be a text")));
        }
    }
    Ok(())
}

fn field(name: &str) -> Result<LogField, Problem> {
    LogField::named(name).ok_or_else(|| {
        let (name, known) = (quoted(name), LogField::names());
        fault(&format!("{name} is no field of the log: expected {known}"))
    })
}

/// `{field: {op, value}}`, or a list of such for a field.
fn filters(value: &Value, rules: &LogRules) -> Result<Vec<Condition>, Problem> {
    let fields = value.as_object().ok_or_else(|| fault("filters must be {field: {op, value}}"))?;
    let mut conditions = Vec::new();
    for (name, wanted) in fields {
        let field = field(name)?;
        match wanted {
            Value::Array(several) => {
                for one in several {
                    conditions.push(condition(field, one, rules)?);
                }
            }
            one => conditions.push(condition(field, one, rules)?),
        }
        if conditions.len() > rules.max_filters {
            return Err(fault(&format!("at most {} filters at once", rules.max_filters)));
        }
    }
    Ok(conditions)
}

fn condition(field: LogField, wanted: &Value, rules: &LogRules) -> Result<Condition, Problem> {
    let place = |what: &str| fault(&format!("filters: {}: {what}", field.name()));
    let shape = || place("expected {\"op\": …, \"value\": …}");
    let wanted = wanted.as_object().ok_or_else(shape)?;
    if wanted.keys().any(|name| name != "op" && name != "value") {
        return Err(shape());
    }
    let op = wanted.get("op").and_then(Value::as_str).ok_or_else(shape)?;
    let op: Op = op.parse().map_err(|_| {
        let known: Vec<_> = field.kind().ops().iter().map(|op| op.as_str()).collect();
        place(&format!("op must be one of {}", known.join(", ")))
    })?;
    let texts = match (wanted.get("value"), op) {
        (None, Op::Isset | Op::Isnull) => vec!["true".to_owned()],
        (None, _) => return Err(shape()),
        (Some(value), _) => texts(value).ok_or_else(|| {
            place("a value must be a text, a number, true or false, or a list of such; whether there is one, isset says")
        })?,
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    checked(field, op, &texts, rules).map_err(|why| fault(&format!("filters: {why}")))
}

/// The values as texts; one that ends in `||json` is what stands before it, as JSON.
fn texts(value: &Value) -> Option<Vec<String>> {
    let inside = value.as_str().and_then(|text| text.strip_suffix(JSON));
    let inside = inside.map(serde_json::from_str::<Value>).transpose().ok()?;
    match inside.as_ref().unwrap_or(value) {
        Value::Array(items) => items.iter().map(plain).collect(),
        one => plain(one).map(|text| vec![text]),
    }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
