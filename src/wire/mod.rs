//! The values of JSON, in the API and in events: each has one spelling and one schema.
//!
//! Requests, responses and records are structs of these values. A record that API, events and
//! command line share is in `app`; the types of one operation are in `http/routes`. Nouns of
//! `domain` have no wire shape. This room never makes a decision.

mod ids;
pub mod tidy;
mod times;
mod word;

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

pub use self::ids::{
    CampaignId, DECIMAL, Id, Named, Number, Revision, RoomId, SessionRef, UserId, uuid,
};
pub use self::times::{Date, Millis, Moment, Seconds};
pub use self::word::Word;

use crate::domain::agent_config::ConfigId;
use crate::domain::room::Room;
use crate::domain::session::SessionKey;

/// Marks in a schema for rules that JSON Schema cannot express. The code that checks and describes
/// requests reads them; they are not published.
pub mod mark {
    /// A value with a further check beyond its schema.
    pub const KIND: &str = "x-kind";
    pub const MOMENT: &str = "moment";
    pub const USER_ID: &str = "user id";
    pub const ROOM: &str = "room";
    pub const CAMPAIGN: &str = "campaign";
    pub const SESSION: &str = "session";
    /// One line of at most `maxLength` bytes.
    pub const LINE: &str = "line";
    /// The fields of an Agent's configuration, or one of them: the table of fields checks them.
    pub const CONFIG: &str = "configuration";
    pub const FIELD: &str = "field of a configuration";
    /// A known field that is always refused with its `x-expected`.
    pub const REFUSED: &str = "refused";
    pub const SPOT: &str = "spot";
    /// The expected value in words, for error messages.
    pub const EXPECTED: &str = "x-expected";
    /// The noun of a path segment: an unknown value gives 404.
    pub const NOUN: &str = "x-noun";
    /// Null is a value of a request.
    pub const NULL: &str = "x-null";
    /// Where a field stands, if its name and the verb do not say.
    pub const PLACE: &str = "x-place";
    /// The body may be as large as a message.
    pub const MESSAGE: &str = "x-message";

    /// Fields of a request of which exactly one is sent.
    pub const ONE_OF: &str = "x-one-of";

    pub const ALL: &[&str] = &[KIND, EXPECTED, NOUN, NULL, PLACE, MESSAGE, ONE_OF];
}

/// Tells whether a value fits its kind, as far as a noun of `domain` decides; true for other kinds.
pub fn is_of_kind(kind: &str, value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    match kind {
        mark::MOMENT => times::is_moment(value),
        mark::USER_ID => ids::is_user_id(value),
        mark::ROOM => text.parse::<Room>().is_ok(),
        mark::CAMPAIGN => text.parse::<ConfigId>().is_ok(),
        mark::SESSION => text.parse::<SessionKey>().is_ok(),
        mark::REFUSED => false,
        _ => true,
    }
}

/// Gives a type an inline schema.
macro_rules! schema_of {
    ([$($parameter:ident: $bound:ident)?] $type:ty, $name:expr, $schema:expr) => {
        impl$(<$parameter: $bound>)? schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::Schema::try_from(serde_json::Value::from($schema)).unwrap_or_default()
            }
        }
    };
}

pub(crate) use schema_of;

/// Deserializes a field that may be absent, null or set: `#[serde(default, deserialize_with =
/// "sent")]` on an `Option<Option<T>>` whose schema is marked `x-null`.
pub fn sent<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// A list that is JSON already.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Texts<T>(Box<RawValue>, #[serde(skip)] PhantomData<T>);

impl<T> Texts<T> {
    /// Takes an array that is already serialized.
    pub fn of(array: String) -> Result<Self, serde_json::Error> {
        Ok(Self(RawValue::from_string(array)?, PhantomData))
    }
}

impl<T: JsonSchema> JsonSchema for Texts<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Texts".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<T>::json_schema(generator)
    }
}
