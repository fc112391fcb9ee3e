//! A JSON Schema as rows for readers: one per field, nested objects included.

use serde_json::{Map, Value};

use crate::http::typed::schema::shown;

pub(super) struct Row<'d> {
    pub(super) name: String,
    pub(super) is_required: bool,
    pub(super) kinds: Vec<Kind<'d>>,
    pub(super) about: &'d str,
}

/// One type of a value, in words.
pub(super) struct Kind<'d> {
    pub(super) words: String,
    /// The shape that the words name.
    pub(super) shape: Option<&'d str>,
}

/// The text at a JSON Pointer; empty if there is none.
pub(super) fn text<'d>(value: &'d Value, pointer: &str) -> &'d str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The fields of the object at a JSON Pointer; none if there is no object.
pub(super) fn fields<'d>(
    value: &'d Value,
    pointer: &str,
) -> impl Iterator<Item = (&'d String, &'d Value)> + use<'d> {
    value.pointer(pointer).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The items of a list; none if there is no list.
pub(super) fn items<'d>(value: &'d Value, name: &str) -> impl Iterator<Item = &'d Value> + use<'d> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The fields of an object, and of the objects in it.
pub(super) fn rows<'d>(document: &'d Value, schema: &'d Value) -> Vec<Row<'d>> {
    let mut all = Vec::new();
    below(document, &mut all, "", schema);
    all
}

fn below<'d>(document: &'d Value, all: &mut Vec<Row<'d>>, prefix: &str, schema: &'d Value) {
    for (name, field) in fields(schema, "/properties") {
        let path = format!("{prefix}{name}");
        if all.iter().any(|row| row.name == path) {
            continue;
        }
        let is_required = items(schema, "required").any(|one| one == name.as_str());
        let own = Some(text(field, "/description")).filter(|own| !own.is_empty());
        let about = own.unwrap_or_else(|| text(resolved(document, field), "/description"));
        all.push(Row { name: path.clone(), is_required, kinds: kinds(field), about });
        below(document, all, &format!("{path}."), field);
        if let Some(items) = field.get("items") {
            below(document, all, &format!("{path}[]."), items);
        }
    }
    for one in parts(document, schema) {
        below(document, all, prefix, one);
    }
}

/// The alternatives of `anyOf` and the parts of `allOf`.
fn parts<'d>(document: &'d Value, schema: &'d Value) -> impl Iterator<Item = &'d Value> {
    let each = items(schema, "allOf").map(|one| resolved(document, one));
    items(schema, "anyOf").chain(each)
}

pub(super) fn parameter(one: &Value) -> Row<'_> {
    let is_required = one.get("required") == Some(&Value::Bool(true));
    let kinds = one.get("schema").map(kinds).unwrap_or_default();
    Row {
        name: text(one, "/name").to_owned(),
        is_required,
        kinds,
        about: text(one, "/description"),
    }
}

/// The target of a reference; any other value, or a reference that leads nowhere, itself.
pub(super) fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let pointer = text(value, "/$ref").strip_prefix('#');
    pointer.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

/// All field names of a schema, nested shapes included; no shape may contain itself.
pub(super) fn names<'d>(document: &'d Value, schema: &'d Value) -> Vec<&'d str> {
    let schema = resolved(document, schema);
    let own = fields(schema, "/properties").map(|(name, _)| name.as_str());
    let inner = fields(schema, "/properties").map(|(_, field)| field);
    let inner = inner.chain(schema.get("items")).chain(parts(document, schema));
    own.chain(inner.flat_map(|inner| names(document, inner))).collect()
}

pub(super) fn kinds(schema: &Value) -> Vec<Kind<'_>> {
    if schema.get("anyOf").is_some() {
        let mut all: Vec<Kind<'_>> = items(schema, "anyOf").flat_map(kinds).collect();
        all.dedup_by(|one, before| one.words == before.words);
        return all;
    }
    if let Some(items) = schema.get("items") {
        let of = kinds(items);
        let words: Vec<&str> = of.iter().map(|kind| kind.words.as_str()).collect();
        let words = format!("list of {}", words.join(" or "));
        return vec![Kind { words, shape: of.iter().find_map(|kind| kind.shape) }];
    }
    let shape = schema.get("$ref").and_then(Value::as_str);
    let shape = shape.and_then(|reference| reference.rsplit('/').next());
    let words = shape.map_or_else(|| words(schema), ToOwned::to_owned);
    vec![Kind { words, shape }]
}

fn words(schema: &Value) -> String {
    let shown = |name: &str| schema.get(name).map(shown);
    let listed = |name: &str, between: &str| {
        let all: Vec<String> = items(schema, name).map(self::shown).collect();
        Some(all.join(between)).filter(|all| !all.is_empty())
    };
    if let Some(named) = listed("enum", ", ").or_else(|| shown("const")) {
        return named;
    }
    let Some(kind) = listed("type", " or ").or_else(|| shown("type")) else {
        return "anything".to_owned();
    };
    let kind = match shown("format") {
        Some(format) => kind.replace("string", &format),
        None => kind,
    };
    match (shown("minimum"), shown("maximum")) {
        (Some(least), Some(most)) => format!("{kind}, {least} to {most}"),
        (Some(least), None) => format!("{kind}, {least} or more"),
        _ => kind,
    }
}
