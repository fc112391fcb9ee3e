//! The schemas that types make, as they are read: fields in their order, and nothing that says nothing.

use serde_json::{Map, Value};

use super::super::schema::{self, Fields};
use crate::wire::mark;

/// The fields of an object's schema, these first, `?` behind those that may be missing, and what is said of
/// the whole.
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
        if fields.iter().all(|(known, _)| schema::plain(known) != name) {
            let mark = if required.contains(&name) { "" } else { "?" };
            fields.push((format!("{name}{mark}").leak(), property.clone()));
        }
    }
    (fields, about)
}

/// Documentation in lines as one.
pub(super) fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Leaves out of a schema what says nothing to those who read it: sizes of integers, that a field which may
/// be missing is null then, and, of a request, that such a field may be null, because it may not.
pub(super) fn tidy(schema: &mut Value, asked: bool) {
    if let Value::Object(fields) = schema {
        let is_number = fields.get("type").is_some_and(|kind| kind.to_string().contains("integer"));
        if is_number {
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
pub(super) fn published(mut schema: Value) -> Value {
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
