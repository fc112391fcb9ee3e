//! The values that requests and answers are made of: each has one schema and one spelling.

use std::borrow::Cow;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use uuid::Uuid;

use super::super::call;
use super::super::schema;
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::domain::instant;
use crate::domain::key::KeyOwner;
use crate::domain::words::Words;
use crate::store::Cursor;

/// Names the value whose schema depends on where it stands, or on the rules (`form`).
pub(super) const KIND: &str = "x-kind";
pub(super) const MOMENT: &str = "moment";
pub(super) const LIMIT: &str = "limit";
pub(super) const CURSOR: &str = "cursor";
/// Where a schema says in words what is expected, for those who sent something else.
pub(super) const EXPECTED: &str = "x-expected";
/// The noun of a word in a path: one that is none of them leads nowhere (404).
pub(super) const NOUN: &str = "x-noun";
/// Where null is a value of a request.
pub(super) const NULL: &str = "x-null";
/// Where a field stands, if its name and the verb do not say.
pub(super) const PLACE: &str = "x-place";

/// Gives a type its schema, in place.
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

pub(in crate::http) use schema_of;

/// A word of a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Word<W>(pub(in crate::http) W);

schema_of!([W: Words] Word<W>, std::any::type_name::<W>(), {
    let words: Vec<&str> = W::all().iter().map(|word| word.word()).collect();
    json_schema!({ "type": "string", "enum": words })
});

impl<W: Words> Serialize for Word<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de, W: Words> Deserialize<'de> for Word<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let found = W::all().iter().find(|word| word.word() == text);
        found.map(|word| Self(*word)).ok_or_else(|| D::Error::custom("a word that is none"))
    }
}

/// A UUID in its one spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Id(pub(in crate::http) Uuid);

schema_of!([] Id,
    "Id",
    json_schema!({
        "type": "string", "format": "uuid", "examples": ["019a9e5c-7c80-7000-8000-000000000001"],
        "x-expected": "a UUID, as answers show it",
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
        call::uuid(&text).map(Self).ok_or_else(|| D::Error::custom("no UUID"))
    }
}

/// The id of an account, a member or a contact in an answer.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(transparent)]
pub(in crate::http) struct Number(i64);

schema_of!([] Number, "Number", schema::id(""));

impl From<KeyOwner> for Number {
    fn from(owner: KeyOwner) -> Self {
        Self(owner.id())
    }
}

impl From<AccountId> for Number {
    fn from(id: AccountId) -> Self {
        Self(id.get())
    }
}

/// A moment in an answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Date(pub(in crate::http) Timestamp);

schema_of!([] Date, "Date", schema::date(""));

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The same in Unix seconds, where v2 has those.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Seconds(pub(in crate::http) Timestamp);

schema_of!([] Seconds, "Seconds", schema::seconds(""));

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0.seconds())
    }
}

/// A moment in a request: Unix seconds, or a date.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Moment(pub(in crate::http) Timestamp);

schema_of!([] Moment,
    "Moment",
    json_schema!({
        "type": "string", KIND: MOMENT,
        EXPECTED: "Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z",
    })
);

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Text(String),
            Number(serde_json::Number),
        }
        let text = match Given::deserialize(deserializer)? {
            Given::Text(text) => text,
            Given::Number(number) => number.to_string(),
        };
        instant::parse(&text).map(Self).ok_or_else(|| D::Error::custom("no moment"))
    }
}

/// How many a page has at most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub(in crate::http) struct Limit(pub(in crate::http) u32);

schema_of!([] Limit, "Limit", json_schema!({ "type": "integer", KIND: LIMIT }));

/// A place in a list, which an earlier answer gave.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct Place(pub(in crate::http) Cursor);

schema_of!([] Place,
    "Place",
    json_schema!({
        "type": "string", "examples": ["1795168800123-019a9e5c7c8070008000000000000001"],
        KIND: CURSOR, EXPECTED: "a cursor: take it from an earlier answer",
    })
);

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cursor = Cow::<str>::deserialize(deserializer)?.parse().ok();
        cursor.map(Self).ok_or_else(|| D::Error::custom("no cursor"))
    }
}

/// A list whose members are JSON already.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(in crate::http) struct Texts<T>(Box<RawValue>, #[serde(skip)] PhantomData<T>);

impl<T> Texts<T> {
    /// An array that was written before.
    pub(in crate::http) fn of(array: String) -> Result<Self, serde_json::Error> {
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
