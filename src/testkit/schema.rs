//! Holds a value against a JSON Schema: the few keywords that the catalogue of events uses, and one
//! thing more strictly than the standard: a property that is not explained is wrong, unless
//! `additionalProperties` says that there may be others.

use serde_json::Value;

/// What is wrong, in words; nothing if all is well.
pub fn check(schema: &Value, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    at("$", schema, value, &mut wrong);
    wrong
}

fn at(path: &str, schema: &Value, value: &Value, wrong: &mut Vec<String>) {
    if let Some(parts) = schema.get("anyOf").and_then(Value::as_array) {
        let faults: Vec<Vec<String>> = parts.iter().map(|part| check(part, value)).collect();
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
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.as_str()],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.contains(&kind_of(value)) {
        wrong.push(format!("{path} is {value}, not of type {}", kinds.join(" or ")));
        return;
    }
    if let (Some(items), Value::Array(values)) = (schema.get("items"), value) {
        for (number, value) in values.iter().enumerate() {
            at(&format!("{path}[{number}]"), items, value, wrong);
        }
    }
    let Value::Object(fields) = value else { return };
    let properties = schema.get("properties").and_then(Value::as_object);
    let is_open = schema.get("additionalProperties") == Some(&Value::Bool(true));
    for (name, value) in fields {
        match properties.and_then(|properties| properties.get(name)) {
            Some(schema) => at(&format!("{path}.{name}"), schema, value, wrong),
            None if is_open => {}
            None => wrong.push(format!("{path}.{name} is not explained")),
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
