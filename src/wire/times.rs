//! Times, in the spellings of v2 and the contract.

use schemars::json_schema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::{mark, schema_of};
use crate::domain::clock::Timestamp;
use crate::domain::instant;

/// A moment in ISO 8601, UTC, with milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Date(pub Timestamp);

schema_of!([] Date, "Date", json_schema!({ "type": "string", "format": "date-time" }));

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A moment in Unix seconds, where v2 has those.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Timestamp);

schema_of!([] Seconds, "Seconds", json_schema!({ "type": "integer", "examples": [1_795_168_800] }));

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0.seconds())
    }
}

/// A moment in Unix milliseconds, as v2 has it for accounts and members.
#[derive(Clone, Copy, Debug)]
pub struct Millis(pub Timestamp);

schema_of!([] Millis, "Millis", json_schema!({
    "type": "integer", "minimum": 0, "examples": [1_795_168_800_000_i64],
}));

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.0.millis())
    }
}

/// A moment in a request: Unix seconds, or a date.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub Timestamp);

schema_of!([] Moment, "Moment", json_schema!({
    "type": "string", mark::KIND: mark::MOMENT,
    mark::EXPECTED: "Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z",
}));

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TextOrNumber {
            Text(String),
            Number(serde_json::Number),
        }
        let text = match TextOrNumber::deserialize(deserializer)? {
            TextOrNumber::Text(text) => text,
            TextOrNumber::Number(number) => number.to_string(),
        };
        instant::parse(&text).map(Self).ok_or_else(|| D::Error::custom("no moment"))
    }
}

/// Tells whether the value is Unix seconds (number or text) or a date.
pub(super) fn is_moment(value: &Value) -> bool {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return false,
    };
    instant::parse(&text).is_some()
}
