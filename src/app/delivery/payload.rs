//! The body of an event (contract §5), as webhooks, the list and the stream all show it. The same
//! rows give the same bytes, so that every attempt of a delivery sends what the first one sent; but
//! for links that open without a key: those are good from when the body is made.

mod thin;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::app::mailbox::links::Links;
use crate::app::mailbox::record::{add_links, message_record};
use crate::domain::contact::Contact;
use crate::domain::delivery::Subject;
use crate::domain::destination::Payload;
use crate::domain::event::{Category, Event, EventName};
use crate::domain::message::Message;
use crate::rules::PayloadRules;

/// The text once more, turn by turn.
const DIALOGUES: [&str; 2] = ["chatDialog", "callDialog"];

/// What is left out of a message's `metadata` while the whole is too long, in this order.
const CUT_OF_METADATA: &[&str] = &[
    "emailStrippedText",
    "findings",
    "emailReferences",
    "emailInReplyTo",
    "emailReplyTo",
    "emailCc",
    "emailTo",
    "authentication",
];

/// JSON in UTF-8 of at most `max_body_bytes`. Where anything was cut, `truncated` says so and `url`
/// where the whole can be read, if it can: relative, for the reader's own base address and key.
pub fn body(
    event: &Event,
    subject: &Subject,
    payload: Payload,
    rules: &PayloadRules,
    links: &Links,
) -> Bytes {
    let whole = match payload {
        Payload::Thin => thin::body(event, subject),
        Payload::Full => full(event, subject, rules.max_text_bytes, Some(links)),
        Payload::Summary => summary(event, subject, rules),
    };
    Bytes::from(capped(whole, event, subject, rules.max_body_bytes))
}

/// What all events have at the top.
fn envelope(event: &Event, data: Value) -> Map<String, Value> {
    let fields = [
        ("id", json!(event.id.to_string())),
        ("event", json!(event.name.as_str())),
        ("type", json!(event.name.as_str())),
        ("timestamp", json!(event.at.to_string())),
        ("data", data),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn full(
    event: &Event,
    subject: &Subject,
    max_text: usize,
    links: Option<&Links>,
) -> Map<String, Value> {
    let mut top = envelope(event, data(event, subject, max_text, links));
    top.extend(came(event, subject));
    if top.get("data").and_then(|data| data.pointer("/message/truncated")).is_some() {
        say_cut(&mut top, event);
    }
    top
}

/// The same with no text but its beginning, without HTML and links that open without a key, with the number of attachments in their
/// place, and of remarks only what they are and where.
fn summary(event: &Event, subject: &Subject, rules: &PayloadRules) -> Map<String, Value> {
    let mut top = full(event, subject, rules.preview_bytes, None);
    if let (Some(Value::Object(record)), Subject::Message(_)) = (record(&mut top), subject) {
        let listed = record.get("attachments").and_then(Value::as_array).map_or(0, Vec::len);
        record.insert("attachments".to_owned(), json!([]));
        record.insert("attachmentCount".to_owned(), json!(listed));
        say_no_dialogue(record);
        if let Some(Value::Object(metadata)) = record.get_mut("metadata") {
            for name in ["emailHtml", "emailStrippedText"] {
                metadata.get_mut(name).into_iter().for_each(|value| *value = Value::Null);
            }
            // Remarks quote what they are about.
            let findings = metadata.get_mut("findings").and_then(Value::as_array_mut);
            for remark in findings.into_iter().flatten().filter_map(Value::as_object_mut) {
                remark.remove("detail");
            }
        }
    }
    top
}

/// What v2 clients read beside the envelope where a message came; of one that is no mail all but a
/// subject. Of an erased message only the ids are left. A worker finds the session of the room here,
/// in whatever tells of a message.
fn came(event: &Event, subject: &Subject) -> Map<String, Value> {
    let mut fields = match event.name.category() {
        Category::Incoming => received(event, subject),
        Category::Conversation => Map::new(),
        Category::Contact | Category::Agent | Category::Onboarding => return Map::new(),
    };
    let session = match subject {
        Subject::Message(message) => message.session_key(),
        Subject::Contact(_) | Subject::Told(_) | Subject::Erased => None,
    };
    fields.insert("sessionKey".to_owned(), json!(session.map(|key| key.to_string())));
    if event.name == EventName::MessageReceived {
        fields.remove("subject");
    }
    fields
}

fn received(event: &Event, subject: &Subject) -> Map<String, Value> {
    let message = match subject {
        Subject::Message(message) => Some(message.as_ref()),
        Subject::Contact(_) | Subject::Told(_) | Subject::Erased => None,
    };
    let fields = [
        ("roomId", message.map(|message| json!(message.room().to_string()))),
        ("messageUuid", event.message.map(|id| json!(id.to_string()))),
        ("messageTimestamp", message.map(|message| json!(message.at.seconds()))),
        ("targetAccountId", event.lineage.agent.map(|agent| json!(agent.get()))),
        ("from", message.map(|message| json!(message.from().address()))),
        ("subject", message.and_then(Message::mailed).map(|mailed| json!(mailed.mail.subject))),
    ];
    let with_null =
        |(name, value): (&str, Option<Value>)| (name.to_owned(), value.unwrap_or(Value::Null));
    fields.into_iter().map(with_null).collect()
}

fn data(event: &Event, subject: &Subject, max_text: usize, links: Option<&Links>) -> Value {
    match subject {
        Subject::Message(message) => {
            let mut record = cut(message_record(message), message, max_text);
            if let Some(links) = links {
                add_links(&mut record, message, links);
            }
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
    let text = message.text();
    let stripped = message.mailed().map_or("", |mailed| &mailed.mail.stripped_text);
    let dialogues = DIALOGUES.map(|name| record.get(name).map_or(0, length_of_dialogue));
    if text.len() <= max && stripped.len() <= max && dialogues.iter().all(|length| *length <= max) {
        return record;
    }
    if message.mailed().is_none() {
        say_no_dialogue(&mut record);
    }
    let text = head(text, max);
    record.insert("message".to_owned(), json!(text));
    if message.mailed().is_some() {
        let said = json!([{ "role": "user", "content": text }]);
        record.insert("chatDialog".to_owned(), said);
    }
    if let (Some(_), Some(Value::Object(metadata))) = (message.mailed(), record.get_mut("metadata"))
    {
        metadata.insert("emailStrippedText".to_owned(), json!(head(stripped, max)));
    }
    record.insert("truncated".to_owned(), Value::Bool(true));
    record
}

fn say_no_dialogue(record: &mut Map<String, Value>) {
    for name in DIALOGUES {
        record.insert(name.to_owned(), Value::Null);
    }
}

/// Octets of what was said.
fn length_of_dialogue(dialogue: &Value) -> usize {
    let turns = dialogue.as_array().into_iter().flatten();
    turns.filter_map(|turn| turn.get("content")?.as_str()).map(str::len).sum()
}

/// At most `max` octets, ending on a character.
fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

fn contact_record(contact: &Contact) -> Value {
    json!({
        "id": contact.id.get(),
        "name": contact.name,
        "email": contact.handle.mailbox().map(ToString::to_string),
        "address": contact.handle.address(),
        "source": contact.handle.source().as_str(),
        "organizationId": contact.organization.get(),
        "firstSeen": contact.first_seen.to_string(),
        "lastSeen": contact.last_seen.to_string(),
    })
}

/// The Message record of a body, if it has one.
fn record(top: &mut Map<String, Value>) -> Option<&mut Value> {
    top.get_mut("data")?.get_mut("message")
}

/// Cuts what is too long, step by step: copies of the text, links, evidence, long lists, attachments,
/// the text itself; and in the end all but the ids. A header field alone may have a megabyte.
fn capped(mut top: Map<String, Value>, event: &Event, subject: &Subject, max: usize) -> String {
    let mut text = written(&top);
    if text.len() <= max {
        return text;
    }
    say_cut(&mut top, event);
    for step in STEPS.iter().copied() {
        if let Some(Value::Object(record)) = record(&mut top) {
            step(record);
            record.insert("truncated".to_owned(), Value::Bool(true));
            text = written(&top);
            if text.len() <= max {
                return text;
            }
        }
    }
    let mut top = thin::body(event, subject);
    say_cut(&mut top, event);
    written(&top)
}

const STEPS: &[fn(&mut Map<String, Value>)] = &[
    |record| {
        say_no_dialogue(record);
    },
    // A link to each attachment that needs no key, beside the one that does.
    |record| {
        let listed = record.get_mut("attachments").and_then(Value::as_array_mut);
        for part in listed.into_iter().flatten().filter_map(Value::as_object_mut) {
            part.remove("signed-url");
        }
    },
    |record| {
        if let Some(Value::Object(metadata)) = record.get_mut("metadata") {
            for name in CUT_OF_METADATA.iter().copied() {
                metadata.get_mut(name).into_iter().for_each(|value| *value = Value::Null);
            }
        }
    },
    |record| {
        let listed = record.get("attachments").and_then(Value::as_array).map_or(0, Vec::len);
        record.insert("attachments".to_owned(), json!([]));
        record.entry("attachmentCount").or_insert_with(|| json!(listed));
    },
    |record| {
        let text = record.get("message").and_then(Value::as_str).unwrap_or_default();
        let text = head(text, LEFT_OF_TEXT).to_owned();
        record.insert("message".to_owned(), text.into());
    },
];

/// Octets of text that are kept when all else has gone.
const LEFT_OF_TEXT: usize = 1000;

fn written(top: &Map<String, Value>) -> String {
    serde_json::to_string(top).unwrap_or_default()
}

fn say_cut(top: &mut Map<String, Value>, event: &Event) {
    top.insert("truncated".to_owned(), Value::Bool(true));
    let account = event.lineage.ids().last().map_or(0, |id| id.get());
    let path = match event.message {
        Some(message) => Some(format!("/messages/{message}/raw")),
        None => event.name.path().map(str::to_owned),
    };
    let Some(path) = path else { return };
    top.insert("url".to_owned(), format!("/api/v2{path}?targetAccountId={account}").into());
}
