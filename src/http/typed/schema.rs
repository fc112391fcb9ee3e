//! Building blocks of descriptions: each makes a JSON Schema (2020-12) with a description.

use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use crate::domain::id::LARGEST_USER_ID;
use crate::wire::DECIMAL;

/// Names of an object's fields, or of parameters, with their schemas; a `?` after the name marks an
/// optional one.
pub(in crate::http) type Fields = Vec<(&'static str, Value)>;

/// Examples of a UUID and a date.
const A_UUID: &str = "019a9e5c-7c80-7000-8000-000000000001";
const A_DATE: &str = "2026-11-20T10:00:00.000Z";

pub(in crate::http) fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

/// A whole number in a range.
pub(in crate::http) fn within(about: &str, range: RangeInclusive<u64>) -> Value {
    json!({ "type": "integer", "minimum": range.start(), "maximum": range.end(), "description": about })
}

/// An id in a query or a path.
pub(in crate::http) fn id_text(about: &str) -> Value {
    json!({ "type": "string", "pattern": DECIMAL, "description": about, "examples": ["7"] })
}

/// An id in a body: a number, or its decimal as text.
pub(in crate::http) fn id_given(about: &str) -> Value {
    let any = [
        json!({ "type": "integer", "minimum": 1, "maximum": LARGEST_USER_ID }),
        json!({ "type": "string", "pattern": DECIMAL }),
    ];
    json!({ "anyOf": any, "description": about, "examples": [7] })
}

/// A moment in a query: Unix seconds, or a date.
pub(in crate::http) fn moment(about: &str) -> Value {
    let about = format!("{about} Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z.");
    json!({ "type": "string", "description": about, "examples": ["2026-11-20T10:00:00Z"] })
}

/// A moment in a body: Unix seconds as a number or a text, or a date.
pub(in crate::http) fn moment_given(about: &str) -> Value {
    let any = [json!({ "type": "integer", "minimum": 0 }), json!({ "type": "string" })];
    let about = format!("{about} Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z.");
    json!({ "anyOf": any, "description": about, "examples": ["2026-11-20T10:00:00Z"] })
}

/// A text described by a regular expression (ECMA-262), with an example.
pub(in crate::http) fn pattern(about: &str, pattern: &str, example: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": about, "examples": [example] })
}

/// An object of these fields.
pub(in crate::http) fn object(about: &str, fields: Fields) -> Value {
    let required: Vec<&str> = required(&fields).collect();
    let properties: Map<String, Value> =
        fields.iter().map(|(name, schema)| (plain(name).to_owned(), schema.clone())).collect();
    let mut object = json!({ "type": "object", "description": about, "properties": properties });
    if !required.is_empty() {
        put(&mut object, "required", json!(required));
    }
    object
}

/// Allows null as well.
pub(in crate::http) fn or_null(schema: Value) -> Value {
    let Some(kind) = schema.get("type").and_then(Value::as_str) else {
        let about = schema.get("description").cloned().unwrap_or_default();
        let nullable = json!({ "anyOf": [schema, { "type": "null" }] });
        return if about.is_null() { nullable } else { with(nullable, "description", about) };
    };
    let mut nullable = with(schema.clone(), "type", json!([kind, "null"]));
    if let Some(Value::Array(words)) = nullable.get_mut("enum") {
        words.push(Value::Null);
    }
    nullable
}

/// The shape of this name.
pub(in crate::http) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Adds an example.
pub(in crate::http) fn like(schema: Value, example: impl Into<Value>) -> Value {
    with(schema, "examples", json!([example.into()]))
}

/// Returns the schema with a keyword added or replaced.
pub(in crate::http) fn with(mut schema: Value, keyword: &str, value: Value) -> Value {
    put(&mut schema, keyword, value);
    schema
}

/// Adds or replaces a field of an object.
pub(in crate::http) fn put(object: &mut Value, name: &str, value: Value) {
    if let Value::Object(fields) = object {
        fields.insert(name.to_owned(), value);
    }
}

/// A name without the mark of an optional field.
pub(in crate::http) fn plain(name: &str) -> &str {
    name.strip_suffix('?').unwrap_or(name)
}

/// The names of required fields.
pub(in crate::http) fn required<'f>(fields: &'f Fields) -> impl Iterator<Item = &'f str> + use<'f> {
    fields.iter().map(|(name, _)| *name).filter(|name| !name.ends_with('?'))
}

/// An example value of this schema: its own example, or one combined from those of its parts.
/// `shapes` resolves references.
pub(in crate::http) fn example(schema: &Value, shapes: &Map<String, Value>) -> Value {
    if let Some(example) = schema.pointer("/examples/0").or_else(|| schema.get("const")) {
        return example.clone();
    }
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.rsplit('/').next().unwrap_or_default();
        return shapes.get(name).map_or(Value::Null, |schema| example(schema, shapes));
    }
    let first = schema.pointer("/enum/0");
    if let Some(first) = first {
        return first.clone();
    }
    if let Some(part) = schema.pointer("/anyOf/0") {
        return example(part, shapes);
    }
    if let Some(Value::Array(parts)) = schema.get("allOf") {
        let parts = parts.iter().map(|part| example(part, shapes));
        let fields = parts.filter_map(|part| part.as_object().cloned()).flatten();
        return Value::Object(fields.collect());
    }
    let kind = schema.get("type").and_then(|kind| kind.get(0).unwrap_or(kind).as_str());
    match kind {
        Some("object") => {
            let fields = schema.get("properties").and_then(Value::as_object);
            let fields = fields.into_iter().flatten();
            fields.map(|(name, schema)| (name.clone(), example(schema, shapes))).collect()
        }
        Some("array") => {
            let items = schema.get("items");
            Value::Array(items.map(|items| example(items, shapes)).into_iter().collect())
        }
        Some("integer" | "number") => {
            schema.get("minimum").cloned().filter(|least| *least != 0).unwrap_or_else(|| 1.into())
        }
        Some("boolean") => true.into(),
        Some("string") => match schema.get("format").and_then(Value::as_str) {
            Some("uuid") => A_UUID.into(),
            Some("date-time") => A_DATE.into(),
            _ => "text".into(),
        },
        _ => Value::Null,
    }
}

/// A text unchanged, anything else as JSON.
pub(in crate::http) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// The fields of an object's schema, those of `order` first, optional ones marked with `?`; and the
/// description of the object.
pub(super) fn fields_of(schema: &Value, order: &[&'static str]) -> (Fields, String) {
    let about = schema.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let list = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = list("required").filter_map(Value::as_str).collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let first = order.iter().copied().chain(required.iter().copied());
    let others = properties.into_iter().flat_map(Map::keys).map(String::as_str);
    let mut fields = Fields::new();
    for name in first.chain(others) {
        let Some(property) = properties.and_then(|all| all.get(name)) else { continue };
        if fields.iter().all(|(known, _)| plain(known) != name) {
            let mark = if required.contains(&name) { "" } else { "?" };
            fields.push((format!("{name}{mark}").leak(), property.clone()));
        }
    }
    (fields, about)
}
