//! The `webhooks` of the document: the catalogue of events, with its examples.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde_json::{Map, Value, json};

use super::super::schema::put;
use crate::app::delivery::catalog;
use crate::domain::destination::Payload;
use crate::domain::event::{About, EventName};

/// What is sent for each event in each payload mode, as the program makes it.
static SENT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/fixtures/webhook");

/// A body as it is sent.
pub(super) fn example(name: EventName) -> Value {
    let file = SENT.get_file(format!("{name}.full.json"));
    file.and_then(|file| serde_json::from_slice(file.contents()).ok()).unwrap_or_default()
}

/// One of each event.
pub(super) fn webhooks() -> Value {
    let shown = |entry: catalog::Entry| {
        let name = entry.name.as_str();
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        let post = json!({
            "operationId": format!("on{}", name.split('.').map(capital).collect::<String>()),
            "tags": ["Webhooks"],
            "summary": entry.description,
            "description": format!("Sent to webhooks of type {}.", entry.name.category()),
            "security": [],
            "parameters": headers(),
            "requestBody": { "required": true, "content": { "application/json": {
                "schema": schema, "example": example(entry.name),
            } } },
            "responses": {
                "2XX": { "description": "Delivered." },
                "410": { "description": "The webhook is removed." },
                "default": { "description": "Tried again later." },
            },
        });
        (name.to_owned(), json!({ "post": post }))
    };
    catalog::catalog().into_iter().map(shown).collect::<Map<_, _>>().into()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// Standard Webhooks 1.0, and what receivers of v2 know. Content-Type is no parameter (OpenAPI 3.1,
/// Parameter Object).
const HEADERS: &[(&str, &str)] = &[
    ("webhook-id", "The event's id, the same on every attempt: deduplicate by it."),
    ("webhook-timestamp", "When this attempt was made, in Unix seconds."),
    ("webhook-signature", "What proves that it comes from here (Standard Webhooks 1.0)."),
    ("X-Service-Event", "The event's name, as in the body."),
    ("X-Service-Timestamp", "The same as webhook-timestamp, as v2 has it."),
    ("X-Service-Signature-Version", "Which signature it is."),
    ("X-Service-Signature", "The signature of webhook-signature with the secret of today, alone."),
    ("User-Agent", "Always gatepost."),
];

fn headers() -> Value {
    let header =
        |(name, _): &(&str, &str)| json!({ "$ref": format!("#/components/parameters/{name}") });
    HEADERS.iter().map(header).collect()
}

/// The headers that all events are sent with.
pub(super) fn parameters() -> Map<String, Value> {
    let header = |(name, about): &(&str, &str)| {
        let header = json!({ "name": name, "in": "header", "required": true, "description": about,
                             "schema": { "type": "string" } });
        ((*name).to_owned(), header)
    };
    HEADERS.iter().map(header).collect()
}

/// The body of each event, by mode, and what it may be. The part that several events have in common is a
/// shape of its own.
pub(super) fn shapes() -> BTreeMap<String, Value> {
    let mut shapes = BTreeMap::from([("MessageRecord".to_owned(), record())]);
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    for entry in catalog::catalog() {
        let name = entry.name.as_str();
        let mut any = Vec::new();
        for mode in Payload::ALL {
            let schema = entry.schema.pointer(&format!("/$defs/{mode}"));
            let mut schema = schema.cloned().unwrap_or_default();
            if let Some(shared) = in_common(entry.name, *mode)
                && let Some(data) = schema.pointer_mut("/properties/data")
            {
                shapes.insert(shared.clone(), std::mem::replace(data, reference(&shared)));
            }
            let of_mode = format!("{name}.{mode}");
            any.push(reference(&of_mode));
            shapes.insert(of_mode, schema);
        }
        let whole = json!({ "description": entry.description, "anyOf": any });
        shapes.insert(name.to_owned(), whole);
    }
    shapes
}

/// The name of the data of an event, where it is that of others, too.
fn in_common(name: EventName, mode: Payload) -> Option<String> {
    match (mode, name.about()) {
        (Payload::Thin, _) => Some("ThinData".to_owned()),
        (_, About::Message) => Some(format!("MessageData.{mode}")),
        (_, About::Contact) => Some(format!("ContactData.{mode}")),
        _ => None,
    }
}

/// The record of a message, as lists show it, and an example that was made.
fn record() -> Value {
    let mut schema = catalog::record_schema();
    if let Value::Object(fields) = &mut schema {
        fields.remove("$schema");
    }
    let mut message = example(EventName::EmailReceived)
        .pointer_mut("/data/message")
        .map(Value::take)
        .unwrap_or_default();
    // What only events have.
    if let Some(Value::Object(metadata)) = message.get_mut("metadata") {
        metadata.retain(|name, _| !name.to_ascii_lowercase().contains("signedurl"));
    }
    for attachment in
        message.get_mut("attachments").and_then(Value::as_array_mut).into_iter().flatten()
    {
        if let Value::Object(fields) = attachment {
            fields.remove("signed-url");
        }
    }
    put(&mut schema, "examples", json!([message]));
    schema
}
