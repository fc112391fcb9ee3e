//! The fields of a configuration: one table with the shape, the default, and whether publishing
//! needs the field. A caller gets up to `LISTED` faults, each with its JSON Pointer (RFC 6901).

mod fields;
mod typed;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

pub use self::fields::{CALCULATED, FIELDS};
pub use self::typed::{FieldName, Line, SomeFields, WholeConfig};
use crate::domain::agent_config::Config;
use crate::domain::fault::{Fault, join};
use crate::domain::id::AccountId;
use crate::rules::AgentRules;

/// Faults listed in one response; a configuration may have as many as it has bytes.
const LISTED: usize = 20;

/// One field of a configuration, or of an object within one.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    /// One sentence about the field, for readers of the API.
    pub about: &'static str,
    pub shape: Shape,
    pub preset: Preset,
    /// At the top: needed to publish. Within an object: always required.
    pub needed: bool,
    /// A text that the field may hold, itself or in a list; empty if none is shown.
    pub example: &'static str,
}

/// The values that a field may have. At the top, and where the field is not needed, null means no
/// value.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// One line that is not empty, of at most `max_title_bytes`.
    Line,
    /// Any text.
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number of this range.
    Whole(i64, i64),
    Flag,
    /// The id of an account, as a number or as its decimal.
    Account,
    /// An array of at most `max_items` of this shape.
    List(&'static Self),
    /// An object of these fields and no other.
    Object(&'static [Field]),
    /// An object with any fields.
    Open,
    /// Values of one shape or the other; an object stands second.
    Either(&'static Self, &'static Self),
}

/// The value of a field that was never set.
#[derive(Clone, Copy, Debug)]
pub enum Preset {
    /// Shown as null.
    Null,
    Text(&'static str),
    Whole(i64),
    Flag(bool),
    Empty,
}

impl Preset {
    pub fn value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Text(text) => text.into(),
            Self::Whole(number) => number.into(),
            Self::Flag(flag) => flag.into(),
            Self::Empty => Value::Array(Vec::new()),
        }
    }
}

/// Returns the faults of these fields; absent fields have none. `at` is their JSON Pointer in the
/// request.
pub fn faults(fields: &Config, at: &str, rules: &AgentRules) -> Vec<Fault> {
    let mut found = FaultCollector { faults: Vec::new(), rules };
    for (name, value) in fields {
        let pointer = join(at, name);
        match FIELDS.iter().find(|field| field.name == name) {
            Some(field) if !value.is_null() => found.check(field.shape, value, &pointer),
            Some(_) => {}
            None if CALCULATED.contains(&name.as_str()) => {
                found.add(&pointer, "is calculated by the server and cannot be set: leave it out");
            }
            None => found.add(&pointer, UNKNOWN),
        }
    }
    found.faults
}

/// Returns a fault for each field that publishing needs and `config` lacks.
pub fn missing(config: &Config) -> Vec<Fault> {
    let lacks = |field: &&Field| field.needed && !config.contains_key(field.name);
    let fault = |field: &Field| Fault {
        pointer: join("", field.name),
        detail: "is missing: set it before you publish".to_owned(),
    };
    FIELDS.iter().filter(lacks).map(fault).collect()
}

/// Returns all fields in the order of the table: as set, else their defaults, else null.
pub fn shown(config: &Config) -> Config {
    let value = |field: &Field| match config.get(field.name) {
        Some(value) => filled(field.shape, value),
        None => field.preset.value(),
    };
    FIELDS.iter().map(|field| (field.name.to_owned(), value(field))).collect()
}

/// Returns the account to which a configuration hands work, if it names one.
pub fn delegate(config: &Config) -> Option<AccountId> {
    account(config.get("computerDelegateAccountId")?)
}

/// Whether a text is one line that is not empty and has at most `most` bytes.
pub fn is_line(text: &str, most: usize) -> bool {
    !text.trim().is_empty() && text.len() <= most && !text.chars().any(char::is_control)
}

const UNKNOWN: &str = "is not known here: leave it out";

fn account(value: &Value) -> Option<AccountId> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_i64().and_then(AccountId::new),
        _ => None,
    }
}

/// Returns the value with the defaults of fields that are not set within it.
fn filled(shape: Shape, value: &Value) -> Value {
    match (shape, value) {
        (Shape::Object(fields), Value::Object(given)) => {
            let mut whole = given.clone();
            for field in fields.iter().filter(|field| !matches!(field.preset, Preset::Null)) {
                whole.entry(field.name).or_insert_with(|| field.preset.value());
            }
            Value::Object(whole)
        }
        (Shape::List(shape), Value::Array(items)) => {
            items.iter().map(|item| filled(*shape, item)).collect()
        }
        (Shape::Either(_, shape), Value::Object(_)) => filled(*shape, value),
        _ => value.clone(),
    }
}

struct FaultCollector<'r> {
    faults: Vec<Fault>,
    rules: &'r AgentRules,
}

impl FaultCollector<'_> {
    fn add(&mut self, pointer: &str, detail: impl Into<String>) {
        if self.faults.len() < LISTED {
            self.faults.push(Fault { pointer: pointer.to_owned(), detail: detail.into() });
        }
    }

    fn check(&mut self, shape: Shape, value: &Value, at: &str) {
        let wrong = match (shape, value) {
            (Shape::Line, Value::String(text)) => self.line(text),
            (Shape::Word(words), value) => value
                .as_str()
                .is_none_or(|text| !words.contains(&text))
                .then(|| format!("must be one of: {}", words.join(", "))),
            (Shape::Whole(low, high), value) => value
                .as_i64()
                .is_none_or(|number| !(low..=high).contains(&number))
                .then(|| format!("must be a whole number from {low} to {high}")),
            (Shape::Text, Value::String(_)) | (Shape::Flag, Value::Bool(_)) => None,
            (Shape::Account, value) => account(value)
                .is_none()
                .then(|| "must be the id of an account: a whole number".to_owned()),
            (Shape::List(shape), Value::Array(items)) => return self.list(*shape, items, at),
            (Shape::Object(fields), Value::Object(given)) => return self.object(fields, given, at),
            (Shape::Open, Value::Object(_)) => None,
            (Shape::Either(one, other), value) => {
                let shape = if fits(*one, value) { one } else { other };
                if fits(*shape, value) {
                    return self.check(*shape, value, at);
                }
                Some(format!("must be {} or {}", one.words(), other.words()))
            }
            (shape, _) => Some(format!("must be {}", shape.words())),
        };
        if let Some(detail) = wrong {
            self.add(at, detail);
        }
    }

    fn line(&self, text: &str) -> Option<String> {
        let most = self.rules.max_title_bytes;
        (!is_line(text, most)).then(|| format!("must be one line of 1 to {most} bytes"))
    }

    fn list(&mut self, shape: Shape, items: &[Value], at: &str) {
        let most = self.rules.max_items;
        if items.len() > most {
            return self.add(at, format!("must have at most {most} entries"));
        }
        for (index, item) in items.iter().enumerate() {
            self.check(shape, item, &format!("{at}/{index}"));
        }
    }

    fn object(&mut self, fields: &[Field], given: &Map<String, Value>, at: &str) {
        for field in fields {
            match given.get(field.name).filter(|value| !value.is_null()) {
                Some(value) => self.check(field.shape, value, &join(at, field.name)),
                None if field.needed => {
                    let words = field.shape.words();
                    self.add(&join(at, field.name), format!("is missing: send {words}"));
                }
                None => {}
            }
        }
        let known = |name: &str| fields.iter().any(|field| field.name == name);
        for name in given.keys().filter(|name| !known(name)) {
            self.add(&join(at, name), UNKNOWN);
        }
    }
}

/// Whether a value is of the JSON type of a shape.
fn fits(shape: Shape, value: &Value) -> bool {
    match shape {
        Shape::Line | Shape::Text | Shape::Word(_) => value.is_string(),
        Shape::Whole(..) => value.is_number(),
        Shape::Flag => value.is_boolean(),
        Shape::Account => value.is_number() || value.is_string(),
        Shape::List(_) => value.is_array(),
        Shape::Object(_) | Shape::Open => value.is_object(),
        Shape::Either(one, other) => fits(*one, value) || fits(*other, value),
    }
}

impl Shape {
    const fn words(self) -> &'static str {
        match self {
            Self::Line | Self::Text | Self::Word(_) => "a string",
            Self::Whole(..) => "a whole number",
            Self::Flag => "true or false",
            Self::Account => "the id of an account",
            Self::List(_) => "an array",
            Self::Object(_) | Self::Open => "an object",
            Self::Either(..) => "one of its shapes",
        }
    }
}
