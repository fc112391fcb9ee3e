//! The Message record: how a message looks to readers of the API and to receivers of events.
//!
//! `http` and `webhook` both show it, so its wire shape has this one place (contract §3): the 41
//! fields of the interface's record and `metadata`, always all of them.

use serde_json::{Map, Value, json};

use super::links::Links;
use crate::domain::automation::Automation;
use crate::domain::id::MessageId;
use crate::domain::marker::{self, Marker};
use crate::domain::message::{Attachment, Content, Linked, Mailed, Message, Received};
use crate::domain::source::Source;

/// Fields of the interface's record that belong to calls, texts and campaigns: mail has no value
/// for them.
const WITHOUT_VALUE: [&str; 12] = [
    "disposition-notification",
    "aiLeadRating",
    "aiLeadRatingReason",
    "aiAgentOverride",
    "fromNumber",
    "toNumber",
    "duration",
    "agentOutcome",
    "summary",
    "callDialog",
    "diversion",
    "voicemailRecording",
];

const YES: [&str; 3] = ["notify", "aiAgent", "callingUserIsContact"];
const NO: [&str; 7] =
    ["isLive", "missedCall", "bypassAgent", "cnamSpam", "selfCall", "campaign", "forcedCampaign"];

/// The record of a stored message: an object of 42 keys.
pub fn message_record(message: &Message) -> Map<String, Value> {
    let constants = WITHOUT_VALUE
        .map(|name| (name, Value::Null))
        .into_iter()
        .chain(YES.map(|name| (name, Value::Bool(true))))
        .chain(NO.map(|name| (name, Value::Bool(false))));
    let mut record: Map<String, Value> =
        constants.map(|(name, value)| (name.to_owned(), value)).collect();
    let own = match &message.content {
        Content::Mail(mailed) => of_mail(message, mailed),
        Content::Received(received) => of_received(message, received),
    };
    for fields in [of_both(message), own] {
        if let Value::Object(fields) = fields {
            record.extend(fields);
        }
    }
    record
}

fn of_both(message: &Message) -> Value {
    let source = message.source();
    json!({
        "from": message.contact.get(),
        "fromUser": message.from_name().map_or_else(|| message.from().address(), str::to_owned),
        "to": message.agent.get(),
        "toUser": message.agent_username,
        "timestamp": message.at.seconds(),
        "date": message.at.to_string(),
        "message": message.text(),
        "content-type": "text/plain",
        "roomId": message.room().to_string(),
        "status": if message.unreadable { "unreadable" } else { "success" },
        "source": source.as_str(),
        "uuid": message.id.to_string(),
        "targetInbox": message.inbox.as_str(),
        "type": source.as_str(),
        "direction": "inbound",
        "chatDialog": [{ "role": "user", "content": message.text() }],
        "agentReplyCount": 0,
        "eventType": format!("inbound-{source}"),
    })
}

fn of_mail(message: &Message, mailed: &Mailed) -> Value {
    let listed = mailed.mail.attachments.iter().filter(|part| part.listed);
    json!({
        "attachments": listed.map(|part| attachment(message, part)).collect::<Vec<_>>(),
        "metadata": metadata(message, mailed),
    })
}

/// What a platform handed in: its word, as it gave it.
fn of_received(message: &Message, received: &Received) -> Value {
    let (call, source) = (&received.call, message.source());
    let number = matches!(source, Source::Sms | Source::Call).then(|| received.handle.address());
    let said = json!([{ "role": "user", "content": received.text }]);
    let chat = received.chat_dialog.clone().unwrap_or(said);
    json!({
        "fromNumber": number,
        "toNumber": received.to,
        "duration": call.duration,
        "missedCall": call.missed,
        "cnamSpam": call.cnam_spam,
        "callDialog": call.dialog,
        "chatDialog": (source != Source::Call).then_some(chat),
        "voicemailRecording": call.recording,
        "diversion": call.diversion,
        "summary": call.summary,
        "agentOutcome": call.outcome,
        "attachments": received.attachments.iter().map(linked).collect::<Vec<_>>(),
        "metadata": metadata_of_received(message, received),
    })
}

/// What the platform gave, and of ours what it did not: names that begin with `received` are ours.
fn metadata_of_received(message: &Message, received: &Received) -> Value {
    let mut metadata = received.metadata.clone();
    let ours = [
        ("threadId", json!(message.thread.to_string())),
        ("receivedContext", json!(received.context)),
        ("receivedThreadId", json!(received.thread)),
        ("receivedOutboundMessageWebhookUrl", json!(received.outbound_url)),
        ("receivedSize", json!(message.size)),
        ("receivedRawUrl", json!(format!("/api/v2/messages/{}/raw", message.id))),
    ];
    metadata.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    Value::Object(metadata)
}

/// It lies elsewhere, and nobody here has looked at it.
fn linked(one: &Linked) -> Value {
    let path = one.url.split(['?', '#']).next().unwrap_or_default();
    let name =
        path.rsplit('/').next().filter(|name| !name.is_empty() && path.matches('/').count() > 2);
    let kind = if one.kind.contains('/') { one.kind.as_str() } else { "application/octet-stream" };
    json!({
        "content-type": kind,
        "filename": name.unwrap_or("attachment"),
        "content-url": one.url,
        "attachmentType": one.kind,
    })
}

/// Header fields that the message does not have are null, lists too.
fn metadata(message: &Message, mailed: &Mailed) -> Value {
    let mail = &mailed.mail;
    let list = |items: &[String]| (!items.is_empty()).then(|| items.to_vec());
    json!({
        "threadId": message.thread.to_string(),
        "emailSubject": mail.subject,
        // The proven mailbox alone: what a display name claims is in `fromUser`.
        "emailFrom": mail.from.address.to_string(),
        "emailTo": list(&mail.to),
        "emailCc": list(&mail.cc),
        "emailReplyTo": list(&mail.reply_to),
        "emailMessageId": mail.message_id,
        "emailInReplyTo": list(&mail.in_reply_to),
        "emailReferences": list(&mail.references),
        "emailHtml": mail.html().map(|part| media_path(message.id, part)),
        "emailStrippedText": mail.stripped_text,
        "emailTag": mailed.tag,
        "emailAutoSubmitted": mail.auto_submitted,
        "emailAutomation": mailed.passage.automation.as_ref().map(automation),
        "emailDeliveryMarker": mailed.passage.marker.map(delivery_marker),
        "emailDispositionNotificationTo": mail.disposition_notification_to,
        "emailSize": message.size,
        "emailRawUrl": raw_path(message.id),
        "authentication": mailed.authentication.as_ref().map_or(json!({}), |found| json!(found)),
        "findings": mail.findings,
    })
}

/// So that an Agent answers no machine (RFC 3834 §2).
fn automation(found: &Automation) -> Value {
    json!({
        "origin": found.origin.as_str(),
        "mayAutoReply": found.may_auto_reply,
        "signs": found.signs,
    })
}

/// The header field that whoever sends the message on for the Agent adds, to be known again.
fn delivery_marker(marker: Marker) -> Value {
    json!({ "name": marker::FIELD, "value": marker.to_string() })
}

fn attachment(message: &Message, part: &Attachment) -> Value {
    json!({
        "content-type": part.content_type,
        "filename": part.filename,
        "content-url": media_path(message.id, part),
        "attachmentType": "email",
    })
}

/// Relative, so that it works with the reader's own base address and token. The message and the
/// number find the part; the file name is for people, and proves that it is the part they mean.
pub(super) fn media_path(message: MessageId, part: &Attachment) -> String {
    format!("/api/v2/media/{message}/{}-{}", part.part, path_segment(&part.filename))
}

/// Where the original is read; relative, too.
pub(super) fn raw_path(message: MessageId) -> String {
    format!("/api/v2/messages/{message}/raw")
}

/// Adds to the record of a stored message, as events show it, links that need no key.
pub fn add_links(record: &mut Map<String, Value>, message: &Message, links: &Links) {
    let Some(mail) = message.mailed().map(|mailed| &mailed.mail) else { return };
    let expires = links.expiry();
    let shown = record.get_mut("attachments").and_then(Value::as_array_mut);
    let listed = mail.attachments.iter().filter(|part| part.listed);
    for (shown, part) in shown.into_iter().flatten().zip(listed) {
        if let Value::Object(shown) = shown {
            shown.insert("signed-url".to_owned(), links.part(message.id, part, expires).into());
        }
    }
    if let Some(Value::Object(metadata)) = record.get_mut("metadata") {
        let html = mail.html().map(|part| links.part(message.id, part, expires));
        metadata.insert("emailHtmlSignedUrl".to_owned(), html.into());
        metadata.insert("emailRawSignedUrl".to_owned(), links.raw(message.id, expires).into());
        metadata.insert("signedUrlsExpire".to_owned(), expires.to_string().into());
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::account::{AccountType, Lineage};
    use crate::domain::address::Address;
    use crate::domain::automation::Origin;
    use crate::domain::clock::Timestamp;
    use crate::domain::evidence::results::Results;
    use crate::domain::id::{AccountId, ContactId, ThreadId};
    use crate::domain::message::{Digest, Mail, Passage};
    use crate::domain::sender::Sender;
    use crate::domain::source::Inbox;

    /// The contract's list, as it stands there.
    const FIELDS: &str = "from, fromUser, to, toUser, timestamp, date, message, content-type, \
        disposition-notification, roomId, status, attachments, isLive, aiAgent, aiLeadRating, \
        aiLeadRatingReason, aiAgentOverride, source, uuid, fromNumber, toNumber, notify, \
        targetInbox, type, duration, direction, missedCall, bypassAgent, cnamSpam, selfCall, \
        callingUserIsContact, agentOutcome, summary, callDialog, chatDialog, agentReplyCount, \
        campaign, diversion, voicemailRecording, eventType, forcedCampaign, metadata";

    const METADATA: &str = "emailSubject, emailFrom, emailTo, emailCc, emailReplyTo, \
        emailMessageId, emailInReplyTo, emailReferences, emailHtml, emailStrippedText, emailTag, \
        emailAutoSubmitted, emailAutomation, emailDeliveryMarker, \
        emailDispositionNotificationTo, emailSize, emailRawUrl, authentication, findings, threadId";

    fn part(part: u32, filename: &str, listed: bool) -> Attachment {
        Attachment {
            part,
            content_type: "image/png".into(),
            filename: filename.into(),
            size: 3,
            listed,
        }
    }

    fn message() -> Message {
        let agent = AccountId::new(878_589).unwrap();
        let mail = Mail {
            text: "Hello".into(),
            stripped_text: "Hello".into(),
            ..Mail::of(Sender { address: Address::parse("boss@good.example").unwrap(), name: None })
        };
        Message {
            id: MessageId(uuid::Uuid::from_u128(1)),
            lineage: Lineage::default().with(AccountType::Agent, agent),
            agent,
            agent_username: "support2".into(),
            contact: ContactId::new(1).unwrap(),
            at: Timestamp::from_millis(1_718_463_395_123),
            thread: ThreadId(uuid::Uuid::from_u128(1)),
            inbox: Inbox::Priority,
            session: None,
            size: 512,
            raw: Digest([0; 32]),
            unreadable: false,
            content: Content::Mail(Box::new(Mailed {
                mail,
                tag: None,
                authentication: Some(Arc::new(Results {
                    aligned_domain: Some("good.example".into()),
                    ..Results::default()
                })),
                passage: Passage::default(),
            })),
        }
    }

    fn keys(object: &Value) -> Vec<&str> {
        object.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn sorted(list: &str) -> Vec<&str> {
        let mut names: Vec<_> = list.split(", ").collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_field_is_there_with_its_constant_or_null() {
        let record = Value::Object(message_record(&message()));
        assert_eq!(keys(&record), sorted(FIELDS));
        assert_eq!(keys(&record).len(), 42);
        assert_eq!(keys(&record["metadata"]), sorted(METADATA));
        for name in WITHOUT_VALUE {
            assert_eq!(record[name], Value::Null, "{name}");
        }
        for (name, expected) in [
            ("from", json!(1)),
            ("fromUser", json!("boss@good.example")),
            ("to", json!(878_589)),
            ("toUser", json!("support2")),
            ("timestamp", json!(1_718_463_395)),
            ("date", json!("2024-06-15T14:56:35.123Z")),
            ("message", json!("Hello")),
            ("content-type", json!("text/plain")),
            ("roomId", json!("1:878589")),
            ("status", json!("success")),
            ("attachments", json!([])),
            ("isLive", json!(false)),
            ("aiAgent", json!(true)),
            ("source", json!("email")),
            ("uuid", json!("00000000-0000-0000-0000-000000000001")),
            ("notify", json!(true)),
            ("targetInbox", json!("inbox")),
            ("type", json!("email")),
            ("direction", json!("inbound")),
            ("missedCall", json!(false)),
            ("bypassAgent", json!(false)),
            ("cnamSpam", json!(false)),
            ("selfCall", json!(false)),
            ("callingUserIsContact", json!(true)),
            ("chatDialog", json!([{ "role": "user", "content": "Hello" }])),
            ("agentReplyCount", json!(0)),
            ("campaign", json!(false)),
            ("eventType", json!("inbound-email")),
            ("forcedCampaign", json!(false)),
        ] {
            assert_eq!(record[name], expected, "{name}");
        }
    }

    #[test]
    fn metadata_is_null_where_the_message_has_no_such_field() {
        let metadata = Value::Object(message_record(&message()))["metadata"].clone();
        let present: Vec<_> =
            keys(&metadata).into_iter().filter(|name| !metadata[*name].is_null()).collect();
        let expected = [
            "authentication",
            "emailFrom",
            "emailRawUrl",
            "emailSize",
            "emailStrippedText",
            "findings",
            "threadId",
        ];
        assert_eq!(present, expected);
        let raw = "/api/v2/messages/00000000-0000-0000-0000-000000000001/raw";
        assert_eq!(metadata["emailRawUrl"], raw);
    }

    #[test]
    fn who_sends_it_on_and_who_answers_it_are_told_how() {
        let mut message = message();
        let signs = vec!["List-Id".to_owned()];
        let automation = Automation { origin: Origin::List, may_auto_reply: false, signs };
        let marker = Marker::read(&[b'a'; 32]);
        message.mailed_mut().passage = Passage { marker, automation: Some(automation) };
        let metadata = Value::Object(message_record(&message))["metadata"].clone();
        let automation = json!({ "origin": "list", "mayAutoReply": false, "signs": ["List-Id"] });
        assert_eq!(metadata["emailAutomation"], automation);
        let marker = json!({ "name": "X-Gatepost-Delivered", "value": "a".repeat(32) });
        assert_eq!(metadata["emailDeliveryMarker"], marker);
    }

    #[test]
    fn parts_are_linked_by_number_and_encoded_name() {
        let mut message = message();
        message.mailed_mut().mail.from.name = Some("The Boss".into());
        message.mailed_mut().mail.cc = vec!["Anna <anna@good.example>".into()];
        message.mailed_mut().mail.attachments =
            vec![part(2, "a b.html", false), part(3, "grüße/?#%.png", true), part(4, "..", true)];
        let record = Value::Object(message_record(&message));
        assert_eq!(record["fromUser"], "The Boss");
        let media = |part: u32, name: &str| {
            format!("/api/v2/media/00000000-0000-0000-0000-000000000001/{part}-{name}")
        };
        let metadata = &record["metadata"];
        assert_eq!(metadata["emailHtml"], media(2, "a%20b.html"));
        assert_eq!(metadata["emailCc"], json!(["Anna <anna@good.example>"]));
        assert_eq!(metadata["emailFrom"], "boss@good.example");
        assert_eq!(
            record["attachments"],
            json!([
                {
                    "content-type": "image/png",
                    "filename": "grüße/?#%.png",
                    "content-url": media(3, "gr%C3%BC%C3%9Fe%2F%3F%23%25.png"),
                    "attachmentType": "email",
                },
                {
                    "content-type": "image/png",
                    "filename": "..",
                    "content-url": media(4, ".."),
                    "attachmentType": "email",
                },
            ])
        );
    }
}
