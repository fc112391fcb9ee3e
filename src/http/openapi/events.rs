//! The `webhooks` of the document: the catalogue of events, with examples.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::app::delivery::catalog;
use crate::domain::destination::Payload;
use crate::http::typed::schema::{put, reference};

pub(super) fn webhooks() -> Map<String, Value> {
    let shown = |entry: catalog::Entry| {
        let name = entry.name.as_str();
        let post = json!({
            "operationId": format!("on{}", name.split('.').map(capital).collect::<String>()),
            "tags": ["Webhooks"],
            "summary": entry.description,
            "description": format!("Sent to webhooks of type {}.", entry.name.category()),
            "security": [],
            "parameters": headers(),
            "requestBody": { "required": true, "content": { "application/json": {
                "schema": reference(name), "example": catalog::example(entry.name),
            } } },
            "responses": {
                "2XX": { "description": "Delivered." },
                "410": { "description": "The webhook is removed." },
                "default": { "description": "The delivery is tried again later." },
            },
        });
        (name.to_owned(), json!({ "post": post }))
    };
    catalog::catalog().into_iter().map(shown).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Headers of events: those of Standard Webhooks 1.0, and those of v2. Content-Type is no parameter
/// (OpenAPI 3.1, Parameter Object).
pub(super) const HEADERS: &[(&str, &str)] = &[
    ("webhook-id", "The event's id, the same on every attempt: deduplicate by it."),
    ("webhook-timestamp", "When this attempt was made, in Unix seconds."),
    ("webhook-signature", "The signature, which proves the origin (Standard Webhooks 1.0)."),
    ("X-Service-Event", "The event's name, as in the body."),
    ("X-Service-Timestamp", "Equal to webhook-timestamp, for v2 receivers."),
    ("X-Service-Signature-Version", "Version of the signature."),
    (
        "X-Service-Signature",
        "Only the signature of webhook-signature that is made with the current secret.",
    ),
    ("User-Agent", "Always gatepost."),
];

fn headers() -> Value {
    let header = |(name, about): &(&str, &str)| {
        json!({ "name": name, "in": "header", "required": true, "description": about,
                "schema": { "type": "string" } })
    };
    HEADERS.iter().map(header).collect()
}

/// The body of each event and the shapes that bodies refer to. One body covers all modes: that of
/// `full`, which allows the data of `thin`, too.
pub(super) fn shapes() -> BTreeMap<String, Value> {
    let mut shapes = BTreeMap::new();
    for entry in catalog::catalog() {
        let parts = entry.schema.get("$defs").and_then(Value::as_object);
        for (part, schema) in parts.into_iter().flatten() {
            let mode = Payload::ALL.iter().find(|mode| mode.as_str() == part);
            let mut schema = referring(schema.clone());
            match mode {
                None => shapes.insert(part.clone(), schema),
                Some(Payload::Full) => {
                    put(&mut schema, "description", entry.description.into());
                    shapes.insert(entry.name.as_str().to_owned(), schema)
                }
                Some(_) => continue,
            };
        }
    }
    shapes
}

/// Redirects references in a schema to components.
fn referring(mut schema: Value) -> Value {
    match &mut schema {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix("#/$defs/") {
                *text = format!("#/components/schemas/{name}");
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|one| *one = referring(one.take())),
        Value::Object(fields) => fields.values_mut().for_each(|one| *one = referring(one.take())),
        _ => {}
    }
    schema
}
