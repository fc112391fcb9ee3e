//! Every field is there, with the value that the contract names.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::domain::account::{AccountType, Lineage};
use crate::domain::address::Address;
use crate::domain::agent_outcome::AgentOutcome;
use crate::domain::automation::{Automation, Origin};
use crate::domain::clock::Timestamp;
use crate::domain::evidence::results::Results;
use crate::domain::id::{AccountId, ContactId, ThreadId};
use crate::domain::marker::Marker;
use crate::domain::message::{Attachment, Digest, Mail, Mailed, Passage};
use crate::domain::sender::Sender;
use crate::domain::source::Inbox;

/// The list in the contract, word for word.
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
        outcome: AgentOutcome::default(),
    }
}

fn record(message: &Message) -> Value {
    serde_json::to_value(MessageRecord::of(message)).unwrap()
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
    let record = record(&message());
    assert_eq!(keys(&record), sorted(FIELDS));
    assert_eq!(keys(&record).len(), 42);
    assert_eq!(keys(&record["metadata"]), sorted(METADATA));
    for name in [
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
    ] {
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
    let metadata = record(&message())["metadata"].clone();
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
    let metadata = record(&message)["metadata"].clone();
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
    let record = record(&message);
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
