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
use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

pub use self::metadata::{MailMetadata, Metadata, Signed};
use super::links::Links;
use crate::domain::agent_outcome::Reply;
use crate::domain::id::MessageId;
use crate::domain::message::{self, Content, Linked, Message};
use crate::domain::source::{Inbox, Source};
use crate::wire::{Date, Id, Number, RoomId, Seconds, Word};

/// A message, as lists and events show it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("examples" = [example()]))]
pub struct MessageRecord<'m> {
    /// The contact; of a reply, the Agent.
    pub from: Number,
    /// The sender's display name, or else the address; of a reply, the Agent's username.
    pub from_user: Cow<'m, str>,
    /// The Agent; of a reply, the contact.
    pub to: Number,
    /// The Agent's username; of a reply, as `fromUser` of the message.
    pub to_user: Cow<'m, str>,
    /// When the message was received, or the reply recorded, in Unix seconds.
    pub timestamp: Seconds,
    /// When the message was received, or the reply recorded.
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
    /// Whether people take part just now, as the platform says; false for mail.
    pub is_live: bool,
    /// Whether an Agent is in charge, as the platform says; true for mail.
    pub ai_agent: bool,
    /// The rating of the contact as a lead, 0 to 100, as recorded.
    pub ai_lead_rating: Option<u8>,
    /// Why it is rated so, as recorded.
    pub ai_lead_rating_reason: Option<&'m str>,
    /// Why an earlier outcome was replaced, as recorded.
    pub ai_agent_override: Option<&'m str>,
    /// The channel.
    pub source: Word<Source>,
    /// The id of the message, or of the reply.
    pub uuid: Id,
    /// The sender's telephone number; null for mail and chats.
    pub from_number: Option<String>,
    /// The number or name that the message was sent to; null for mail.
    pub to_number: Option<Cow<'m, str>>,
    /// Whether people are to be notified, as the platform says; true for mail, false for a reply.
    pub notify: bool,
    /// The inbox that shows the message.
    pub target_inbox: Word<Inbox>,
    /// Equal to `source`.
    #[serde(rename = "type")]
    pub kind: Word<Source>,
    /// The length in seconds, as the platform says; null for mail.
    pub duration: Option<u64>,
    /// `inbound`; in the messages of a room also `outbound`, for a reply that was recorded.
    #[schemars(extend("enum" = ["inbound", "outbound"]))]
    pub direction: &'static str,
    /// Whether nobody took a call.
    pub missed_call: bool,
    /// Whether the Agent is to stay out of it, as the platform says; false for mail.
    pub bypass_agent: bool,
    /// Whether a call is from a known nuisance.
    pub cnam_spam: bool,
    /// Whether a number called itself, as the platform says; false for mail.
    pub self_call: bool,
    /// Whether the caller is the contact, as the platform says; true for mail.
    pub calling_user_is_contact: bool,
    /// The outcome, as recorded.
    pub agent_outcome: Option<&'m str>,
    /// The summary, as recorded.
    pub summary: Option<&'m str>,
    /// A call, turn by turn, with the replies that were recorded; null for other channels, or if cut.
    #[schemars(with = "Option<Vec<DialogTurn<'static>>>")]
    pub call_dialog: Option<Dialog<'m>>,
    /// The text as a dialogue, with the replies that were recorded; null for calls, or if cut.
    #[schemars(with = "Option<Vec<DialogTurn<'static>>>")]
    pub chat_dialog: Option<Dialog<'m>>,
    /// How many replies to the message were recorded.
    pub agent_reply_count: usize,
    /// Whether it belongs to a campaign, as the platform says; false for mail.
    pub campaign: bool,
    /// The number that a call was diverted from.
    pub diversion: Option<&'m str>,
    /// The URL of the recording of a call.
    pub voicemail_recording: Option<&'m str>,
    /// `direction`, a hyphen, and the source.
    pub event_type: String,
    /// Whether a campaign was forced on it, as the platform says; false for mail.
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
    /// The speaker: user, assistant for a reply, or the word of the platform.
    pub role: &'m str,
    /// The text.
    pub content: &'m str,
}

/// A dialogue: the turns from a platform, or the text as the only one, and then the replies.
#[derive(Debug, Default)]
pub struct Dialog<'m> {
    given: &'m [Value],
    said: Vec<DialogTurn<'m>>,
}

impl<'m> Dialog<'m> {
    pub fn said(content: &'m str) -> Self {
        Self { given: &[], said: vec![DialogTurn { role: "user", content }] }
    }

    fn given(turns: &'m Value) -> Self {
        Self { given: turns.as_array().map_or(&[], Vec::as_slice), said: Vec::new() }
    }

    fn with_replies(mut self, replies: &'m [Reply]) -> Self {
        let turn = |reply: &'m Reply| DialogTurn { role: ASSISTANT, content: &reply.text };
        self.said.extend(replies.iter().map(turn));
        self
    }

    /// Cuts each turn to `max` bytes, and leaves a longer dialogue of a platform out. Returns whether
    /// anything was cut.
    pub fn cut(&mut self, max: usize) -> bool {
        let given = self.given.iter().filter_map(|turn| turn.get("content")?.as_str());
        let is_long = given.map(str::len).sum::<usize>() > max;
        if is_long {
            self.given = &[];
        }
        let mut is_cut = is_long;
        for turn in &mut self.said {
            is_cut |= turn.content.len() > max;
            turn.content = head(turn.content, max);
        }
        is_cut
    }

    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.said.is_empty()
    }

    /// The newest reply alone, if there is one.
    pub fn newest_reply(mut self) -> Option<Self> {
        let newest = self.said.pop().filter(|turn| turn.role == ASSISTANT)?;
        Some(Self { given: &[], said: vec![newest] })
    }
}

/// The role of the Agent in a dialogue.
const ASSISTANT: &str = "assistant";

/// Returns at most `max` bytes, ending on a character.
pub fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

impl Serialize for Dialog<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut turns = serializer.serialize_seq(Some(self.given.len() + self.said.len()))?;
        self.given.iter().try_for_each(|turn| turns.serialize_element(turn))?;
        self.said.iter().try_for_each(|turn| turns.serialize_element(turn))?;
        turns.end()
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
        let outcome = &message.outcome;
        let flags = received.map(|received| received.flags).unwrap_or_default();
        let has_number = matches!(source, Source::Sms | Source::Call);
        Self {
            from: message.contact.into(),
            from_user: message
                .from_name()
                .map_or_else(|| message.from().address().into(), Into::into),
            to: message.agent.into(),
            to_user: Cow::Borrowed(&message.agent_username),
            timestamp: Seconds(message.at),
            date: Date(message.at),
            message: message.text(),
            content_type: "text/plain",
            disposition_notification: None,
            room_id: RoomId(message.room()),
            status: if message.unreadable { "unreadable" } else { "success" },
            attachments: attachments(message),
            attachment_count: None,
            is_live: flags.is_live.unwrap_or(false),
            ai_agent: flags.ai_agent.unwrap_or(true),
            ai_lead_rating: outcome.lead_rating,
            ai_lead_rating_reason: outcome.lead_rating_reason.as_deref(),
            ai_agent_override: outcome.overridden.as_deref(),
            source: Word(source),
            uuid: Id(message.id.0),
            from_number: received.filter(|_| has_number).map(|one| one.handle.address()),
            to_number: received.and_then(|received| received.to.as_deref()).map(Cow::Borrowed),
            notify: flags.notify.unwrap_or(true),
            target_inbox: Word(message.inbox),
            kind: Word(source),
            duration: call.and_then(|call| call.duration),
            direction: "inbound",
            missed_call: call.is_some_and(|call| call.missed),
            bypass_agent: flags.bypass_agent.unwrap_or(false),
            cnam_spam: call.is_some_and(|call| call.cnam_spam),
            self_call: flags.self_call.unwrap_or(false),
            calling_user_is_contact: flags.calling_user_is_contact.unwrap_or(true),
            agent_outcome: outcome.result.as_deref(),
            summary: outcome.summary.as_deref(),
            call_dialog: call_dialog(message),
            chat_dialog: chat_dialog(message),
            agent_reply_count: outcome.replies.len(),
            campaign: flags.campaign.unwrap_or(false),
            diversion: call.and_then(|call| call.diversion.as_deref()),
            voicemail_recording: call.and_then(|call| call.recording.as_deref()),
            event_type: format!("inbound-{source}"),
            forced_campaign: flags.forced_campaign.unwrap_or(false),
            metadata: Metadata::of(message),
            truncated: false,
        }
    }

    /// Returns the record of a reply to a message: an outbound entry of its room.
    pub fn of_reply(message: &'m Message, reply: &'m Reply) -> Self {
        let of = Self::of(message);
        Self {
            from: of.to,
            from_user: of.to_user,
            to: of.from,
            to_user: of.from_user,
            timestamp: Seconds(reply.at),
            date: Date(reply.at),
            message: &reply.text,
            status: "success",
            attachments: Vec::new(),
            ai_lead_rating: None,
            ai_lead_rating_reason: None,
            ai_agent_override: None,
            uuid: Id(reply.id.0),
            from_number: of.to_number.map(Cow::into_owned),
            to_number: of.from_number.map(Cow::Owned),
            notify: false,
            duration: None,
            direction: "outbound",
            missed_call: false,
            cnam_spam: false,
            agent_outcome: None,
            summary: None,
            call_dialog: None,
            chat_dialog: None,
            agent_reply_count: 0,
            diversion: None,
            voicemail_recording: None,
            event_type: format!("outbound-{}", message.source()),
            metadata: Metadata::of_reply(message),
            ..of
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
    let dialog = match &message.content {
        Content::Received(_) if message.source() == Source::Call => return None,
        Content::Received(received) => match &received.chat_dialog {
            Some(given) => Dialog::given(given),
            None => Dialog::said(&received.text),
        },
        Content::Mail(mailed) => Dialog::said(&mailed.mail.text),
    };
    Some(dialog.with_replies(&message.outcome.replies))
}

fn call_dialog(message: &Message) -> Option<Dialog<'_>> {
    let Content::Received(received) = &message.content else { return None };
    let replies = Some(&message.outcome.replies).filter(|_| received.is_call())?;
    let given = received.call.dialog.as_ref().map(Dialog::given);
    let dialog = given.or_else(|| (!replies.is_empty()).then(Dialog::default))?;
    Some(dialog.with_replies(replies))
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
