//! The wire shape of messages, for readers of the API and receivers of events.
//!
//! `http` and `webhook` share this one shape (contract §3): the 41 fields of the interface's record
//! and `metadata`, always all of them. Events add links that need no key, and may cut the record
//! (`delivery/payload`). A record borrows the message and is serialised without another copy.

mod metadata;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

pub use self::metadata::{MailMetadata, Metadata, Signed};
use super::links::Links;
use crate::domain::id::MessageId;
use crate::domain::message::{self, Content, Linked, Message};
use crate::domain::source::{Inbox, Source};
use crate::wire::{Date, Id, Number, RoomId, Seconds, Word};

/// A message, as lists and events show it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [example()]))]
pub struct MessageRecord<'m> {
    /// The contact.
    pub from: Number,
    /// The sender's display name, or else the address.
    pub from_user: Cow<'m, str>,
    /// The Agent.
    pub to: Number,
    /// The Agent's username.
    pub to_user: &'m str,
    /// When the message was received, in Unix seconds.
    pub timestamp: Seconds,
    /// When the message was received.
    pub date: Date,
    /// The text that a person would read; cut if `truncated` is true.
    pub message: &'m str,
    /// The type of `message`: always text/plain.
    #[serde(rename = "content-type")]
    pub content_type: &'static str,
    /// Known from v2; always null.
    #[serde(rename = "disposition-notification")]
    pub disposition_notification: Option<&'static str>,
    /// The room: contact and Agent.
    pub room_id: RoomId,
    /// `success`, or `unreadable` if the stored message is damaged: then only some fields are known.
    pub status: &'static str,
    /// The files of the message; empty if `attachmentCount` stands in their place.
    pub attachments: Vec<Attachment<'m>>,
    /// Only in events: how many attachments there are, if they are not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize")]
    pub attachment_count: Option<usize>,
    /// Always false.
    pub is_live: bool,
    /// Always true.
    pub ai_agent: bool,
    /// Known from v2; always null.
    pub ai_lead_rating: Option<f64>,
    /// Known from v2; always null.
    pub ai_lead_rating_reason: Option<&'static str>,
    /// Known from v2; always null.
    pub ai_agent_override: Option<&'static str>,
    /// The channel.
    pub source: Word<Source>,
    /// The id of the message.
    pub uuid: Id,
    /// The sender's telephone number; null for mail and chats.
    pub from_number: Option<String>,
    /// The number or name that the message was sent to; null for mail.
    pub to_number: Option<&'m str>,
    /// Always true.
    pub notify: bool,
    /// The inbox that shows the message.
    pub target_inbox: Word<Inbox>,
    /// Equal to `source`.
    #[serde(rename = "type")]
    pub kind: Word<Source>,
    /// The length of a call, in seconds.
    pub duration: Option<u64>,
    /// Always inbound.
    pub direction: &'static str,
    /// Whether nobody took a call.
    pub missed_call: bool,
    /// Always false.
    pub bypass_agent: bool,
    /// Whether a call is from a known nuisance.
    pub cnam_spam: bool,
    /// Always false.
    pub self_call: bool,
    /// Always true.
    pub calling_user_is_contact: bool,
    /// The outcome of a call.
    pub agent_outcome: Option<&'m str>,
    /// The summary of a call.
    pub summary: Option<&'m str>,
    /// A call, turn by turn; null for other channels, or if cut.
    #[schemars(with = "Option<Vec<DialogTurn<'static>>>")]
    pub call_dialog: Option<Dialog<'m>>,
    /// The text as a dialogue; null for calls, or if cut.
    #[schemars(with = "Option<Vec<DialogTurn<'static>>>")]
    pub chat_dialog: Option<Dialog<'m>>,
    /// Always 0.
    pub agent_reply_count: u32,
    /// Always false.
    pub campaign: bool,
    /// The number that a call was diverted from.
    pub diversion: Option<&'m str>,
    /// The URL of the recording of a call.
    pub voicemail_recording: Option<&'m str>,
    /// `inbound-` and the source.
    pub event_type: String,
    /// Always false.
    pub forced_campaign: bool,
    /// Further facts: of mail, or from the platform that handed the message in.
    pub metadata: Metadata<'m>,
    /// Only in events: true if something of this record was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// A file of a message.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Attachment<'m> {
    /// The type, as the message declares it.
    pub content_type: &'m str,
    /// The name, cleaned of paths and unseen characters.
    pub filename: &'m str,
    /// The URL of the file: relative to the API, without a token; or elsewhere.
    pub content_url: Cow<'m, str>,
    /// Only in events: a URL that needs no key, until `signedUrlsExpire`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub signed_url: Option<String>,
    /// `email`, or the word of the platform.
    #[serde(rename = "attachmentType")]
    pub attachment_type: &'m str,
}

/// A turn of a dialogue.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DialogTurn<'m> {
    /// The speaker: user, or the word of the platform.
    pub role: &'m str,
    /// The text.
    pub content: &'m str,
}

/// A dialogue: the text as its only turn, or the turns from a platform.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum Dialog<'m> {
    Said([DialogTurn<'m>; 1]),
    Given(&'m Value),
}

impl<'m> Dialog<'m> {
    pub const fn said(content: &'m str) -> Self {
        Self::Said([DialogTurn { role: "user", content }])
    }

    /// Bytes of its texts.
    pub fn octets(&self) -> usize {
        match self {
            Self::Said([turn]) => turn.content.len(),
            Self::Given(turns) => {
                let turns = turns.as_array().into_iter().flatten();
                turns.filter_map(|turn| turn.get("content")?.as_str()).map(str::len).sum()
            }
        }
    }
}

impl<'m> MessageRecord<'m> {
    /// Returns the record of a stored message, uncut.
    pub fn of(message: &'m Message) -> Self {
        let source = message.source();
        let received = match &message.content {
            Content::Received(received) => Some(received.as_ref()),
            Content::Mail(_) => None,
        };
        let call = received.map(|received| &received.call);
        let has_number = matches!(source, Source::Sms | Source::Call);
        Self {
            from: message.contact.into(),
            from_user: message
                .from_name()
                .map_or_else(|| message.from().address().into(), Into::into),
            to: message.agent.into(),
            to_user: &message.agent_username,
            timestamp: Seconds(message.at),
            date: Date(message.at),
            message: message.text(),
            content_type: "text/plain",
            disposition_notification: None,
            room_id: RoomId(message.room()),
            status: if message.unreadable { "unreadable" } else { "success" },
            attachments: attachments(message),
            attachment_count: None,
            is_live: false,
            ai_agent: true,
            ai_lead_rating: None,
            ai_lead_rating_reason: None,
            ai_agent_override: None,
            source: Word(source),
            uuid: Id(message.id.0),
            from_number: received.filter(|_| has_number).map(|one| one.handle.address()),
            to_number: received.and_then(|received| received.to.as_deref()),
            notify: true,
            target_inbox: Word(message.inbox),
            kind: Word(source),
            duration: call.and_then(|call| call.duration),
            direction: "inbound",
            missed_call: call.is_some_and(|call| call.missed),
            bypass_agent: false,
            cnam_spam: call.is_some_and(|call| call.cnam_spam),
            self_call: false,
            calling_user_is_contact: true,
            agent_outcome: call.and_then(|call| call.outcome.as_deref()),
            summary: call.and_then(|call| call.summary.as_deref()),
            call_dialog: call.and_then(|call| call.dialog.as_ref()).map(Dialog::Given),
            chat_dialog: chat_dialog(message),
            agent_reply_count: 0,
            campaign: false,
            diversion: call.and_then(|call| call.diversion.as_deref()),
            voicemail_recording: call.and_then(|call| call.recording.as_deref()),
            event_type: format!("inbound-{source}"),
            forced_campaign: false,
            metadata: Metadata::of(message),
            truncated: false,
        }
    }

    /// Adds links that need no key, as events show them.
    pub fn add_links(&mut self, message: &Message, links: &Links) {
        let Some(mail) = message.mailed().map(|mailed| &mailed.mail) else { return };
        let expires = links.expiry();
        let listed = mail.attachments.iter().filter(|part| part.listed);
        for (shown, part) in self.attachments.iter_mut().zip(listed) {
            shown.signed_url = Some(links.part(message.id, part, expires));
        }
        if let Metadata::Mail(metadata) = &mut self.metadata {
            metadata.signed = Some(Signed {
                email_html_signed_url: mail
                    .html()
                    .map(|part| links.part(message.id, part, expires)),
                email_raw_signed_url: links.raw(message.id, expires),
                signed_urls_expire: Date(expires),
            });
        }
    }
}

/// A record from the fixture of an event, as lists show it.
fn example() -> Value {
    const EVENT: &str = include_str!("../../../fixtures/webhook/email.received.full.json");
    let event: Value = serde_json::from_str(EVENT).unwrap_or_default();
    let mut record = event.pointer("/data/message").cloned().unwrap_or_default();
    let listed = record.get_mut("attachments").and_then(Value::as_array_mut);
    for part in listed.into_iter().flatten().filter_map(Value::as_object_mut) {
        part.remove("signed-url");
    }
    if let Some(Value::Object(metadata)) = record.get_mut("metadata") {
        metadata.retain(|name, _| !name.to_lowercase().contains("signedurl"));
    }
    record
}

fn chat_dialog(message: &Message) -> Option<Dialog<'_>> {
    match &message.content {
        Content::Received(_) if message.source() == Source::Call => None,
        Content::Received(received) => Some(match &received.chat_dialog {
            Some(given) => Dialog::Given(given),
            None => Dialog::said(&received.text),
        }),
        Content::Mail(mailed) => Some(Dialog::said(&mailed.mail.text)),
    }
}

fn attachments(message: &Message) -> Vec<Attachment<'_>> {
    match &message.content {
        Content::Mail(mailed) => {
            let listed = mailed.mail.attachments.iter().filter(|part| part.listed);
            listed.map(|part| attached(message.id, part)).collect()
        }
        Content::Received(received) => received.attachments.iter().map(linked).collect(),
    }
}

fn attached(message: MessageId, part: &message::Attachment) -> Attachment<'_> {
    Attachment {
        content_type: &part.content_type,
        filename: &part.filename,
        content_url: media_path(message, part).into(),
        signed_url: None,
        attachment_type: "email",
    }
}

/// A file that lies elsewhere; the gateway has not read it.
fn linked(one: &Linked) -> Attachment<'_> {
    let path = one.url.split(['?', '#']).next().unwrap_or_default();
    let name =
        path.rsplit('/').next().filter(|name| !name.is_empty() && path.matches('/').count() > 2);
    let is_type = one.kind.contains('/');
    Attachment {
        content_type: if is_type { &one.kind } else { "application/octet-stream" },
        filename: name.unwrap_or("attachment"),
        content_url: one.url.as_str().into(),
        signed_url: None,
        attachment_type: &one.kind,
    }
}

/// The path of a part: relative, so that it works with the reader's base address and token. The
/// message and the number find the part. The file name is for people, and must be the part's.
pub(super) fn media_path(message: MessageId, part: &message::Attachment) -> String {
    format!("/api/v2/media/{message}/{}-{}", part.part, path_segment(&part.filename))
}

/// The path of the original: relative as well.
pub(super) fn raw_path(message: MessageId) -> String {
    format!("/api/v2/messages/{message}/raw")
}

/// Percent-encodes all but the unreserved characters (RFC 3986 §2.3).
fn path_segment(name: &str) -> String {
    name.bytes().fold(String::new(), |mut encoded, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            _ => {
                encoded.push('%');
                encoded.push_str(&format!("{byte:02X}"));
            }
        }
        encoded
    })
}
