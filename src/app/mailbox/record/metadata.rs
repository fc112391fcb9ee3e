//! `metadata` of a record: facts about mail, or metadata from a platform.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::{media_path, raw_path};
use crate::domain::automation::{self, Origin};
use crate::domain::evidence::finding;
use crate::domain::evidence::results::Results;
use crate::domain::marker::{self, Marker};
use crate::domain::message::{Content, Mailed, Message, Received};
use crate::mail::findings::KINDS;
use crate::wire::{Date, Id};

/// Facts about mail, or metadata from the platform.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline, extend("type" = "object"))]
pub enum Metadata<'m> {
    Mail(Box<MailMetadata<'m>>),
    Received(ReceivedMetadata<'m>),
    Reply(ReplyMetadata),
}

/// Facts about mail; null if the message has no such header field.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MailMetadata<'m> {
    /// The thread: messages of a room that answer each other.
    pub thread_id: Id,
    /// The subject, decoded.
    pub email_subject: Option<&'m str>,
    /// The proven address.
    pub email_from: String,
    /// To, as written.
    pub email_to: Option<&'m [String]>,
    /// Cc, as written.
    pub email_cc: Option<&'m [String]>,
    /// Reply-To, as written.
    pub email_reply_to: Option<&'m [String]>,
    /// Message-ID.
    pub email_message_id: Option<&'m str>,
    /// In-Reply-To.
    pub email_in_reply_to: Option<&'m [String]>,
    /// References.
    pub email_references: Option<&'m [String]>,
    /// The URL of the HTML: relative to the API, without a token.
    pub email_html: Option<String>,
    /// The text without quotes and signature.
    pub email_stripped_text: Option<&'m str>,
    /// The tag of the recipient's address, behind `+`.
    pub email_tag: Option<&'m str>,
    /// Auto-Submitted.
    pub email_auto_submitted: Option<&'m str>,
    /// Whether a machine wrote the message.
    pub email_automation: Option<Automation<'m>>,
    /// The header field to add when the message is sent on.
    pub email_delivery_marker: Option<DeliveryMarker>,
    /// The address that wants a receipt.
    pub email_disposition_notification_to: Option<&'m str>,
    /// The size of the original, in bytes.
    pub email_size: u64,
    /// The URL of the original: relative to the API, without a token.
    pub email_raw_url: String,
    #[serde(flatten)]
    pub signed: Option<Signed>,
    /// How the sender was proven; null if cut.
    #[schemars(with = "Option<Map<String, Value>>")]
    pub authentication: Option<Authentication<'m>>,
    /// Remarks about the content; null if cut.
    pub findings: Option<Vec<Finding<'m>>>,
}

/// Links that need no key.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Signed {
    /// Only in events: a URL of the HTML that needs no key, until `signedUrlsExpire`.
    pub email_html_signed_url: Option<String>,
    /// Only in events: a URL of the original that needs no key, until `signedUrlsExpire`.
    pub email_raw_signed_url: String,
    /// Only in events: when signed URLs expire.
    pub signed_urls_expire: Date,
}

/// The results of all methods; none if the stored contents cannot be read.
#[derive(Debug)]
pub struct Authentication<'m>(Option<&'m Results>);

impl Serialize for Authentication<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(results) => results.serialize(serializer),
            None => Map::new().serialize(serializer),
        }
    }
}

/// Whether a machine wrote a message, so that an Agent answers no machine (RFC 3834 §2).
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Automation<'m> {
    /// The writer: a person, or a kind of machine.
    #[schemars(extend("enum" = Origin::ALL.iter().map(|one| one.as_str()).collect::<Vec<_>>()))]
    origin: &'static str,
    /// Whether an automatic answer may be sent (RFC 3834).
    may_auto_reply: bool,
    /// The header fields that say so.
    signs: &'m [String],
}

/// A header field by which a message is known when it comes back.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct DeliveryMarker {
    /// The name of the header field.
    name: &'static str,
    /// The value.
    value: String,
}

/// A remark about the content of a message.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Finding<'m> {
    /// The kind of remark; docs/message.md explains each.
    #[schemars(extend("enum" = KINDS))]
    kind: &'m str,
    /// The remark in words; missing in summaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub detail: Option<&'m str>,
    /// The field of the record, or of its metadata, that the remark is about.
    field: &'m str,
    /// The first character in that field, in Unicode code points; null for the whole field.
    start: Option<u64>,
    /// The character behind the last one.
    end: Option<u64>,
    /// The charset by which `emailHtml` is decoded to count in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    charset: Option<&'m str>,
}

/// Metadata from the platform, and these fields.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceivedMetadata<'m> {
    /// The thread: messages of a room that answer each other.
    thread_id: Id,
    /// The context that the platform gave.
    received_context: &'m Map<String, Value>,
    /// The thread, as the platform calls it.
    received_thread_id: Option<&'m str>,
    /// The URL where the platform wants answers; nothing is sent there.
    received_outbound_message_webhook_url: Option<&'m str>,
    /// The size of the original, in bytes.
    received_size: u64,
    /// The URL of the original: relative to the API, without a token.
    received_raw_url: String,
    #[serde(flatten)]
    given: BTreeMap<&'m str, &'m Value>,
}

/// The message that a reply answers.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplyMetadata {
    /// The thread of the message.
    thread_id: Id,
    /// The message that the reply answers.
    reply_to_message_uuid: Id,
}

impl<'m> Metadata<'m> {
    pub(super) fn of_reply(message: &'m Message) -> Self {
        let (thread_id, reply_to_message_uuid) = (Id(message.thread.0), Id(message.id.0));
        Self::Reply(ReplyMetadata { thread_id, reply_to_message_uuid })
    }

    pub(super) fn of(message: &'m Message) -> Self {
        match &message.content {
            Content::Mail(mailed) => Self::Mail(Box::new(of_mail(message, mailed))),
            Content::Received(received) => Self::Received(of_received(message, received)),
        }
    }
}

fn of_mail<'m>(message: &'m Message, mailed: &'m Mailed) -> MailMetadata<'m> {
    let mail = &mailed.mail;
    let list = |items: &'m [String]| Some(items).filter(|items| !items.is_empty());
    MailMetadata {
        thread_id: Id(message.thread.0),
        email_subject: mail.subject.as_deref(),
        // The proven mailbox alone: `fromUser` has the display name that the sender claims.
        email_from: mail.from.address.to_string(),
        email_to: list(&mail.to),
        email_cc: list(&mail.cc),
        email_reply_to: list(&mail.reply_to),
        email_message_id: mail.message_id.as_deref(),
        email_in_reply_to: list(&mail.in_reply_to),
        email_references: list(&mail.references),
        email_html: mail.html().map(|part| media_path(message.id, part)),
        email_stripped_text: Some(&mail.stripped_text),
        email_tag: mailed.tag.as_deref(),
        email_auto_submitted: mail.auto_submitted.as_deref(),
        email_automation: mailed.passage.automation.as_ref().map(automation),
        email_delivery_marker: mailed.passage.marker.map(delivery_marker),
        email_disposition_notification_to: mail.disposition_notification_to.as_deref(),
        email_size: message.size,
        email_raw_url: raw_path(message.id),
        signed: None,
        authentication: Some(Authentication(mailed.authentication.as_deref())),
        findings: Some(mail.findings.iter().map(remark).collect()),
    }
}

fn automation(found: &automation::Automation) -> Automation<'_> {
    let (origin, may_auto_reply) = (found.origin.as_str(), found.may_auto_reply);
    Automation { origin, may_auto_reply, signs: &found.signs }
}

fn delivery_marker(marker: Marker) -> DeliveryMarker {
    DeliveryMarker { name: marker::FIELD, value: marker.to_string() }
}

fn remark(found: &finding::Finding) -> Finding<'_> {
    Finding {
        kind: &found.kind,
        detail: Some(&found.detail),
        field: &found.field,
        start: found.start,
        end: found.end,
        charset: found.charset.as_deref(),
    }
}

fn of_received<'m>(message: &'m Message, received: &'m Received) -> ReceivedMetadata<'m> {
    // Names that begin with `received` are ours: `receiveMessage` refuses them.
    let given = received.metadata.iter().filter(|(name, _)| *name != "threadId");
    ReceivedMetadata {
        thread_id: Id(message.thread.0),
        received_context: &received.context,
        received_thread_id: received.thread.as_deref(),
        received_outbound_message_webhook_url: received.outbound_url.as_deref(),
        received_size: message.size,
        received_raw_url: raw_path(message.id),
        given: given.map(|(name, value)| (name.as_str(), value)).collect(),
    }
}
