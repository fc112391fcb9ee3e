//! Sample values for the tests of this room.

use std::time::Duration;

use serde_json::json;
use url::Url;
use uuid::Uuid;

use crate::app::mailbox::links::Links;
use crate::domain::account::{AccountType, Lineage};
use crate::domain::address::Address;
use crate::domain::agent_outcome::AgentOutcome;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::contact::{Contact, Handle};
use crate::domain::delivery::{Claim, Subject};
use crate::domain::destination::{Destination, Health, Wants};
use crate::domain::event::{Event, EventName};
use crate::domain::id::{
    AccountId, ContactId, DeliveryId, DestinationId, EventId, MessageId, SessionId, ThreadId,
};
use crate::domain::message::{
    Call, Content, Digest, Flags, Linked, Mail, Mailed, Message, Passage, Received,
};
use crate::domain::secret::Secret;
use crate::domain::sender::Sender;
use crate::domain::source::{Inbox, Source};

const AT: Timestamp = Timestamp::from_millis(1_718_463_395_123);

/// Links that are valid for a day from the time of all samples.
pub(crate) fn links() -> Links {
    let day = Duration::from_secs(86_400);
    Links::signing(Secret::new([5; 32]), Clock::new(|| AT), day)
}

fn account(id: i64) -> AccountId {
    AccountId::new(id).unwrap()
}

fn lineage() -> Lineage {
    Lineage::default()
        .with(AccountType::Partner, account(1))
        .with(AccountType::Reseller, account(2))
        .with(AccountType::Organization, account(3))
        .with(AccountType::Agent, account(7))
}

fn boss() -> Address {
    Address::parse("boss@good.example").unwrap()
}

pub(crate) fn contact() -> Contact {
    Contact {
        id: ContactId::new(41).unwrap(),
        organization: account(3),
        handle: Handle::Mailbox(boss()),
        name: Some("The Boss".into()),
        first_seen: Timestamp::from_millis(0),
        last_seen: AT,
    }
}

pub(crate) fn message(text: &str) -> Message {
    Message {
        id: MessageId(Uuid::from_u128(0xaa)),
        lineage: lineage(),
        agent: account(7),
        agent_username: "support".into(),
        contact: contact().id,
        at: AT,
        thread: ThreadId(Uuid::from_u128(0xaa)),
        inbox: Inbox::Priority,
        session: Some(SessionId(Uuid::from_u128(0xcc))),
        size: 512,
        raw: Digest([0; 32]),
        unreadable: false,
        content: Content::Mail(Box::new(mailed(text))),
        outcome: AgentOutcome::default(),
    }
}

/// A call that left a message, with every optional field set.
pub(crate) fn received() -> Message {
    let turns = |text: &str| json!([{ "role": "assistant", "content": "Hello" }, { "role": "user", "content": text }]);
    let object = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
    let received = Received {
        handle: Handle::elsewhere(Some(Source::Call), "+15551231234").unwrap(),
        name: Some("Anna".into()),
        text: "Call me back".into(),
        to: Some("+15559876543".into()),
        thread: Some("abc123".into()),
        attachments: vec![Linked {
            kind: "audio/mp3".into(),
            url: "https://platform.example/media/recording.mp3".into(),
        }],
        context: object(json!({ "threadId": "abc123" })),
        metadata: object(json!({ "key": "value" })),
        outbound_url: Some("https://platform.example/hook".into()),
        chat_dialog: None,
        call: Call {
            duration: Some(9),
            missed: true,
            cnam_spam: false,
            dialog: Some(turns("Call me back")),
            recording: Some("https://platform.example/media/recording.mp3".into()),
            diversion: Some("+15550001111".into()),
            summary: Some("Wants to be called back.".into()),
            outcome: Some("voicemail".into()),
        },
        flags: Flags::default(),
        lead_rating: Some(70),
        lead_rating_reason: Some("asked for an offer".into()),
    };
    let (outcome, content) = (received.outcome(), Content::Received(Box::new(received)));
    Message { content, outcome, ..message("") }
}

fn mailed(text: &str) -> Mailed {
    Mailed {
        mail: Mail {
            from: Sender { address: boss(), name: Some("The Boss".into()) },
            text: text.into(),
            subject: Some("Hi".into()),
            to: vec!["support@agents.example".into()],
            cc: vec![],
            reply_to: vec![],
            message_id: Some("1@good.example".into()),
            in_reply_to: vec![],
            references: vec![],
            stripped_text: text.into(),
            auto_submitted: None,
            disposition_notification_to: None,
            attachments: vec![],
            findings: Vec::new(),
        },
        tag: None,
        authentication: None,
        passage: Passage::default(),
    }
}

pub(crate) fn event(name: EventName, id: u128) -> Event {
    Event {
        id: EventId(Uuid::from_u128(id)),
        name,
        at: AT,
        lineage: lineage(),
        message: Some(MessageId(Uuid::from_u128(0xaa))),
        contact: Some(contact().id),
        told: None,
    }
}

pub(crate) fn destination(id: u128, url: &str) -> Destination {
    let name = EventName::EmailReceived;
    Destination {
        id: DestinationId(Uuid::from_u128(id)),
        account: account(3),
        url: Url::parse(url).unwrap(),
        category: name.category(),
        label: "test".into(),
        wants: Wants::default(),
        secret: Secret::new([9; 32]),
        secret_rotated_at: None,
        former_secrets: Vec::new(),
        disabled: None,
        health: Health::default(),
        created_at: AT,
    }
}

/// A claim of event number `id` for this destination, not yet attempted.
pub(crate) fn claim(id: u128, destination: &Destination) -> Claim {
    Claim {
        delivery: DeliveryId(Uuid::from_u128(id)),
        attempts: 0,
        fence: 0,
        destination: destination.clone(),
        event: event(EventName::EmailReceived, id),
        subject: Subject::Message(Box::new(message("Hello"))),
    }
}
