//! The schemas that types make, as they are read: without the words that say nothing.

use serde_json::{Map, Value};

use super::mark;

/// Documentation in lines as one.
pub fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Leaves out of a schema what says nothing to those who read it: sizes of numbers, that a field which may
/// be missing is null then, and, of a request, that such a field may be null, because it may not.
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

/// A schema without the marks that are ours.
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
