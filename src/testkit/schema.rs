//! Holds a value against a JSON Schema: the few keywords that the catalogue of events and the
//! description of the API use, and one thing more strictly than the standard: a property that is
//! not explained is wrong, unless `additionalProperties` says that there may be others. A keyword
//! that is not known here is wrong, too: nothing would be held against it.

use serde_json::{Map, Value};

use super::pattern;

/// What says nothing that a value could break, and `format`, which no value is held against.
const REMARKS: &[&str] = &[
    "$defs",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "example",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
];

/// What is held against values.
const KNOWN: &[&str] = &[
    "$ref",
    "additionalProperties",
    "anyOf",
    "const",
    "enum",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "not",
    "oneOf",
    "pattern",
    "properties",
    "propertyNames",
    "required",
    "type",
    "uniqueItems",
    "allOf",
];

/// What is wrong, in words; nothing if all is well.
pub fn check(schema: &Value, value: &Value) -> Vec<String> {
    check_within(&Value::Null, schema, value)
}

/// The same of a schema that refers to others of this document (`#/…`).
pub fn check_within(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    at(document, "$", schema, value, &mut wrong);
    wrong
}

fn at(document: &Value, path: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    let Value::Object(keywords) = schema else {
        if schema != &Value::Bool(true) {
            wrong.push(format!("{path}: {schema} is no schema of anything"));
        }
        return;
    };
    for name in keywords.keys().map(String::as_str) {
        if !REMARKS.contains(&name) && !KNOWN.contains(&name) {
            wrong.push(format!("{path}: the keyword {name} is not known"));
        }
    }
    parts(document, path, keywords, value, wrong);
    if let Some(expected) = schema.get("const")
        && expected != value
    {
        wrong.push(format!("{path} is {value}, not {expected}"));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        wrong.push(format!("{path} is {value}, none of {}", Value::from(words.clone())));
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_one = |kind: &&str| *kind == kind_of(value) || (*kind == "number" && value.is_number());
    if !kinds.is_empty() && !kinds.iter().any(is_one) {
        wrong.push(format!("{path} is {value}, not of type {}", kinds.join(" or ")));
        return;
    }
    sizes(path, schema, value, wrong);
    if let (Some(items), Value::Array(values)) = (schema.get("items"), value) {
        for (number, value) in values.iter().enumerate() {
            at(document, &format!("{path}[{number}]"), items, value, wrong);
        }
    }
    if let Value::Object(_) = value {
        object(document, path, schema, value, wrong);
    }
}

/// The schemas that this one is put together from.
fn parts(
    document: &Value,
    path: &str,
    keywords: &Map<String, Value>,
    value: &Value,
    wrong: &mut Vec<String>,
) {
    if let Some(Value::String(reference)) = keywords.get("$ref") {
        let place = reference.strip_prefix('#').and_then(|place| document.pointer(place));
        match place {
            Some(schema) => at(document, path, schema, value, wrong),
            None => wrong.push(format!("{path}: {reference} leads nowhere")),
        }
    }
    for part in keywords.get("allOf").and_then(Value::as_array).into_iter().flatten() {
        at(document, path, part, value, wrong);
    }
    for name in ["anyOf", "oneOf"] {
        let Some(parts) = keywords.get(name).and_then(Value::as_array) else { continue };
        let faults = parts.iter().map(|part| check_within(document, part, value));
        let faults: Vec<Vec<String>> = faults.collect();
        let fitting = faults.iter().filter(|faults| faults.is_empty()).count();
        if fitting == 0 {
            // The part that came the nearest.
            let nearest = faults.into_iter().min_by_key(Vec::len).unwrap_or_default();
            wrong.extend(nearest.into_iter().map(|fault| format!("{path}: {fault}")));
        } else if fitting > 1 && name == "oneOf" {
            wrong.push(format!("{path} is {value}, of {fitting} kinds at once"));
        }
    }
    let is_any = |part: &Value| part.as_object().is_some_and(Map::is_empty);
    if let Some(part) = keywords.get("not")
        && (is_any(part) || check_within(document, part, value).is_empty())
    {
        wrong.push(format!("{path} is {value}, which is ruled out"));
    }
}

/// How large it is, and how it is spelled.
fn sizes(path: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    if let Some(number) = value.as_f64()
        && (bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most))
    {
        wrong.push(format!("{path} is {value}, out of its range"));
    }
    let count = |name: &str| schema.get(name).and_then(Value::as_u64);
    let (size, least, most) = match value {
        // As JSON Schema counts.
        Value::String(text) => (text.chars().count(), "minLength", "maxLength"),
        Value::Array(items) => (items.len(), "minItems", "maxItems"),
        Value::Object(fields) => (fields.len(), "minProperties", "maxProperties"),
        _ => return,
    };
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    if count(least).is_some_and(|least| size < least) || count(most).is_some_and(|most| size > most)
    {
        wrong.push(format!("{path} has a size of {size}, out of {least} and {most}"));
    }
    if let Value::Array(items) = value
        && schema.get("uniqueItems") == Some(&Value::Bool(true))
        && items
            .iter()
            .enumerate()
            .any(|(number, item)| items.iter().take(number).any(|o| o == item))
    {
        wrong.push(format!("{path} has something twice"));
    }
    if let (Some(spelling), Value::String(text)) =
        (schema.get("pattern").and_then(Value::as_str), value)
    {
        match pattern::matches(spelling, text) {
            Some(true) => {}
            Some(false) => wrong.push(format!("{path} is {value}, not spelled {spelling}")),
            None => wrong.push(format!("{path}: the pattern {spelling} is not known")),
        }
    }
}

fn object(document: &Value, path: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    // What another schema explains need not be explained here.
    let elsewhere =
        ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|name| schema.get(name).is_some());
    let is_open = others.is_none() && properties.is_none() && elsewhere;
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match (properties.and_then(|properties| properties.get(name)), others) {
            (Some(schema), _) => at(document, &path, schema, value, wrong),
            (None, Some(Value::Bool(true))) => {}
            (None, Some(schema @ Value::Object(_))) => at(document, &path, schema, value, wrong),
            (None, None) if is_open => {}
            (None, _) => wrong.push(format!("{path} is not explained")),
        }
        if let Some(names) = schema.get("propertyNames") {
            at(document, &format!("the name of {path}"), names, &name.as_str().into(), wrong);
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
        wrong.push(format!("{path}.{name} is missing"));
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What an empty schema does not explain is no object here.
    #[test]
    fn each_keyword_is_held_against_values() {
        for (schema, good, bad) in [
            (json!({ "pattern": "^[0-9]+$" }), json!("12"), json!("1x")),
            (json!({ "minLength": 2 }), json!("üü"), json!("ü")),
            (json!({ "maxLength": 2 }), json!("üü"), json!("üüü")),
            (json!({ "minItems": 1 }), json!([1]), json!([])),
            (json!({ "maxItems": 1 }), json!([1]), json!([1, 2])),
            (json!({ "uniqueItems": true }), json!([1, 2]), json!([1, 1])),
            (
                json!({ "additionalProperties": true, "minProperties": 1 }),
                json!({ "a": 1 }),
                json!({}),
            ),
            (
                json!({ "additionalProperties": true, "maxProperties": 1 }),
                json!({ "a": 1 }),
                json!({ "a": 1, "b": 2 }),
            ),
            (
                json!({ "additionalProperties": true, "propertyNames": { "pattern": "^[a-z]$" } }),
                json!({ "a": 1 }),
                json!({ "A": 1 }),
            ),
            (json!({ "not": { "type": "null" } }), json!(1), json!(null)),
            (json!({ "properties": { "a": { "not": {} } } }), json!({}), json!({ "a": {} })),
            (
                json!({ "oneOf": [{ "type": "integer" }, { "type": "number" }] }),
                json!(1.5),
                json!(1),
            ),
            // What stands beside the parts counts, too.
            (
                json!({ "anyOf": [{ "type": "integer" }, { "type": "null" }], "minimum": 2 }),
                json!(2),
                json!(1),
            ),
            (
                json!({ "anyOf": [{ "properties": { "a": {} } }], "required": ["a"] }),
                json!({ "a": 1 }),
                json!({}),
            ),
            (json!({ "allOf": [{ "type": "integer" }, { "minimum": 2 }] }), json!(2), json!(1)),
        ] {
            assert_eq!(check(&schema, &good), Vec::<String>::new(), "{schema}");
            assert_eq!(check(&schema, &bad).len(), 1, "{schema} {bad}");
        }
    }

    #[test]
    fn what_is_not_known_is_wrong() {
        for schema in [json!({ "multipleOf": 2 }), json!({ "pattern": "^\\d$" }), json!(false)] {
            assert_eq!(check(&schema, &json!("1")).len(), 1, "{schema}");
        }
        assert_eq!(check(&json!({ "format": "uuid" }), &json!("1")), Vec::<String>::new());
    }
}
