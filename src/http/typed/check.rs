//! Checks a request against the schema of its type. Each mistake has its place and the expected
//! value.

use serde_json::{Map, Value};

use crate::app::agents::schema::{faults, is_line};
use crate::domain::fault::{Fault, join};
use crate::http::request::body::LISTED;
use crate::http::request::query::quoted;
use crate::http::typed::bounds::Bounds;
use crate::http::typed::values::ListPlace;
use crate::wire::{self, mark};

pub(super) struct Check<'c> {
    shapes: &'c Map<String, Value>,
    bounds: &'c Bounds,
    pub(super) faults: Vec<Fault>,
}

impl<'c> Check<'c> {
    pub(super) const fn new(shapes: &'c Map<String, Value>, bounds: &'c Bounds) -> Self {
        Self { shapes, bounds, faults: Vec::new() }
    }

    /// Adds a missing field.
    pub(super) fn missing(&mut self, schema: &'c Value, at: &str, name: &str) {
        let detail = format!("is missing: send {}", self.expected(self.shape(schema)));
        self.add(Fault { pointer: join(at, name), detail });
    }

    /// Requires exactly one of these fields.
    pub(super) fn one_of(&mut self, among: &[&str], given: &Map<String, Value>) {
        let sent: Vec<_> = among.iter().filter(|name| given.contains_key(**name)).collect();
        let names = among.join(" or ");
        match sent.as_slice() {
            [] => {
                let first = among.first().copied().unwrap_or_default();
                let detail = format!("is missing: send {names}");
                self.add(Fault { pointer: join("", first), detail });
            }
            [_] => {}
            [_, second, ..] => self.add(Fault {
                pointer: join("", second),
                detail: format!("is one field too many: send only {names}"),
            }),
        }
    }

    /// Adds the mistakes of the value at this place.
    pub(super) fn value(&mut self, schema: &'c Value, value: &Value, at: &str) {
        let schema = self.shape(schema);
        let kind = schema.get(mark::KIND).and_then(Value::as_str);
        if let (Some(mark::FIELD), Some((above, name))) = (kind, at.rsplit_once('/')) {
            let one = Map::from_iter([(name.to_owned(), value.clone())]);
            return faults(&one, above, &self.bounds.agents)
                .into_iter()
                .for_each(|one| self.add(one));
        }
        if !self.is_of(schema, value) {
            let detail = format!("must be {}", self.expected(schema));
            return self.add(Fault { pointer: at.to_owned(), detail });
        }
        if let Some(Value::Array(ways)) = schema.get("anyOf") {
            if let Some(way) = ways.iter().find(|way| self.is_of(self.shape(way), value)) {
                self.value(way, value, at);
            }
            return;
        }
        match value {
            Value::Object(fields) if kind == Some(mark::CONFIG) => {
                faults(fields, at, &self.bounds.agents).into_iter().for_each(|one| self.add(one))
            }
            Value::Object(fields) => self.fields(schema, fields, at),
            Value::Array(items) => self.items(schema, items, at),
            _ => {}
        }
    }

    fn items(&mut self, schema: &'c Value, items: &[Value], at: &str) {
        let are_unique = schema.get("uniqueItems").is_some();
        for (place, item) in items.iter().enumerate() {
            let at = join(at, &place.to_string());
            if let Some(each) = schema.get("items") {
                self.value(each, item, &at);
            }
            if are_unique && items.iter().take(place).any(|other| other == item) {
                self.add(Fault { pointer: at, detail: "is there twice: send it once".to_owned() });
            }
        }
    }

    fn fields(&mut self, schema: &'c Value, fields: &Map<String, Value>, at: &str) {
        let known = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let named = schema.get("propertyNames").map(|names| self.shape(names));
        for (name, value) in fields {
            if let Some(names) = named.filter(|names| !self.is_of(names, &name.as_str().into())) {
                let detail = format!("is not known here: expected {}", self.expected(names));
                self.add(Fault { pointer: join(at, name), detail });
                continue;
            }
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

    /// Whether the value itself fits the schema; its fields and items are not checked.
    pub(super) fn is_of(&self, schema: &'c Value, value: &Value) -> bool {
        if value.is_null() && types(schema).any(|one| one == "null") {
            return true;
        }
        let kind = schema.get(mark::KIND).and_then(Value::as_str);
        if let Some(kind @ (mark::MOMENT | mark::USER_ID)) = kind {
            return wire::is_of_kind(kind, value);
        }
        if let Some(Value::Array(ways)) = schema.get("anyOf") {
            return ways.iter().any(|way| self.is_of(self.shape(way), value));
        }
        let is_typed = match types(schema).next() {
            Some("string") => value.is_string(),
            Some("integer") => value.is_u64() || value.is_i64(),
            Some("number") => value.is_number(),
            Some("boolean") => value.is_boolean(),
            Some("array") => value.is_array(),
            Some("object") => value.is_object(),
            Some(_) => value.is_null(),
            None => true,
        };
        is_typed && self.is_special(schema, kind, value) && self.is_within(schema, value)
    }

    fn is_special(&self, schema: &Value, kind: Option<&str>, value: &Value) -> bool {
        let text = value.as_str().unwrap_or_default();
        let words = schema.get("enum").and_then(Value::as_array);
        words.is_none_or(|words| words.contains(value))
            && schema
                .get("format")
                .is_none_or(|format| format != "uuid" || wire::uuid(text).is_some())
            && match kind {
                Some(mark::LINE) => is_line(text, self.length(schema)),
                Some(mark::SPOT) => ListPlace::read(text).is_some(),
                Some(kind) => wire::is_of_kind(kind, value),
                None => true,
            }
    }

    /// The most bytes in a line.
    fn length(&self, schema: &Value) -> usize {
        let most = self.bounds.number(schema, "maxLength");
        most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
    }

    fn is_within(&self, schema: &Value, value: &Value) -> bool {
        let (size, least, most) = match value {
            Value::Number(number) => (number.as_i64().unwrap_or(i64::MAX), "minimum", "maximum"),
            Value::String(text) => (count(text.chars().count()), "minLength", "maxLength"),
            Value::Array(items) => (count(items.len()), "minItems", "maxItems"),
            Value::Object(fields) => (count(fields.len()), "minProperties", "maxProperties"),
            Value::Null | Value::Bool(_) => return true,
        };
        let bound = |name| self.bounds.number(schema, name);
        bound(least).is_none_or(|least| size >= least)
            && bound(most).is_none_or(|most| size <= most)
    }

    pub(super) fn expected(&self, schema: &'c Value) -> String {
        if let Some(expected) = schema.get(mark::EXPECTED).and_then(Value::as_str) {
            return expected.to_owned();
        }
        if schema.get(mark::KIND).is_some_and(|kind| kind == mark::LINE) {
            return format!("one line of 1 to {} bytes", self.length(schema));
        }
        if let Some(Value::Array(words)) = schema.get("enum") {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            return format!("one of: {}", words.join(", "));
        }
        if let Some(Value::Array(ways)) = schema.get("anyOf") {
            let ways = ways.iter().map(|way| self.expected(self.shape(way)));
            return ways.collect::<Vec<_>>().join(", or ");
        }
        let bound = |name| self.bounds.number(schema, name);
        let sized = |noun: &str, least, most, unit: &str| match (bound(least), bound(most)) {
            (Some(least), Some(most)) => format!("{noun} of {least} to {most} {unit}"),
            (None, Some(most)) => format!("{noun} of at most {most} {unit}"),
            (Some(least), None) => format!("{noun} of at least {least} {unit}"),
            (None, None) => noun.to_owned(),
        };
        match types(schema).next().unwrap_or_default() {
            "integer" => match (bound("minimum"), bound("maximum")) {
                (Some(least), Some(most)) => format!("a whole number from {least} to {most}"),
                (Some(0), None) => "a whole number, not negative".to_owned(),
                _ => "a whole number".to_owned(),
            },
            "number" => "a number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "array" => sized("an array", "minItems", "maxItems", "items"),
            "object" => "an object".to_owned(),
            _ => sized("a string", "minLength", "maxLength", "characters"),
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

/// The mistake of a request without this field.
pub(in crate::http) fn missing(name: &str) -> Fault {
    Fault { pointer: join("", name), detail: "is missing: send it, too".to_owned() }
}

/// The types of a schema: one, or a list.
fn types(schema: &Value) -> impl Iterator<Item = &str> {
    let (one, several) = match schema.get("type") {
        Some(Value::Array(several)) => (None, several.as_slice()),
        one => (one, [].as_slice()),
    };
    one.into_iter().chain(several).filter_map(Value::as_str)
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
