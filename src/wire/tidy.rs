//! Cleans the generated schemas for readers.

use serde_json::{Map, Value};

use super::mark;

/// Joins documentation to one line.
pub fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes details of no use to readers: formats of numbers, and null as the default. In requests
/// (`asked`), also removes null where it is not allowed.
pub fn tidy(schema: &mut Value, asked: bool) {
    if let Value::Object(fields) = schema {
        let kind = fields.get("type").map(Value::to_string).unwrap_or_default();
        if kind.contains("integer") || kind.contains("number") {
            fields.remove("format");
        }
        if asked && !fields.contains_key(mark::NULL) {
            strip_null(fields);
        }
        if fields.get("default").is_some_and(Value::is_null) {
            fields.remove("default");
        }
        for (name, inner) in fields.iter_mut() {
            match inner {
                Value::String(text) if name == "description" && !text.contains("\n\n") => {
                    *text = plain(text)
                }
                _ => tidy(inner, asked),
            }
        }
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(|inner| tidy(inner, asked));
    }
}

fn strip_null(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [one] = kinds.as_slice() {
            let one = one.clone();
            fields.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(words)) = fields.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    let Some(Value::Array(ways)) = fields.get_mut("anyOf") else { return };
    ways.retain(|way| way.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(one)] = ways.as_mut_slice() {
        let one = std::mem::take(one);
        fields.remove("anyOf");
        for (name, value) in one {
            fields.entry(name).or_insert(value);
        }
    }
}

/// Removes our own marks from a schema.
pub fn published(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(fields) => {
            fields.retain(|name, _| !mark::ALL.contains(&name.as_str()));
            fields.values_mut().for_each(|inner| *inner = published(inner.take()));
        }
        Value::Array(items) => items.iter_mut().for_each(|inner| *inner = published(inner.take())),
        _ => {}
    }
    schema
}
