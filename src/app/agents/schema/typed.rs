//! Types that carry configurations, and parts of them, in requests and responses. The table of
//! fields makes their JSON Schemas.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{CALCULATED, FIELDS, Field, Preset, Shape, shown};
use crate::domain::agent_config::Config;
use crate::domain::id::LARGEST_USER_ID;
use crate::wire::{DECIMAL, mark, schema_of};

/// Some fields of a configuration; null removes a field's value.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SomeFields(pub Config);

impl JsonSchema for SomeFields {
    fn schema_name() -> Cow<'static, str> {
        "AgentConfigFields".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |field: &Field| {
            let mut schema = property(field, true, true);
            schema.insert(mark::KIND.to_owned(), mark::FIELD.into());
            (field.name.to_owned(), schema.to_value())
        };
        let refused = |name: &&str| {
            let about = "Calculated by the server, and refused in requests: leave it out.";
            let schema = json!({ "not": {}, "description": about, mark::KIND: mark::FIELD });
            ((*name).to_owned(), schema)
        };
        let all = FIELDS.iter().map(one).chain(CALCULATED.iter().map(refused));
        json_schema!({
            "type": "object", "properties": all.collect::<Map<_, _>>(), "additionalProperties": false,
            "description": "Some fields of a configuration; null removes a value.",
            mark::KIND: mark::CONFIG,
        })
    }
}

/// A whole configuration: all fields as they were set, else their defaults.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct WholeConfig(Config);

impl WholeConfig {
    pub fn of(config: &Config) -> Self {
        Self(shown(config))
    }
}

impl JsonSchema for WholeConfig {
    fn schema_name() -> Cow<'static, str> {
        "AgentConfig".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let one = |field: &Field| {
            let schema = property(field, false, matches!(field.preset, Preset::Null));
            (field.name.to_owned(), schema.to_value())
        };
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        json_schema!({
            "type": "object", "properties": FIELDS.iter().map(one).collect::<Map<_, _>>(),
            "required": names,
            "description": "A configuration: all fields, as set or with their defaults.",
        })
    }
}

/// The name of a field of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FieldName(pub String);

impl JsonSchema for FieldName {
    fn schema_name() -> Cow<'static, str> {
        "AgentConfigField".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        json_schema!({
            "type": "string", "enum": names, "description": "Name of a field of a configuration.",
            mark::EXPECTED: "the name of a field of a configuration",
        })
    }
}

/// One line that is not empty, of at most `max_title_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Line(pub String);

schema_of!([] Line, "Line", line());

/// The schema counts characters, the rule bytes: a line has no more characters than bytes.
fn line() -> Schema {
    json_schema!({
        "type": "string", "minLength": 1, "maxLength": "agents.max_title_bytes",
        mark::KIND: mark::LINE,
    })
}

/// Returns the schema of a field's value. If the field is sent, it has the bounds of the rules.
fn property(field: &Field, is_sent: bool, is_nullable: bool) -> Schema {
    let mut schema = shape(field.shape, is_sent);
    let mut put = |name: &str, value: Value| schema.insert(name.to_owned(), value);
    put("description", field.about.into());
    match (field.preset, field.shape, field.example) {
        (Preset::Null, _, "") => None,
        (Preset::Null, _, example) => put("examples", json!([example])),
        (Preset::Empty, _, "") => put("default", field.preset.value()),
        (Preset::Empty, _, example) => {
            put("default", field.preset.value());
            put("examples", json!([[example]]))
        }
        (preset, ..) => {
            put("default", preset.value());
            put("examples", json!([preset.value()]))
        }
    };
    if is_nullable {
        or_null(&mut schema);
    }
    schema
}

fn shape(one: Shape, is_sent: bool) -> Schema {
    match one {
        Shape::Line if is_sent => line(),
        Shape::Line | Shape::Text => json_schema!({ "type": "string" }),
        Shape::Word(words) => json_schema!({ "type": "string", "enum": words }),
        Shape::Whole(low, high) => {
            json_schema!({ "type": "integer", "minimum": low, "maximum": high })
        }
        Shape::Flag => json_schema!({ "type": "boolean" }),
        Shape::Account => json_schema!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": LARGEST_USER_ID },
            { "type": "string", "pattern": DECIMAL },
        ] }),
        Shape::List(items) if is_sent => json_schema!({
            "type": "array", "items": shape(*items, true), "maxItems": "agents.max_items",
        }),
        Shape::List(items) => json_schema!({ "type": "array", "items": shape(*items, false) }),
        Shape::Object(fields) => {
            let one = |field: &Field| {
                (field.name.to_owned(), property(field, is_sent, !field.needed).to_value())
            };
            let needed = fields.iter().filter(|field| field.needed).map(|field| field.name);
            json_schema!({
                "type": "object", "properties": fields.iter().map(one).collect::<Map<_, _>>(),
                "required": needed.collect::<Vec<_>>(), "additionalProperties": false,
            })
        }
        Shape::Open => json_schema!({ "type": "object", "additionalProperties": true }),
        Shape::Either(one, other) => {
            json_schema!({ "anyOf": [shape(*one, is_sent), shape(*other, is_sent)] })
        }
    }
}

fn or_null(schema: &mut Schema) {
    if let Some(kind) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.push(Value::Null);
    }
    if let Some(Value::Array(ways)) = schema.get_mut("anyOf") {
        ways.push(json!({ "type": "null" }));
    }
    schema.insert(mark::NULL.to_owned(), true.into());
}
