//! Bodies of events (contract §5), the same for webhooks, lists and streams. Equal rows give equal
//! bytes, so every attempt of a delivery sends the same body. Only signed links differ: they expire
//! by the time when the body is made.
//!
//! - `shapes` has the structs of bodies; `catalog` describes events by them.
//! - `cutting` shortens bodies that are too long.

mod cutting;
pub(super) mod shapes;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use self::shapes::{
    Arrived, ArrivedMail, Beside, Body, ContactData, Data, ErasedData, MessageData, Nothing,
    Session, ThinData,
};
use crate::app::mailbox::links::Links;
use crate::app::mailbox::record::MessageRecord;
use crate::domain::delivery::Subject;
use crate::domain::destination::Payload;
use crate::domain::event::{Category, Event, EventName};
use crate::domain::message::Message;
use crate::rules::PayloadRules;
use crate::wire::{Date, Id, Number, RoomId, Seconds, Word};

/// Returns the body as JSON of at most `max_body_bytes`. If anything was cut, `truncated` is true,
/// and `url` names the whole if it can be read: relative, for the reader's own base address and
/// key.
pub fn body(
    event: &Event,
    subject: &Subject,
    payload: Payload,
    rules: &PayloadRules,
    links: &Links,
) -> Bytes {
    let whole = match payload {
        Payload::Thin => thin(event, subject),
        Payload::Full => full(event, subject, rules.max_text_bytes, Some(links)),
        Payload::Summary => summary(event, subject, rules),
    };
    Bytes::from(capped(whole, event, subject, rules.max_body_bytes))
}

fn of<'e>(event: &Event, beside: Beside, data: Data<'e>) -> Body<Beside, Data<'e>> {
    Body {
        id: Id(event.id.0),
        event: Word(event.name),
        kind: Word(event.name),
        timestamp: Date(event.at),
        truncated: false,
        url: None,
        beside,
        data,
    }
}

fn full<'e>(
    event: &Event,
    subject: &'e Subject,
    max_text: usize,
    links: Option<&Links>,
) -> Body<Beside, Data<'e>> {
    let mut whole = of(event, beside(event, subject), data(event, subject, max_text, links));
    if record(&mut whole).is_some_and(|record| record.truncated) {
        mark_cut(&mut whole, event);
    }
    whole
}

fn summary<'e>(
    event: &Event,
    subject: &'e Subject,
    rules: &PayloadRules,
) -> Body<Beside, Data<'e>> {
    let mut whole = full(event, subject, rules.preview_bytes, None);
    if let Some(record) = record(&mut whole) {
        cutting::summarise(record);
    }
    whole
}

/// Makes a body of ids only; the receiver reads the rest from the API.
fn thin(event: &Event, subject: &Subject) -> Body<Beside, Data<'static>> {
    let told = |place: &str| match subject {
        Subject::Told(told) => told.pointer(place).cloned(),
        Subject::Message(_) | Subject::Contact(_) | Subject::Erased => None,
    };
    let ids = ThinData {
        account_id: event.lineage.ids().last().map(Number::from),
        room_id: event.room().map(RoomId),
        message_uuid: event.message.map(|id| Id(id.0)),
        contact_id: event.contact.map(Number::from),
        member_id: told("/member/id"),
        webhook_id: told("/webhook/id"),
        erased: matches!(subject, Subject::Erased),
    };
    let mut beside = beside(event, subject);
    beside.hide();
    of(event, beside, Data::Thin(ids))
}

/// The fields beside the envelope, which v2 clients read. Workers find the session of the room
/// here. After an erasure only the ids are left.
fn beside(event: &Event, subject: &Subject) -> Beside {
    let message = match subject {
        Subject::Message(message) => Some(message.as_ref()),
        Subject::Contact(_) | Subject::Told(_) | Subject::Erased => None,
    };
    let session_key = message.and_then(Message::session_key).map(|key| key.to_string());
    let session = Session { session_key };
    if event.name.category() == Category::Conversation {
        return Beside::Session(session);
    } else if event.name.category() != Category::Incoming {
        return Beside::Nothing(Nothing {});
    }
    let arrived = Arrived {
        room_id: message.map(|message| RoomId(message.room())),
        message_uuid: event.message.map(|id| Id(id.0)),
        message_timestamp: message.map(|message| Seconds(message.at)),
        target_account_id: event.lineage.agent.map(Number::from),
        from: message.map(|message| message.from().address()),
        session,
    };
    if event.name == EventName::MessageReceived {
        return Beside::Arrived(arrived);
    }
    let mailed = message.and_then(Message::mailed);
    Beside::ArrivedMail(ArrivedMail {
        arrived,
        subject: mailed.and_then(|mailed| mailed.mail.subject.clone()),
    })
}

fn data<'e>(
    event: &Event,
    subject: &'e Subject,
    max_text: usize,
    links: Option<&Links>,
) -> Data<'e> {
    match subject {
        Subject::Message(message) => {
            let mut record = MessageRecord::of(message);
            cutting::cut_text(&mut record, max_text);
            if let Some(links) = links {
                record.add_links(message, links);
            }
            Data::Message(Box::new(MessageData {
                room_id: RoomId(message.room()),
                message: record,
            }))
        }
        Subject::Told(told) => Data::Told(told),
        Subject::Contact(contact) => Data::Contact(ContactData { contact: contact.into() }),
        // Erased between the event and this attempt: the receiver gets the ids, and no content.
        Subject::Erased => Data::Erased(ErasedData {
            erased: true,
            message_uuid: event.message.map(|id| Id(id.0)),
            contact_id: event.contact.map(Number::from),
        }),
    }
}

fn record<'b, 'e>(body: &'b mut Body<Beside, Data<'e>>) -> Option<&'b mut MessageRecord<'e>> {
    match &mut body.data {
        Data::Message(data) => Some(&mut data.message),
        _ => None,
    }
}

/// Cuts a body that is too long, step by step, in the end to the ids. A single header field may
/// have a megabyte.
fn capped(
    mut whole: Body<Beside, Data<'_>>,
    event: &Event,
    subject: &Subject,
    max: usize,
) -> String {
    let mut text = to_json(&whole);
    if text.len() <= max {
        return text;
    }
    mark_cut(&mut whole, event);
    for step in cutting::STEPS {
        if let Some(record) = record(&mut whole) {
            step(record);
            record.truncated = true;
            text = to_json(&whole);
            if text.len() <= max {
                return text;
            }
        }
    }
    let mut ids = thin(event, subject);
    mark_cut(&mut ids, event);
    to_json(&ids)
}

fn to_json(body: &Body<Beside, Data<'_>>) -> String {
    // Cannot fail: all keys of maps are texts.
    serde_json::to_string(body).unwrap_or_default()
}

fn mark_cut(body: &mut Body<Beside, Data<'_>>, event: &Event) {
    body.truncated = true;
    let account = event.lineage.ids().last().map_or(0, |id| id.get());
    let path = match event.message {
        Some(message) => Some(format!("/message/{message}")),
        None => event.name.path().map(str::to_owned),
    };
    body.url = path.map(|path| format!("/api/v2{path}?targetAccountId={account}"));
}
