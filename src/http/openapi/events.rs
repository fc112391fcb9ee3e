//! The `webhooks` of the document: the catalogue of events, with its examples.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde_json::{Map, Value, json};

use super::super::schema::{put, reference, with};
use super::fields::items;
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

/// Headers of events: Standard Webhooks 1.0, and what receivers of v2 know. Content-Type is no parameter (OpenAPI 3.1,
/// Parameter Object).
pub(super) const HEADERS: &[(&str, &str)] = &[
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

/// The body of each event, whatever its mode: what `full` has, because the others have the same fields
/// or those of `thin`. Data that several events have in common is a shape of its own.
pub(super) fn shapes() -> BTreeMap<String, Value> {
    let mut shapes = BTreeMap::new();
    for entry in catalog::catalog() {
        let full = entry.schema.pointer(&format!("/$defs/{}", Payload::Full));
        let mut schema = full.cloned().unwrap_or_default();
        put(&mut schema, "description", entry.description.into());
        let any = schema.pointer_mut("/properties/data/anyOf").and_then(Value::as_array_mut);
        for one in any.into_iter().flatten() {
            if let Some(message) = one.pointer_mut("/properties/message") {
                let record = std::mem::replace(message, reference("MessageRecord"));
                shapes.insert("MessageRecord".to_owned(), with_example(record));
            }
            if let Some(name) = in_common(&entry, one) {
                shapes.insert(name.to_owned(), std::mem::replace(one, reference(name)));
            }
        }
        shapes.insert(entry.name.as_str().to_owned(), schema);
    }
    shapes
}

/// The name of what the data of an event may be, where it is that of others, too.
fn in_common(entry: &catalog::Entry, data: &Value) -> Option<&'static str> {
    let thin = entry.schema.pointer(&format!("/$defs/{}/properties/data", Payload::Thin));
    if thin.is_some_and(|thin| thin.get("properties") == data.get("properties")) {
        return Some("ThinData");
    }
    match entry.name.about() {
        _ if items(data, "required").any(|one| one == "erased") => Some("ErasedData"),
        About::Message => Some("MessageData"),
        About::Contact => Some("ContactData"),
        About::Account => Some("AccountData"),
        _ => None,
    }
}

/// The record of a message with an example that was made, as lists show it.
fn with_example(record: Value) -> Value {
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
    with(record, "examples", json!([message]))
}
