//! The JSON in which `messages.authentication` keeps how a copy of a message came: what
//! authentication found, and beside it, under a name of its own, the rest. Fields may be added;
//! none may change its meaning, because old rows stay as they are.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::domain::automation::Automation;
use crate::domain::marker::Marker;
use crate::domain::message::Passage;

/// No field of the authentication has this name.
const NAME: &str = "passage";

#[derive(Serialize, Deserialize)]
pub(super) struct PassageRow {
    marker: Option<String>,
    origin: Option<String>,
    may_auto_reply: bool,
    signs: Vec<String>,
}

impl PassageRow {
    /// One document of both; `authentication` is an object.
    pub(super) fn join(authentication: &Value, passage: &Passage) -> Value {
        let mut joined = authentication.clone();
        if let (Value::Object(fields), Ok(row)) =
            (&mut joined, serde_json::to_value(Self::from(passage)))
        {
            fields.insert(NAME.to_owned(), row);
        }
        joined
    }

    /// Takes them apart again. What a row from before does not say, or one of a later version says
    /// in words that are not known here, is not known.
    pub(super) fn part(mut joined: Value) -> (Value, Passage) {
        let row = joined.as_object_mut().and_then(|fields| fields.remove(NAME));
        let row = row.and_then(|row| serde_json::from_value::<Self>(row).ok());
        (joined, row.map(Passage::from).unwrap_or_default())
    }
}

impl From<&Passage> for PassageRow {
    fn from(passage: &Passage) -> Self {
        let automation = passage.automation.as_ref();
        Self {
            marker: passage.marker.map(|marker| marker.to_string()),
            origin: automation.map(|found| found.origin.to_string()),
            may_auto_reply: automation.is_some_and(|found| found.may_auto_reply),
            signs: automation.map(|found| found.signs.clone()).unwrap_or_default(),
        }
    }
}

impl From<PassageRow> for Passage {
    fn from(row: PassageRow) -> Self {
        let PassageRow { marker, origin, may_auto_reply, signs } = row;
        let origin = origin.and_then(|word| word.parse().ok());
        Self {
            marker: marker.and_then(|text| Marker::read(text.as_bytes())),
            automation: origin.map(|origin| Automation { origin, may_auto_reply, signs }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::automation::Origin;

    #[test]
    fn both_come_back_as_they_went_in() {
        let authentication = json!({ "spf": null, "alignedDomain": "good.example" });
        for origin in Origin::ALL {
            let signs = vec!["List-Id".to_owned()];
            let passage = Passage {
                marker: Marker::read(&[b'a'; 32]),
                automation: Some(Automation { origin, may_auto_reply: false, signs }),
            };
            let joined = PassageRow::join(&authentication, &passage);
            assert_eq!(PassageRow::part(joined), (authentication.clone(), passage));
        }
    }

    #[test]
    fn other_versions_rows_are_read_as_far_as_they_are_known() {
        for (row, marker) in [
            (json!({ "spf": null }), None),
            (json!({ "spf": null, "passage": 1 }), None),
            (
                json!({ "spf": null, "passage": { "marker": "a".repeat(32), "origin": "robot",
                    "may_auto_reply": true, "signs": [], "later": 1 } }),
                Marker::read(&[b'a'; 32]),
            ),
        ] {
            let expected = Passage { marker, automation: None };
            assert_eq!(PassageRow::part(row), (json!({ "spf": null }), expected));
        }
    }
}
