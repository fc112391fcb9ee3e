//! Words of closed lists.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::words::Words;

/// A word of a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Word<W>(pub W);

/// Lists of at least this many words get a named schema.
const LONG: usize = 8;

impl<W: Words> JsonSchema for Word<W> {
    fn inline_schema() -> bool {
        W::all().len() < LONG
    }

    fn schema_name() -> Cow<'static, str> {
        let path = std::any::type_name::<W>();
        path.rsplit("::").next().unwrap_or(path).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = W::all().iter().map(|word| word.word()).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

impl<W: Words> Serialize for Word<W> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.word())
    }
}

impl<'de, W: Words> Deserialize<'de> for Word<W> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let found = W::all().iter().find(|word| word.word() == text);
        found.map(|word| Self(*word)).ok_or_else(|| D::Error::custom("a word of another list"))
    }
}
