//! Holds what was sent against the schema of its type, and says of each mistake where it is and what is
//! expected there.

use serde_json::{Map, Value};

use super::super::body::LISTED;
use super::super::call;
use super::super::query::quoted;
use super::values::{CURSOR, EXPECTED, KIND, LIMIT, MOMENT};
use crate::app::agents::schema::{Fault, join};
use crate::domain::instant;
use crate::rules::AccessRules;
use crate::store::Cursor;

pub(super) struct Check<'c> {
    shapes: &'c Map<String, Value>,
    rules: &'c AccessRules,
    pub(super) faults: Vec<Fault>,
}

impl<'c> Check<'c> {
    pub(super) const fn new(shapes: &'c Map<String, Value>, rules: &'c AccessRules) -> Self {
        Self { shapes, rules, faults: Vec::new() }
    }

    /// A field that must be there is not.
    pub(super) fn missing(&mut self, schema: &'c Value, at: &str, name: &str) {
        let detail = format!("is missing: send {}", self.expected(self.shape(schema)));
        self.add(Fault { pointer: join(at, name), detail });
    }

    /// Adds what is wrong with the value at this place.
    pub(super) fn value(&mut self, schema: &'c Value, value: &Value, at: &str) {
        let schema = self.shape(schema);
        if !self.is_of(schema, value) {
            let detail = format!("must be {}", self.expected(schema));
            return self.add(Fault { pointer: at.to_owned(), detail });
        }
        match value {
            Value::Object(fields) => self.fields(schema, fields, at),
            Value::Array(items) => {
                let Some(each) = schema.get("items") else { return };
                for (place, item) in items.iter().enumerate() {
                    self.value(each, item, &join(at, &place.to_string()));
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, schema: &'c Value, fields: &Map<String, Value>, at: &str) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (name, value) in fields {
            match (known.and_then(|known| known.get(name)), others) {
                (Some(schema), _) => self.value(schema, value, &join(at, name)),
                (None, Some(Value::Bool(false))) => {
                    let names = known.into_iter().flat_map(Map::keys).map(String::as_str);
                    let names = names.collect::<Vec<_>>().join(", ");
                    let detail =
                        format!("is not known here: expected {names}, not {}", quoted(name));
                    self.add(Fault { pointer: join(at, name), detail });
                }
                (None, Some(schema @ Value::Object(_))) => {
                    self.value(schema, value, &join(at, name))
                }
                (None, _) => {}
            }
        }
        let needed = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in needed.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            self.missing(known.and_then(|known| known.get(name)).unwrap_or(schema), at, name);
        }
    }

    /// Whether the value itself is of this schema, whatever is in it.
    pub(super) fn is_of(&self, schema: &'c Value, value: &Value) -> bool {
        if let Some(Value::Array(ways)) = schema.get("anyOf") {
            return ways.iter().any(|way| self.is_of(self.shape(way), value));
        }
        let text = value.as_str();
        let size = value.as_object().map_or(0, Map::len);
        let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
        let whole = value.as_i64();
        let nullable = schema.get("type").and_then(Value::as_array);
        if nullable.is_some_and(|kinds| value.is_null() && kinds.contains(&"null".into())) {
            return true;
        }
        let first = schema.get("type").map(|kind| kind.get(0).unwrap_or(kind));
        let kind = match first.and_then(Value::as_str) {
            Some("string") => text.is_some(),
            Some("integer") => value.is_u64() || value.is_i64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            _ => true,
        };
        let special = match schema.get(KIND).and_then(Value::as_str) {
            Some(MOMENT) => return is_moment(value),
            Some(LIMIT) => {
                whole.is_some_and(|n| (1..=self.rules.limits.max_page.into()).contains(&n))
            }
            Some(CURSOR) => text.is_some_and(|text| {
                // A cursor has one spelling, too.
                text.parse().is_ok_and(|cursor: Cursor| cursor.to_string() == text)
            }),
            _ if schema.get("format").is_some_and(|format| format == "uuid") => {
                text.is_some_and(|text| call::uuid(text).is_some())
            }
            _ => true,
        };
        let in_enum = schema.get("enum").and_then(Value::as_array);
        kind && special
            && in_enum.is_none_or(|words| words.contains(value))
            && bound("minimum").is_none_or(|least| whole.is_none_or(|n| n >= least))
            && bound("maximum").is_none_or(|most| whole.is_some_and(|n| n <= most))
            && bound("minProperties")
                .is_none_or(|least| i64::try_from(size).is_ok_and(|n| n >= least))
            && bound("maxProperties")
                .is_none_or(|most| i64::try_from(size).is_ok_and(|n| n <= most))
    }

    fn expected(&self, schema: &'c Value) -> String {
        if let Some(expected) = schema.get(EXPECTED).and_then(Value::as_str) {
            return expected.to_owned();
        }
        if let Some(Value::Array(words)) = schema.get("enum") {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            return format!("one of: {}", words.join(", "));
        }
        if let Some(Value::Array(ways)) = schema.get("anyOf") {
            let ways = ways.iter().map(|way| self.expected(self.shape(way)));
            return ways.collect::<Vec<_>>().join(", or ");
        }
        if schema.get(KIND).is_some_and(|kind| kind == LIMIT) {
            return format!("a whole number from 1 to {}", self.rules.limits.max_page);
        }
        let bound = |name: &str| schema.get(name).and_then(Value::as_i64);
        let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        match (kind, bound("minimum"), bound("maximum")) {
            ("integer", Some(least), Some(most)) => {
                format!("a whole number from {least} to {most}")
            }
            ("integer", Some(0), None) => "a whole number, not negative".to_owned(),
            ("integer", ..) => "a whole number".to_owned(),
            ("number", ..) => "a number".to_owned(),
            ("boolean", ..) => "true or false".to_owned(),
            ("array", ..) => "an array".to_owned(),
            ("object", ..) => "an object".to_owned(),
            _ => "a string".to_owned(),
        }
    }

    fn shape(&self, schema: &'c Value) -> &'c Value {
        let name =
            schema.get("$ref").and_then(Value::as_str).and_then(|path| path.rsplit('/').next());
        name.and_then(|name| self.shapes.get(name)).unwrap_or(schema)
    }

    fn add(&mut self, fault: Fault) {
        if self.faults.len() < LISTED {
            self.faults.push(fault);
        }
    }
}

pub(super) fn missing(at: &str, name: &str) -> Fault {
    Fault { pointer: join(at, name), detail: "is missing: send it, too".to_owned() }
}

/// Unix seconds as a number or a text, or a date.
fn is_moment(value: &Value) -> bool {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return false,
    };
    instant::parse(&text).is_some()
}
