//! The values of requests that are this room's own: places in lists, and how many of one are shown.

use std::borrow::Cow;

use schemars::json_schema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use crate::store::Cursor;
use crate::wire::{self, mark, schema_of};

/// How many a page has at most.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub struct Limit(pub u32);

schema_of!([] Limit, "Limit", json_schema!({
    "type": "integer", "minimum": 1, "maximum": "limits.max_page", "default": "limits.default_page",
    "description": "How many at most.",
}));

/// A place in a list, which an earlier answer gave.
#[derive(Clone, Copy, Debug)]
pub struct Place(pub Cursor);

schema_of!([] Place, "Place", json_schema!({
    "type": "string", "examples": ["1795168800123-019a9e5c7c8070008000000000000001"],
    mark::KIND: mark::CURSOR, mark::EXPECTED: "a cursor: take it from an earlier answer",
}));

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let cursor = Cow::<str>::deserialize(deserializer)?.parse().ok();
        cursor.map(Self).ok_or_else(|| D::Error::custom("no cursor"))
    }
}

/// A place in a list of messages: such a place, or the id of a message.
#[derive(Clone, Copy, Debug)]
pub enum Spot {
    Place(Cursor),
    Message(Uuid),
}

schema_of!([] Spot, "Spot", json_schema!({
    "type": "string", "examples": ["019a9e5c-7c80-7000-8000-000000000001"], mark::KIND: mark::SPOT,
    mark::EXPECTED: "a cursor from an earlier answer, or the id of a message",
}));

impl<'de> Deserialize<'de> for Spot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let cursor = || text.parse().ok().map(Self::Place);
        let spot = wire::uuid(&text).map(Self::Message).or_else(cursor);
        spot.ok_or_else(|| D::Error::custom("no place"))
    }
}

/// The parameters of a query that are none of its own, by name: `#[serde(rename = "field__op")]` on a field.
/// The handler refuses names that are none.
#[expect(dead_code, reason = "the log of conversations has it next")]
pub type Filters = std::collections::BTreeMap<String, String>;
