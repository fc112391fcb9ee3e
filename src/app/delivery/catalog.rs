//! The catalogue of events: the body of each, in each payload mode, as JSON Schema 2020-12.
//!
//! The subject of an event (`About` in `domain/event`) decides the structs of its body. A test
//! checks every body against its schema: a field too many or too few fails.

use include_dir::{Dir, include_dir};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::payload::shapes::{
    Arrived, ArrivedMail, Body, ContactData, ErasedData, MessageData, Nothing, Session, ThinData,
};
use crate::app::mailbox::record::MessageRecord;
use crate::app::tenancy::record::{AccountRecord, Invited};
use crate::domain::destination::Payload;
use crate::domain::event::{About, EventName};
use crate::store::{ChangedConfig, DisabledData, PolicyData, PublishedData, TestData};
use crate::wire::tidy::{published, tidy};

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: EventName,
    pub description: &'static str,
    /// `$defs` has one schema for each payload mode, named by its word, and those that they refer
    /// to.
    pub schema: Value,
}

/// Bodies as they are sent: one for each event and payload mode.
static SENT: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/fixtures/webhook");

/// Lists all events, in the order of `EventName::ALL`.
pub fn catalog() -> Vec<Entry> {
    let entry = |name: &EventName| Entry {
        name: *name,
        description: name.description(),
        schema: schema(*name),
    };
    EventName::ALL.iter().map(entry).collect()
}

/// A full body of this event, as it is sent.
pub fn example(name: EventName) -> Value {
    let file = SENT.get_file(format!("{name}.full.json"));
    file.and_then(|file| serde_json::from_slice(file.contents()).ok()).unwrap_or_default()
}

/// Returns the schema of a body, whose `data` may be anything.
fn body(name: EventName, generator: &mut SchemaGenerator) -> Schema {
    match (name, name.about()) {
        (EventName::EmailReceived, _) => Body::<ArrivedMail, Value>::json_schema(generator),
        (EventName::MessageReceived, _) => Body::<Arrived, Value>::json_schema(generator),
        (_, About::Message) => Body::<Session, Value>::json_schema(generator),
        _ => Body::<Nothing, Value>::json_schema(generator),
    }
}

/// Returns the schema of `data`.
fn data(name: EventName, generator: &mut SchemaGenerator) -> Schema {
    match name.about() {
        About::Message => generator.subschema_for::<MessageData<'static>>(),
        About::Contact => generator.subschema_for::<ContactData>(),
        About::Published => generator.subschema_for::<PublishedData>(),
        About::Reverted => generator.subschema_for::<ChangedConfig>(),
        About::Policy => generator.subschema_for::<PolicyData>(),
        About::Account => generator.subschema_for::<AccountData>(),
        About::Invitation => generator.subschema_for::<Invited>(),
        About::Webhook => generator.subschema_for::<TestData>(),
        About::DisabledWebhook => generator.subschema_for::<DisabledData>(),
    }
}

fn schema(name: EventName) -> Value {
    let mut generator = generator();
    let modes: Vec<_> =
        Payload::ALL.iter().map(|one| (*one, mode(name, *one, &mut generator))).collect();
    let mut shapes = generator.take_definitions(true);
    for (mode, schema) in modes {
        shapes.insert(mode.as_str().to_owned(), schema.to_value());
    }
    let reference = |mode: &Payload| json!({ "$ref": format!("#/$defs/{mode}") });
    let mut schema = json!({
        "$schema": DIALECT,
        "title": name.as_str(),
        "description": name.description(),
        "anyOf": Payload::ALL.iter().map(reference).collect::<Vec<_>>(),
        "$defs": shapes,
    });
    tidy(&mut schema, false);
    published(schema)
}

/// Returns the schema of the body in one mode.
fn mode(name: EventName, mode: Payload, generator: &mut SchemaGenerator) -> Schema {
    let is_erasable = matches!(name.about(), About::Message | About::Contact);
    let thin = generator.subschema_for::<ThinData>();
    let shown = if mode == Payload::Thin {
        thin
    } else {
        let whole = data(name, generator);
        let erased = is_erasable.then(|| generator.subschema_for::<ErasedData>());
        let any: Vec<_> = [whole].into_iter().chain(erased).chain([thin]).collect();
        json_schema!({ "description": "Data of the event.", "anyOf": any })
    };
    let mut schema = body(name, generator);
    let about = match mode {
        Payload::Full => "The whole event, as GET /events shows it.",
        Payload::Summary => {
            "The event without HTML, with the beginning of the text and the number of attachments."
        }
        Payload::Thin => "Only the ids of the event: no personal data.",
    };
    schema.insert("description".to_owned(), about.into());
    if let Some(Value::Object(fields)) = schema.get_mut("properties") {
        for field in ["event", "type"] {
            let about = fields.get(field).and_then(|field| field.get("description")).cloned();
            let word = json!({ "const": name.as_str(), "description": about });
            fields.insert(field.to_owned(), word);
        }
        fields.insert("data".to_owned(), shown.to_value());
    }
    schema
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Makes schemas that contain all that they refer to.
fn generator() -> SchemaGenerator {
    SchemaSettings::draft2020_12().for_serialize().into_generator()
}

/// The Message record: JSON Schema 2020-12.
pub fn record_schema() -> Value {
    let mut generator = generator();
    let mut schema = MessageRecord::json_schema(&mut generator).to_value();
    let shapes: Map<String, Value> = generator.take_definitions(true);
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".to_owned(), DIALECT.into());
        fields.insert("$defs".to_owned(), shapes.into());
    }
    tidy(&mut schema, false);
    published(schema)
}

/// An account.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the body is made of the record alone")]
struct AccountData {
    /// The account, as GET /account shows it.
    account: AccountRecord,
}

#[cfg(test)]
mod tests;
