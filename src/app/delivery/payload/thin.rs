//! Ids only: nothing that needs protecting leaves.

use serde_json::{Map, Value, json};

use super::{came, envelope};
use crate::domain::delivery::Subject;
use crate::domain::event::Event;

/// The body of an event whose receiver reads the rest from the API.
pub(super) fn body(event: &Event, subject: &Subject) -> Map<String, Value> {
    let mut data = Map::new();
    let mut name = |name: &str, value: Option<Value>| {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            data.insert(name.to_owned(), value);
        }
    };
    name("accountId", event.lineage.ids().last().map(|id| json!(id.get())));
    name("roomId", event.room().map(|room| json!(room.to_string())));
    name("messageUuid", event.message.map(|id| json!(id.to_string())));
    name("contactId", event.contact.map(|id| json!(id.get())));
    match subject {
        Subject::Told(told) => {
            name("memberId", told.pointer("/member/id").cloned());
            name("webhookId", told.pointer("/webhook/id").cloned());
        }
        Subject::Erased => name("erased", Some(json!(true))),
        Subject::Message(_) | Subject::Contact(_) => {}
    }
    let mut top = envelope(event, Value::Object(data));
    let mut came = came(event, subject);
    for hidden in ["from", "subject"] {
        came.get_mut(hidden).into_iter().for_each(|value| *value = Value::Null);
    }
    top.extend(came);
    top
}
