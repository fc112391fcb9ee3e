//! The body of an event (contract §5). Pure: the same rows give the same bytes, so that every
//! attempt of a delivery sends what the first one sent.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::app::mailbox::record::message_record;
use crate::domain::contact::Contact;
use crate::domain::delivery::Subject;
use crate::domain::event::{Event, EventName};
use crate::domain::message::Message;

/// JSON in UTF-8. `max_text_bytes` bounds each copy of the body text in the Message record.
pub fn body(event: &Event, subject: &Subject, max_text_bytes: usize) -> Bytes {
    let mut top = json!({
        "id": event.id.to_string(),
        "event": event.name.as_str(),
        "type": event.name.as_str(),
        "timestamp": event.at.to_string(),
        "data": data(event, subject, max_text_bytes),
    });
    if let (EventName::EmailReceived, Value::Object(top)) = (event.name, &mut top) {
        top.extend(email_received(event, subject));
    }
    Bytes::from(top.to_string())
}

/// What v2 clients read beside the envelope. Of an erased message only the ids are left.
fn email_received(event: &Event, subject: &Subject) -> Map<String, Value> {
    let message = match subject {
        Subject::Message(message) => Some(message.as_ref()),
        Subject::Contact(_) | Subject::Told(_) | Subject::Erased => None,
    };
    let fields = [
        ("roomId", message.map(|message| json!(message.room().to_string()))),
        ("messageUuid", event.message.map(|id| json!(id.to_string()))),
        ("messageTimestamp", message.map(|message| json!(message.at.seconds()))),
        ("targetAccountId", event.lineage.agent.map(|agent| json!(agent.get()))),
        ("from", message.map(|message| json!(message.from().to_string()))),
        ("subject", message.map(|message| json!(message.mail.subject))),
    ];
    let with_null =
        |(name, value): (&str, Option<Value>)| (name.to_owned(), value.unwrap_or(Value::Null));
    fields.into_iter().map(with_null).collect()
}

fn data(event: &Event, subject: &Subject, max_text_bytes: usize) -> Value {
    match subject {
        Subject::Message(message) => {
            let record = cut(message_record(message), message, max_text_bytes);
            json!({ "roomId": message.room().to_string(), "message": record })
        }
        Subject::Told(data) => data.clone(),
        Subject::Contact(contact) => json!({ "contact": contact_record(contact) }),
        // Deleted between the event and this attempt: the receiver learns that, and no content.
        Subject::Erased => json!({
            "erased": true,
            "messageUuid": event.message.map(|id| id.to_string()),
            "contactId": event.contact.map(|id| id.get()),
        }),
    }
}

/// Cuts the body text wherever the record holds it, and says so.
fn cut(mut record: Map<String, Value>, message: &Message, max: usize) -> Map<String, Value> {
    let (text, stripped) = (&message.mail.text, &message.mail.stripped_text);
    if text.len() <= max && stripped.len() <= max {
        return record;
    }
    let text = head(text, max);
    record.insert("message".to_owned(), json!(text));
    record.insert("chatDialog".to_owned(), json!([{ "role": "user", "content": text }]));
    if let Some(Value::Object(metadata)) = record.get_mut("metadata") {
        metadata.insert("emailStrippedText".to_owned(), json!(head(stripped, max)));
    }
    record.insert("truncated".to_owned(), Value::Bool(true));
    record
}

/// At most `max` octets, ending on a character.
fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

fn contact_record(contact: &Contact) -> Value {
    json!({
        "id": contact.id.get(),
        "name": contact.name,
        "email": contact.address.to_string(),
        "organizationId": contact.organization.get(),
        "firstSeen": contact.first_seen.to_string(),
        "lastSeen": contact.last_seen.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::webhook::sample;

    fn read(name: EventName, subject: &Subject, max: usize) -> Value {
        serde_json::from_slice(&body(&sample::event(name, 1), subject, max)).unwrap()
    }

    fn message(text: &str) -> Subject {
        Subject::Message(Box::new(sample::message(text)))
    }

    #[test]
    fn email_received_names_its_message_at_the_top() {
        let event = read(EventName::EmailReceived, &message("Hello"), 20_000);
        let expected = json!({
            "id": "00000000-0000-0000-0000-000000000001",
            "event": "email.received",
            "type": "email.received",
            "timestamp": "2024-06-15T14:56:35.123Z",
            "roomId": "41:7",
            "messageUuid": "00000000-0000-0000-0000-0000000000aa",
            "messageTimestamp": 1_718_463_395,
            "targetAccountId": 7,
            "from": "boss@good.example",
            "subject": "Hi",
            "data": {
                "roomId": "41:7",
                "message": Value::Object(message_record(&sample::message("Hello"))),
            },
        });
        assert_eq!(event, expected);
    }

    #[test]
    fn conversations_and_contacts_carry_their_noun() {
        let event = read(EventName::ConversationStarted, &message("Hello"), 20_000);
        assert_eq!(event["data"]["roomId"], "41:7");
        assert_eq!(event["data"]["message"]["message"], "Hello");
        let keys: Vec<_> = event.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["data", "event", "id", "timestamp", "type"]);
        let event = read(EventName::ContactCreated, &Subject::Contact(sample::contact()), 20_000);
        let expected = json!({
            "id": 41,
            "name": "The Boss",
            "email": "boss@good.example",
            "organizationId": 3,
            "firstSeen": "1970-01-01T00:00:00.000Z",
            "lastSeen": "2024-06-15T14:56:35.123Z",
        });
        assert_eq!(event["data"], json!({ "contact": expected }));
    }

    #[test]
    fn long_text_is_cut_on_a_character_everywhere() {
        let whole = "ü".repeat(60);
        let event = read(EventName::EmailReceived, &message(&whole), 120);
        assert_eq!(event["data"]["message"].get("truncated"), None);
        let event = read(EventName::EmailReceived, &message(&whole), 101);
        let record = &event["data"]["message"];
        let cut = "ü".repeat(50);
        assert_eq!(record["message"], cut);
        assert_eq!(record["chatDialog"][0]["content"], cut);
        assert_eq!(record["metadata"]["emailStrippedText"], cut);
        assert_eq!(record["truncated"], true);
        assert!(!event.to_string().contains(&"ü".repeat(51)));
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        let event = sample::event(EventName::EmailReceived, 1);
        assert_eq!(body(&event, &message("x"), 100), body(&event, &message("x"), 100));
    }

    #[test]
    fn an_erased_message_leaves_its_ids_and_no_content() {
        let event = read(EventName::EmailReceived, &Subject::Erased, 100);
        assert_eq!(event["messageUuid"], "00000000-0000-0000-0000-0000000000aa");
        assert_eq!(event["targetAccountId"], 7);
        assert_eq!(event["from"], Value::Null);
        assert_eq!(event["data"]["erased"], true);
        assert_eq!(event["data"].get("message"), None);
    }
}
