//! Values of requests in this room: places in lists, and page sizes.

use std::borrow::Cow;
use std::fmt;

use schemars::json_schema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::store::Cursor;
use crate::wire::{mark, schema_of, uuid};

/// The most rows on a page.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(transparent)]
pub struct Limit(pub u32);

schema_of!([] Limit, "Limit", json_schema!({
    "type": "integer", "minimum": 1, "maximum": "limits.max_page", "default": "limits.default_page",
    "description": "Maximum number of items.",
}));

/// A place in a list that shows the newest first, as a request gives it: by `next` of a page, by a
/// cursor, or by the id of a row.
#[derive(Clone, Copy, Debug)]
pub enum ListPlace {
    Next(Next),
    Cursor(Cursor),
    Id(Uuid),
}

schema_of!([] ListPlace, "ListPlace", json_schema!({
    "type": "string", "examples": ["older.1795168800123-019a9e5c7c8070008000000000000001"],
    mark::KIND: mark::SPOT, mark::EXPECTED: "a cursor of an earlier answer, or an id of this list",
}));

impl ListPlace {
    pub(super) fn read(text: &str) -> Option<Self> {
        let cursor = |text: &str| text.parse().ok().filter(|one: &Cursor| one.to_string() == text);
        match text.strip_prefix(OLDER) {
            Some(rest) => cursor(rest).map(|cursor| Self::Next(Next(cursor))),
            None => cursor(text).map(Self::Cursor).or_else(|| uuid(text).map(Self::Id)),
        }
    }
}

impl<'de> Deserialize<'de> for ListPlace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Self::read(&text).ok_or_else(|| D::Error::custom("no place"))
    }
}

/// The place where the next page begins, with its direction: older rows. So a client may send it as
/// `before` or, as in other lists, as `after`; any other place in `after` means newer rows.
#[derive(Clone, Copy, Debug)]
pub struct Next(pub Cursor);

const OLDER: &str = "older.";

schema_of!([] Next, "Next", json_schema!({
    "type": "string", "examples": ["older.1795168800123-019a9e5c7c8070008000000000000001"],
}));

impl fmt::Display for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OLDER}{}", self.0)
    }
}

impl Serialize for Next {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Query parameters that the type does not declare, by name: `#[serde(rename = "field__op")]` on a
/// field. The handler refuses unknown names.
pub type Filters = std::collections::BTreeMap<String, String>;
