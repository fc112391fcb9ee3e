//! Holds a value against a JSON Schema: the few keywords that the catalogue of events and the
//! description of the API use, and one thing more strictly than the standard: a property that is not
//! explained is wrong, unless `additionalProperties` says that there may be others.

use serde_json::Value;

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
    if let Some(Value::String(reference)) = schema.get("$ref") {
        let place = reference.strip_prefix('#').and_then(|place| document.pointer(place));
        match place {
            Some(schema) => at(document, path, schema, value, wrong),
            None => wrong.push(format!("{path}: {reference} leads nowhere")),
        }
        return;
    }
    if let Some(parts) = schema.get("anyOf").and_then(Value::as_array) {
        let faults = parts.iter().map(|part| check_within(document, part, value));
        let faults: Vec<Vec<String>> = faults.collect();
        if !faults.iter().any(Vec::is_empty) {
            // The part that came the nearest.
            let nearest = faults.into_iter().min_by_key(Vec::len).unwrap_or_default();
            wrong.extend(nearest.into_iter().map(|fault| format!("{path}: {fault}")));
        }
        return;
    }
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
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    if let Some(number) = value.as_f64()
        && (bound("minimum").is_some_and(|least| number < least)
            || bound("maximum").is_some_and(|most| number > most))
    {
        wrong.push(format!("{path} is {value}, out of its range"));
    }
    if let (Some(items), Value::Array(values)) = (schema.get("items"), value) {
        for (number, value) in values.iter().enumerate() {
            at(document, &format!("{path}[{number}]"), items, value, wrong);
        }
    }
    if let Value::Object(_) = value {
        object(document, path, schema, value, wrong);
    }
}

fn object(document: &Value, path: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    let Value::Object(fields) = value else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let others = schema.get("additionalProperties");
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match (properties.and_then(|properties| properties.get(name)), others) {
            (Some(schema), _) => at(document, &path, schema, value, wrong),
            (None, Some(Value::Bool(true))) => {}
            (None, Some(schema @ Value::Object(_))) => at(document, &path, schema, value, wrong),
            (None, _) => wrong.push(format!("{path} is not explained")),
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
