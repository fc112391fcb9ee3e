//! The catalogue of events: what each says, in each payload mode, as JSON Schema 2020-12.
//!
//! One row an event (`row`): its description, and the structs that its body is made of. A test holds every
//! body against its schema: one that has a field more, or less, fails.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::payload::shapes::{
    Arrived, ArrivedMail, Body, ContactData, ErasedData, MessageData, Nothing, Session, ThinData,
};
use crate::app::mailbox::record::MessageRecord;
use crate::app::tenancy::invitation::{InvitationData, table};
use crate::domain::destination::Payload;
use crate::domain::event::{Category, EventName};
use crate::store::{ChangedConfig, DisabledData, PolicyData, PublishedData, TestData};
use crate::wire::tidy::{published, tidy};

/// One event of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: EventName,
    pub description: &'static str,
    /// `$defs` has one schema for each payload mode, under its word, and those that they refer to.
    pub schema: Value,
}

/// All events that are made, in the order of their list.
pub fn catalog() -> Vec<Entry> {
    let entry = |name: &EventName| {
        let row = row(*name);
        Entry { name: *name, description: row.about, schema: row.schema(*name) }
    };
    EventName::ALL.iter().map(entry).collect()
}

/// A body of this event as it is sent, in full.
pub fn example(name: EventName) -> Value {
    serde_json::from_str(row(name).example).unwrap_or_default()
}

/// The row of an event.
struct Row {
    about: &'static str,
    /// Makes the schema of its body, with the fields beside the envelope.
    body: fn(&mut SchemaGenerator) -> Schema,
    /// Makes that of its `data`.
    data: fn(&mut SchemaGenerator) -> Schema,
    /// `fixtures/webhook` holds what the program makes.
    example: &'static str,
}

macro_rules! rows {
    ($($name:ident = $word:literal, $beside:ty, $data:ty, $about:literal;)+) => {
        const fn row(name: EventName) -> Row {
            match name { $(EventName::$name => Row {
                about: $about,
                body: Body::<$beside, Value>::json_schema,
                data: SchemaGenerator::subschema_for::<$data>,
                example: include_str!(concat!("../../../fixtures/webhook/", $word, ".full.json")),
            },)+ }
        }
    };
}

rows! {
    EmailReceived = "email.received", ArrivedMail, MessageData<'static>,
        "A message was accepted for an Agent.";
    MessageReceived = "message.received", Arrived, MessageData<'static>,
        "A platform handed in a message for an Agent.";
    ConversationStarted = "conversation.started", Session, MessageData<'static>,
        "The first message of a room was accepted.";
    ConversationUpdated = "conversation.updated", Session, MessageData<'static>,
        "A later message of a room was accepted.";
    ContactCreated = "contact.created", Nothing, ContactData,
        "A sender wrote to an organization for the first time.";
    ContactUpdated = "contact.updated", Nothing, ContactData,
        "A known sender has a new name.";
    AgentPublished = "agent.published", Nothing, PublishedData,
        "The staged configuration of an Agent, or a version, went live.";
    AgentReverted = "agent.reverted", Nothing, ChangedConfig,
        "The staged configuration of an Agent went back to the live one.";
    AgentPolicyChanged = "agent.policyChanged", Nothing, PolicyData,
        "The mode or the allowlist of an Agent changed.";
    AccountCreated = "account.created", Nothing, AccountData,
        "An account was created.";
    AccountDeleted = "account.deleted", Nothing, AccountData,
        "An account was deleted.";
    MemberInvited = "member.invited", Nothing, InvitationData,
        "A member was invited to an account.";
    WebhookDisabled = "webhook.disabled", Nothing, DisabledData,
        "A webhook gets nothing any more: it failed for too long, or was switched off.";
    WebhookTest = "webhook.test", Nothing, TestData,
        "A test of a webhook was requested; only that webhook gets it.";
}

impl Row {
    fn schema(&self, name: EventName) -> Value {
        let mut generator = generator();
        let modes: Vec<_> = Payload::ALL
            .iter()
            .map(|mode| (*mode, self.mode(name, *mode, &mut generator)))
            .collect();
        let mut shapes = generator.take_definitions(true);
        for (mode, schema) in modes {
            shapes.insert(mode.as_str().to_owned(), schema.to_value());
        }
        let reference = |mode: &Payload| json!({ "$ref": format!("#/$defs/{mode}") });
        let mut schema = json!({
            "$schema": DIALECT,
            "title": name.as_str(),
            "description": self.about,
            "anyOf": Payload::ALL.iter().map(reference).collect::<Vec<_>>(),
            "$defs": shapes,
        });
        tidy(&mut schema, false);
        published(schema)
    }

    /// The body in one mode.
    fn mode(&self, name: EventName, mode: Payload, generator: &mut SchemaGenerator) -> Schema {
        let is_erasable = matches!(
            name.category(),
            Category::Incoming | Category::Conversation | Category::Contact
        );
        let thin = generator.subschema_for::<ThinData>();
        let data = if mode == Payload::Thin {
            thin
        } else {
            let whole = (self.data)(generator);
            let erased = is_erasable.then(|| generator.subschema_for::<ErasedData>());
            let any: Vec<_> = [whole].into_iter().chain(erased).chain([thin]).collect();
            json_schema!({ "description": "What happened.", "anyOf": any })
        };
        let mut schema = (self.body)(generator);
        let about = match mode {
            Payload::Full => "The whole event, as GET /events shows it.",
            Payload::Summary => {
                "The event without HTML, with the beginning of the text and the number of attachments."
            }
            Payload::Thin => "The ids of the event: nothing that needs protecting.",
        };
        schema.insert("description".to_owned(), about.into());
        if let Some(Value::Object(fields)) = schema.get_mut("properties") {
            for field in ["event", "type"] {
                let about = fields.get(field).and_then(|field| field.get("description")).cloned();
                let word = json!({ "const": name.as_str(), "description": about });
                fields.insert(field.to_owned(), word);
            }
            fields.insert("data".to_owned(), data.to_value());
        }
        schema
    }
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Of schemas that hold all that they refer to.
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

/// The account.
struct AccountData;

impl JsonSchema for AccountData {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AccountData".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let fields = [
            ("id", "integer", "The id of the account."),
            ("username", "string", "The username, unique among accounts."),
            ("accountType", "string", "partner, reseller, organization or account (an Agent)."),
            ("name", "string", "The name."),
            ("accountName", "string", "The name once more, as v2 has it."),
            ("organizationId", "integer?", "The organization of the account."),
            ("resellerId", "integer?", "The reseller of the account."),
            ("partnerId", "integer?", "The partner of the account."),
            ("parentId", "integer?", "The account directly above."),
            ("superAdmin", "boolean", "Always false."),
            ("active", "boolean", "The switch of the account itself."),
            ("externalAccountId", "string?", "The id that your application gave the account."),
            ("timestamp", "integer", "When the account was created, in Unix milliseconds."),
        ];
        let mut account = table("The account, as GET /account shows it.", &fields);
        // What v2 clients keep in it is kept as it is.
        account.insert("additionalProperties".to_owned(), true.into());
        json_schema!({
            "type": "object", "description": "The account.", "properties": { "account": account },
            "required": ["account"],
        })
    }
}

#[cfg(test)]
mod tests;
