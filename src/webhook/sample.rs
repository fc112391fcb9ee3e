//! Nouns for the tests of this room.

use std::time::Duration;

use serde_json::json;
use url::Url;
use uuid::Uuid;

use crate::app::mailbox::links::Links;
use crate::domain::account::{AccountType, Lineage};
use crate::domain::address::Address;
use crate::domain::clock::{Clock, Timestamp};
use crate::domain::contact::{Contact, Handle};
use crate::domain::delivery::{Claim, Subject};
use crate::domain::destination::{Destination, Health, Wants};
use crate::domain::event::{Event, EventName};
use crate::domain::id::{
    AccountId, ContactId, DeliveryId, DestinationId, EventId, MessageId, ThreadId,
};
use crate::domain::message::{Content, Digest, Mail, Mailed, Message, Passage};
use crate::domain::secret::Secret;
use crate::domain::sender::Sender;
use crate::domain::source::Inbox;

const AT: Timestamp = Timestamp::from_millis(1_718_463_395_123);

/// Good for a day from the moment of all that is here.
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
        size: 512,
        raw: Digest([0; 32]),
        content: Content::Mail(Box::new(mailed(text))),
    }
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
            findings: json!([]),
        },
        tag: None,
        authentication: json!({}),
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

/// Event number `id` for this destination, not yet attempted.
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
