//! The structs of which event bodies are made. `catalog` describes each event by them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::app::mailbox::contact_record::ContactRecord;
use crate::app::mailbox::record::MessageRecord;
use crate::domain::event::EventName;
use crate::wire::{Date, Id, Number, RoomId, Seconds, Word};

/// The body of an event: with these fields `beside` the envelope, and this `data`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Body<B, D> {
    /// The id of the event, the same on every attempt and in every list: deduplicate by it.
    pub id: Id,
    /// The name of the event.
    pub event: Word<EventName>,
    /// The name of the event once more, as v2 has it.
    #[serde(rename = "type")]
    pub kind: Word<EventName>,
    /// When it happened.
    pub timestamp: Date,
    /// True if something was cut: read the whole at `url`, if there is one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// The URL of the whole: relative to the API, without a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub url: Option<String>,
    #[serde(flatten)]
    pub beside: B,
    /// The subject of the event.
    pub data: D,
}

/// Fields beside the envelope.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Beside {
    Nothing(Nothing),
    Session(Session),
    Arrived(Arrived),
    ArrivedMail(ArrivedMail),
}

impl Beside {
    /// Removes what a thin body must not show.
    pub(super) fn hide(&mut self) {
        match self {
            Self::Nothing(_) | Self::Session(_) => {}
            Self::Arrived(arrived) => arrived.from = None,
            Self::ArrivedMail(mail) => (mail.arrived.from, mail.subject) = (None, None),
        }
    }
}

/// No field.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Nothing {}

/// The fields of every event about a message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The session that the message came in; null once the message is erased, or if it came before
    /// there were sessions.
    pub session_key: Option<String>,
}

/// The fields of an event about a new message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Arrived {
    /// The room; null once the message is erased.
    pub room_id: Option<RoomId>,
    /// The message.
    pub message_uuid: Option<Id>,
    /// When the message came, in Unix seconds.
    pub message_timestamp: Option<Seconds>,
    /// The Agent.
    pub target_account_id: Option<Number>,
    /// The sender's address, proven for mail; null where it is not shown.
    pub from: Option<String>,
    #[serde(flatten)]
    pub session: Session,
}

/// The fields of an event about new mail.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ArrivedMail {
    #[serde(flatten)]
    pub arrived: Arrived,
    /// The subject; null if there is none, or where it is not shown.
    pub subject: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Data<'e> {
    Message(Box<MessageData<'e>>),
    Contact(ContactData),
    /// As recorded when the event happened.
    Told(&'e Value),
    Erased(ErasedData),
    Thin(ThinData),
}

/// The message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MessageData<'e> {
    /// The room: contact and Agent.
    pub room_id: RoomId,
    /// The Message record.
    pub message: MessageRecord<'e>,
}

/// The sender.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ContactData {
    /// The contact.
    pub contact: ContactRecord,
}

/// The message or contact has been erased since.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErasedData {
    /// Always true.
    pub erased: bool,
    /// The message that was erased.
    pub message_uuid: Option<Id>,
    /// The contact that the message came from.
    pub contact_id: Option<Number>,
}

/// Ids only: of thin events, and of any event that would be too long.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThinData {
    /// The account that the event is about.
    #[schemars(with = "Number")]
    pub account_id: Option<Number>,
    /// The room: contact and Agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RoomId")]
    pub room_id: Option<RoomId>,
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Id")]
    pub message_uuid: Option<Id>,
    /// The contact.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Number")]
    pub contact_id: Option<Number>,
    /// The member.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Number")]
    pub member_id: Option<Value>,
    /// The webhook.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Id")]
    pub webhook_id: Option<Value>,
    /// True if the message or contact has been erased since.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub erased: bool,
}
