//! Mail and its records, for tests that put them into the store.

use serde_json::json;

use crate::domain::account::Account;
use crate::domain::address::Address;
use crate::domain::contact::Handle;
use crate::domain::id::{IntakeId, MessageId, Mint};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::{Attachment, Mail};
use crate::domain::sender::Sender;
use crate::domain::source::Source;
use crate::domain::verdict::Verdict;

pub(super) fn mail(sender: Address, raw: &str, part: u32) -> Mail {
    let text = raw.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
    Mail {
        from: Sender { address: sender, name: Some("The Boss".into()) },
        stripped_text: text.clone(),
        text,
        subject: Some("Hello".into()),
        to: vec![],
        cc: vec![],
        reply_to: vec![],
        message_id: None,
        in_reply_to: vec![],
        references: vec![],
        auto_submitted: None,
        disposition_notification_to: None,
        attachments: vec![Attachment {
            part,
            content_type: "image/png".into(),
            filename: "a.png".into(),
            size: 3,
            listed: true,
        }],
        findings: Vec::new(),
    }
}

/// A message of a hundred bytes, the size in the records of refused mail.
pub(super) fn letter() -> String {
    format!("From: a\r\n\r\n{:89}", "hello")
}

pub(super) fn record(
    mint: &Mint,
    owner: &Account,
    verdict: Verdict,
    message: Option<MessageId>,
) -> IntakeRecord {
    IntakeRecord {
        id: IntakeId(message.map_or_else(|| mint.uuid(), |message| message.0)),
        at: mint.clock().now(),
        source: Source::Email,
        lineage: owner.lineage,
        agent: owner.lineage.agent,
        recipient: format!("{}@partner.example", owner.name),
        sender: Some(Handle::Mailbox(Address::parse("boss@good.example").unwrap())),
        envelope_from: "bounce@good.example".into(),
        remote_address: "192.0.2.7".parse().unwrap(),
        helo: "mx.good.example".into(),
        verdict,
        explanation: "because".into(),
        message,
        size: 100,
        digest: None,
        headers: b"From: boss@good.example\r\n".to_vec(),
        evidence: serde_json::from_value(
            json!([{ "name": "scan", "result": "pass", "inputs": {} }]),
        )
        .unwrap(),
        count: 1,
        took: None,
    }
}
