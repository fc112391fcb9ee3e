//! Ids: UUIDs, and the numbers of accounts, members, contacts and versions.

use std::borrow::Cow;
use std::fmt;

use schemars::generate::Contract;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use uuid::Uuid;

use super::{mark, schema_of};
use crate::domain::agent_config::{ConfigId, VersionId};
use crate::domain::id::{AccountId, ContactId, LARGEST_USER_ID as LARGEST, MemberId};
use crate::domain::key::KeyOwner;
use crate::domain::room::Room;
use crate::domain::session::SessionKey;

/// Pattern of an account, member or contact id as a text.
pub const DECIMAL: &str = "^[1-9][0-9]{0,15}$";

/// A UUID in its one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(pub Uuid);

schema_of!([] Id,
    "Id",
    json_schema!({
        "type": "string", "format": "uuid",
        mark::EXPECTED: "a UUID, as answers show it",
    })
);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        uuid(&text).map(Self).ok_or_else(|| D::Error::custom("no UUID"))
    }
}

/// A UUID in the form with hyphens.
pub fn uuid(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok().filter(|_| text.len() == 36)
}

/// The number of an account, a member, a contact or a version, as it is shown.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub struct Number(i64);

schema_of!([] Number, "Number", json_schema!({
    "type": "integer", "minimum": 1, "maximum": LARGEST, "examples": [7],
}));

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<KeyOwner> for Number {
    fn from(owner: KeyOwner) -> Self {
        Self(owner.id())
    }
}

/// Grows with each change; a request names the one that it rests on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(pub i64);

schema_of!([] Revision, "Revision", json_schema!({
    "type": "integer", "minimum": 0, "maximum": LARGEST, "examples": [3],
}));

/// A noun with such numeric ids.
pub trait UserId: Copy + Sized {
    fn of(number: i64) -> Option<Self>;

    /// Parses the canonical decimal.
    fn spelled(text: &str) -> Option<Self>;
}

macro_rules! user_ids {
    ($($name:ident)+) => { $(
        impl UserId for $name {
            fn of(number: i64) -> Option<Self> {
                Self::new(number)
            }

            fn spelled(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }

        impl From<$name> for Number {
            fn from(id: $name) -> Self {
                Self(id.get())
            }
        }
    )+ };
}

user_ids!(AccountId MemberId ContactId VersionId);

/// Such a number in a request: in JSON a number or its decimal as a text, elsewhere its decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named<I>(pub I);

/// Tells whether the value is a valid id of an account or a similar noun.
pub(super) fn is_user_id(value: &Value) -> bool {
    match value {
        Value::String(text) => AccountId::spelled(text).is_some(),
        Value::Number(number) => number.as_i64().and_then(AccountId::new).is_some(),
        _ => false,
    }
}

impl<I: UserId> JsonSchema for Named<I> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Named".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let number = json_schema!({ "type": "integer", "minimum": 1, "maximum": LARGEST });
        if *generator.contract() == Contract::Serialize {
            return number;
        }
        let text = json_schema!({ "type": "string", "pattern": DECIMAL });
        json_schema!({
            "anyOf": [number, text], "examples": [7], mark::KIND: mark::USER_ID,
            mark::EXPECTED: "a whole number from 1 to 9007199254740991, without sign or leading zeros",
        })
    }
}

impl<'de, I: UserId> Deserialize<'de> for Named<I> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TextOrNumber {
            Text(String),
            Number(i64),
        }
        let id = match TextOrNumber::deserialize(deserializer)? {
            TextOrNumber::Text(text) => I::spelled(&text),
            TextOrNumber::Number(number) => I::of(number),
        };
        id.map(Self).ok_or_else(|| D::Error::custom("no id"))
    }
}

/// Ids that are texts, parsed by their noun.
macro_rules! spelled {
    ($($(#[$doc:meta])* $name:ident($noun:ident) = $kind:ident, $pattern:literal, $example:literal,
       $expected:literal;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $noun);

        schema_of!([] $name, stringify!($name), json_schema!({
            "type": "string", "pattern": $pattern, "examples": [$example],
            mark::KIND: mark::$kind, mark::EXPECTED: $expected,
        }));

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map(Self).map_err(|_| D::Error::custom($expected))
            }
        }
    )+ };
}

spelled! {
    /// A room: contact and Agent.
    RoomId(Room) = ROOM, "^[1-9][0-9]{0,15}:[1-9][0-9]{0,15}$", "41:7",
        "\"<contactId>:<agentId>\", as answers show it";
    /// A configuration of an Agent.
    CampaignId(ConfigId) = CAMPAIGN, "^camp[0-9a-f]{32}$", "camp019a9e5c7c8070008000000000000001",
        "\"camp\" and 32 hexadecimal digits, as answers show it";
    /// A session of a room.
    SessionRef(SessionKey) = SESSION,
        "^[1-9][0-9]{0,15}:[1-9][0-9]{0,15}:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        "41:7:019a9e5c-7c80-7000-8000-000000000001",
        "\"<roomId>:<uuid>\", as events and GET /computer/sessions show it";
}
