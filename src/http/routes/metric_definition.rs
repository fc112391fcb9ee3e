//! The definition of a metric in the form of v2: filters, and a formula over fields of the log.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use crate::domain::condition::{Condition, ConditionError};
use crate::domain::formula::{Formula, FormulaError};
use crate::domain::log_field::{LogField, Op};
use crate::domain::metric::{Aggregation, DateFilter, Metric};
use crate::http::request::query::quoted;
use crate::http::routes::log_filter::checked;
use crate::http::typed::{Problem, refused};
use crate::rules::LogRules;
use crate::wire::{Word, mark};

/// Suffix of a text value that holds JSON.
const JSON: &str = "||json";
/// Longest text that is only displayed, in characters.
const LONGEST: usize = 200;
/// A larger scale could overflow the result.
const LARGEST_SCALE: f64 = 1e9;

/// A metric by name, or a definition of one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, extend("x-expected" = "a name, or a definition"))]
pub enum MetricQuery {
    Name(String),
    Defined(Box<Definition>),
}

/// A definition of a metric.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(
    rename = "MetricDefinition", transform = or_null,
    example = json!({ "name": "refused", "filters": { "outcome": { "op": "eq", "value": "refused" } } })
)]
pub struct Definition {
    /// The name of the metric.
    #[schemars(length(max = LONGEST))]
    name: Option<String>,
    /// The title of the metric.
    #[schemars(length(max = LONGEST))]
    title: Option<String>,
    /// Comparisons by fields of the log; all must hold.
    filters: Option<BTreeMap<String, Comparisons>>,
    /// A formula over the fields of a row.
    formula: Option<Written>,
    /// The types of fields, for v2 clients.
    field_types: Option<BTreeMap<String, String>>,
    /// How values of many rows become one.
    aggregation: Option<Word<Aggregation>>,
    /// A factor for the result.
    scale: Option<Number>,
    /// A format for the result; stored but not applied.
    #[schemars(length(max = LONGEST))]
    format: Option<String>,
    /// Number of decimal places.
    #[schemars(range(max = 10))]
    precision: Option<u32>,
    /// The moment that dates a row, for start and end.
    date_filter: Option<Word<DateFilter>>,
    /// The fewest rows for a result.
    minimum_sample_size: Option<u64>,
}

/// A formula; v2 writes the number 1 to count rows.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Written {
    Text(String),
    Number(Number),
}

/// One comparison or several.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, extend("x-expected" = "{\"op\": …, \"value\": …}, or a list of such"))]
enum Comparisons {
    One(Comparison),
    Several(Vec<Comparison>),
}

/// A comparison of a field.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct Comparison {
    /// The operator.
    op: Word<Op>,
    /// The value: a text, a number, true or false, or a list of such.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::wire::sent"
    )]
    #[schemars(extend("x-null" = true))]
    value: Option<Value>,
}

/// Allows null for every field, meaning none.
fn or_null(schema: &mut Schema) {
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    for field in fields.into_iter().flat_map(Map::values_mut) {
        if let Value::Object(field) = field {
            field.insert(mark::NULL.to_owned(), true.into());
        }
    }
}

/// A metric, with its definition for answers.
pub(super) struct Defined {
    pub(super) metric: Metric,
    pub(super) shown: Map<String, Value>,
}

/// A mistake in a definition.
#[derive(Debug, thiserror::Error)]
enum DefinitionError {
    #[error("{} is not a field of the log: expected {}", quoted(.0), LogField::names())]
    Field(String),
    #[error("too many filters: send at most {0}")]
    TooMany(usize),
    #[error("filters: {}: expected {{\"op\": …, \"value\": …}}", .0.name())]
    NoValue(LogField),
    #[error(
        "filters: {}: a value must be a text, a number, true or false, or a list of these; to ask \
         whether there is a value, use isset", .0.name()
    )]
    Value(LogField),
    #[error("filters: {0}")]
    Condition(#[from] ConditionError),
    #[error(transparent)]
    Formula(#[from] FormulaError),
    #[error("scale must be a number of at most {LARGEST_SCALE}")]
    Scale,
}

impl MetricQuery {
    /// Returns the metric requested in the field `place`.
    pub(super) fn read(self, place: &str, rules: &LogRules) -> Result<Defined, Problem> {
        match self {
            Self::Name(name) => {
                let unknown = || {
                    let (name, known) = (quoted(&name), Metric::ready_names());
                    refused(
                        place,
                        &format!("{name} is not known: expected one of {known}, or a definition"),
                    )
                };
                let metric = Metric::ready(&name).ok_or_else(unknown)?;
                Ok(Defined { shown: with_defaults(&metric, Map::new()), metric })
            }
            Self::Defined(definition) => {
                // The answer repeats it as sent.
                let given = serde_json::to_value(&definition).and_then(serde_json::from_value);
                let given = given.map_err(Problem::internal)?;
                let metric = definition.metric(rules).map_err(|why| refused(place, &why))?;
                Ok(Defined { shown: with_defaults(&metric, given), metric })
            }
        }
    }
}

impl Definition {
    fn metric(self, rules: &LogRules) -> Result<Metric, DefinitionError> {
        let name = self.name.unwrap_or_else(|| "custom".to_owned());
        let formula = match self.formula {
            None => "1".to_owned(),
            Some(Written::Text(text)) => text,
            Some(Written::Number(number)) => number.to_string(),
        };
        for name in self.field_types.iter().flat_map(BTreeMap::keys) {
            field(name)?;
        }
        Ok(Metric {
            title: self.title.unwrap_or_else(|| name.clone()),
            name,
            filters: conditions(self.filters.unwrap_or_default(), rules)?,
            formula: Formula::parse(&formula)?,
            aggregation: self.aggregation.map_or(Aggregation::Count, |Word(word)| word),
            scale: self.scale.map_or(Ok(1.0), |scale| factor(&scale))?,
            precision: self.precision,
            minimum_sample: self.minimum_sample_size.unwrap_or(0),
        })
    }
}

/// Completes a definition with its defaults.
fn with_defaults(metric: &Metric, given: Map<String, Value>) -> Map<String, Value> {
    let filled = [
        ("name", json!(metric.name)),
        ("title", json!(metric.title)),
        ("aggregation", json!(metric.aggregation.as_str())),
        ("scale", json!(metric.scale)),
        ("precision", json!(metric.precision)),
        ("minimumSampleSize", json!(metric.minimum_sample)),
    ];
    let filled = filled.into_iter().map(|(name, value)| (name.to_owned(), value));
    filled.chain(given.into_iter().filter(|(_, value)| !value.is_null())).collect()
}

fn factor(scale: &Number) -> Result<f64, DefinitionError> {
    let number = scale.as_f64().filter(|number| number.abs() <= LARGEST_SCALE);
    number.ok_or(DefinitionError::Scale)
}

fn field(name: &str) -> Result<LogField, DefinitionError> {
    LogField::named(name).ok_or_else(|| DefinitionError::Field(name.to_owned()))
}

fn conditions(
    filters: BTreeMap<String, Comparisons>,
    rules: &LogRules,
) -> Result<Vec<Condition>, DefinitionError> {
    let mut conditions = Vec::new();
    for (name, wanted) in filters {
        let field = field(&name)?;
        let several = match wanted {
            Comparisons::One(one) => vec![one],
            Comparisons::Several(several) => several,
        };
        for one in several {
            conditions.push(condition(field, one, rules)?);
        }
        if conditions.len() > rules.max_filters {
            return Err(DefinitionError::TooMany(rules.max_filters));
        }
    }
    Ok(conditions)
}

fn condition(
    field: LogField,
    wanted: Comparison,
    rules: &LogRules,
) -> Result<Condition, DefinitionError> {
    let Word(op) = wanted.op;
    let texts = match (wanted.value, op) {
        (None, Op::Isset | Op::Isnull) => vec!["true".to_owned()],
        (None, _) => return Err(DefinitionError::NoValue(field)),
        (Some(value), _) => texts(&value).ok_or(DefinitionError::Value(field))?,
    };
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Ok(checked(field, op, &texts, rules)?)
}

/// Returns the values as texts. A value that ends in `||json` is parsed as JSON. None if it is not
/// such a value.
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
