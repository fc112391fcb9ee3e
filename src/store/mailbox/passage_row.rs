//! The JSON in which `messages.passage` keeps how a copy of a message arrived. Fields may be added.
//! No field may change its meaning, because old rows stay.

use serde::{Deserialize, Serialize};

use crate::domain::automation::Automation;
use crate::domain::marker::Marker;
use crate::domain::message::Passage;

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct PassageRow {
    marker: Option<String>,
    origin: Option<String>,
    may_auto_reply: bool,
    signs: Vec<String>,
}

/// Returns the JSON; None if it cannot be written, which never happens.
pub fn to_json(passage: &Passage) -> Option<String> {
    serde_json::to_string(&PassageRow::from(passage)).ok()
}

/// Reads the JSON. Missing fields, words of a later version, and broken JSON count as unknown.
pub fn read(kept: Option<&str>) -> Passage {
    let row = kept.and_then(|text| serde_json::from_str::<PassageRow>(text).ok());
    row.map(Passage::from).unwrap_or_default()
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
    use super::*;
    use crate::domain::automation::Origin;

    #[test]
    fn it_comes_back_as_it_went_in() {
        for origin in Origin::ALL.iter().copied() {
            let signs = vec!["List-Id".to_owned()];
            let passage = Passage {
                marker: Marker::read(&[b'a'; 32]),
                automation: Some(Automation { origin, may_auto_reply: false, signs }),
            };
            assert_eq!(read(to_json(&passage).as_deref()), passage);
        }
    }

    #[test]
    fn other_versions_rows_are_read_as_far_as_they_are_known() {
        let marker = Marker::read(&[b'a'; 32]);
        let text = "a".repeat(32);
        for (kept, marker) in [
            (None, None),
            (Some("1".to_owned()), None),
            (Some("{}".to_owned()), None),
            (Some(format!(r#"{{"marker": "{text}"}}"#)), marker),
            (
                Some(format!(
                    r#"{{"marker": "{text}", "origin": "robot", "signs": [], "later": 1}}"#
                )),
                marker,
            ),
        ] {
            assert_eq!(read(kept.as_deref()), Passage { marker, automation: None }, "{kept:?}");
        }
    }
}
