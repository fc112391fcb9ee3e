//! The catalogue of events: what each says, in each payload mode, as JSON Schema 2020-12.
//!
//! Made from tables of fields, so that a field is explained once. A test holds every body against
//! it: one that has a field more, or less, fails.

mod fields;

use serde_json::{Map, Value, json};

use self::fields::{object, put};
use crate::domain::destination::Payload;
use crate::domain::event::{About, Category, EventName};

/// One event of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: EventName,
    pub description: &'static str,
    /// `$defs` has one schema for each payload mode, under its word.
    pub schema: Value,
}

/// All events that are made, in the order of their list.
pub fn catalog() -> Vec<Entry> {
    let entry = |name: &EventName| Entry {
        name: *name,
        description: name.description(),
        schema: schema(*name),
    };
    EventName::ALL.iter().map(entry).collect()
}

fn schema(name: EventName) -> Value {
    let modes = Payload::ALL.iter().map(|mode| {
        let reference = json!({ "$ref": format!("#/$defs/{}", mode.as_str()) });
        ((*mode).as_str().to_owned(), reference, body(name, *mode))
    });
    let (mut any, mut defs) = (Vec::new(), Map::new());
    for (word, reference, schema) in modes {
        any.push(reference);
        defs.insert(word, schema);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name.as_str(),
        "description": name.description(),
        "anyOf": any,
        "$defs": defs,
    })
}

/// The body in one mode.
fn body(name: EventName, mode: Payload) -> Value {
    let data = match mode {
        Payload::Thin => object("What it is about, by its ids.", fields::THIN),
        Payload::Full | Payload::Summary => data(name, mode),
    };
    let word = name.as_str();
    let mut schema = object(about(mode), fields::ENVELOPE);
    let mut add = |field: &str, schema_of: Value, required: bool| {
        explain(&mut schema, field, schema_of);
        if let (true, Some(Value::Array(names))) = (required, schema.get_mut("required")) {
            names.push(field.into());
        }
    };
    for (field, description) in
        [("event", "The event's name."), ("type", "The event's name once more, as v2 has it.")]
    {
        add(field, json!({ "const": word, "description": description }), true);
    }
    if name.about() == About::Message {
        for field in fields::SESSION {
            add(field.name, field.schema(), true);
        }
    }
    if name.category() == Category::Incoming {
        let mail = name == EventName::EmailReceived;
        let named = |field: &&fields::Field| mail || field.name != "subject";
        for field in fields::EMAIL_RECEIVED.iter().filter(named) {
            add(field.name, field.schema(), true);
        }
    }
    add("data", data, true);
    schema
}

const fn about(mode: Payload) -> &'static str {
    match mode {
        Payload::Full => "All of it; what GET /events shows, too.",
        Payload::Summary => "No text but its beginning, no HTML, the number of attachments.",
        Payload::Thin => "Ids only: nothing that needs protecting.",
    }
}

fn data(name: EventName, mode: Payload) -> Value {
    let whole = match name.about() {
        About::Message => message(mode),
        About::Contact => holder("contact", object("The sender.", fields::CONTACT)),
        About::Published => object("What is in force now.", fields::PUBLISHED),
        About::Reverted => object("What is staged now.", fields::REVERTED),
        About::Policy => object("The policy as it is now.", fields::POLICY),
        About::Invitation => object("Who was invited, and how.", fields::INVITATION),
        About::Webhook => object("The webhook.", fields::TEST),
        About::DisabledWebhook => object("The webhook, and why.", fields::DISABLED),
        About::Account => {
            let mut account = object("The account, as GET /account shows it.", fields::ACCOUNT);
            // What v2 clients keep in it is kept as it is.
            put(&mut account, "additionalProperties", json!(true));
            holder("account", account)
        }
    };
    let mut any = vec![whole];
    if matches!(name.about(), About::Message | About::Contact) {
        any.push(object("It was erased since.", fields::ERASED));
    }
    any.push(object("The whole would have been too long.", fields::THIN));
    json!({ "description": "What happened.", "anyOf": any })
}

fn holder(name: &str, schema: Value) -> Value {
    json!({
        "type": "object",
        "description": "What it is about.",
        "properties": { name: schema },
        "required": [name],
    })
}

const OF_MAIL: &str = "/properties/metadata/anyOf/0/properties";

/// The Message record, whole, as lists of messages show it: JSON Schema 2020-12.
pub fn record_schema() -> Value {
    let mut record = record();
    if let Some(Value::Object(properties)) = record.get_mut("properties") {
        // Only events cut.
        properties.retain(|name, _| !["attachmentCount", "truncated"].contains(&name.as_str()));
    }
    if let Some(Value::Object(properties)) = record.pointer_mut(OF_MAIL) {
        // Whoever reads lists has a key.
        properties.retain(|name, _| !name.to_ascii_lowercase().contains("signedurl"));
    }
    put(&mut record, "$schema", json!("https://json-schema.org/draft/2020-12/schema"));
    record
}

fn record() -> Value {
    let mut record =
        object("The Message record, as GET /messages/recent shows it.", fields::RECORD);
    let mut received = object("What the platform gave, and of ours:", fields::RECEIVED);
    put(&mut received, "additionalProperties", json!(true));
    let of_mail = object("What belongs to mail.", fields::METADATA);
    let either = json!({
        "type": "object",
        "description": "What belongs to mail, or what the platform gave.",
        "anyOf": [of_mail, received],
    });
    explain(&mut record, "metadata", either);
    record
}

fn message(mode: Payload) -> Value {
    let mut record = record();
    if let (Payload::Summary, Some(Value::Array(names))) = (mode, record.get_mut("required")) {
        names.push("attachmentCount".into());
    }
    let mut data = object("The message.", fields::ROOM);
    explain(&mut data, "message", record);
    data
}

/// The schema of a property.
fn explain(schema: &mut Value, name: &str, property: Value) {
    if let Some(properties) = schema.get_mut("properties") {
        put(properties, name, property);
    }
}

#[cfg(test)]
mod tests;
