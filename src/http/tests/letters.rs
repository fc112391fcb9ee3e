//! Mail and its records, for tests that put them into the store.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::House;
use crate::domain::account::Account;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::id::{IntakeId, MessageId, Mint};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::marker::Marker;
use crate::domain::message::{Attachment, Digest, Mail, Passage};
use crate::domain::room::Room;
use crate::domain::scope::Scope;
use crate::domain::sender::Sender;
use crate::domain::session::SessionKey;
use crate::domain::source::Source;
use crate::domain::thread::ThreadKeys;
use crate::domain::verdict::Verdict;
use crate::store::{Accepted, Commit, Committed, Intake, NewMessage};

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

impl House {
    /// Puts an accepted message into an Agent's mailbox; `part` is the number of its attachment.
    pub(crate) async fn receive(&self, agent: &str, raw: &str, part: u32) -> Received {
        let account = self.residents[agent].account.clone();
        let address = Address::parse(&format!("{agent}@partner.example")).unwrap();
        let sender = Address::parse("boss@good.example").unwrap();
        self.deliver(&account, (sender, address), raw, part).await
    }

    pub(super) async fn deliver(
        &self,
        account: &Account,
        (sender, address): (Address, Address),
        raw: &str,
        part: u32,
    ) -> Received {
        let standing = self.store.standing(account.id, &address, &sender).await.unwrap().unwrap();
        let now = self.mint.clock().now();
        let message = self.mint.message();
        let mut record = record(&self.mint, account, Verdict::Accepted, Some(message));
        record.sender = Some(Handle::Mailbox(sender.clone()));
        let accepted = Accepted {
            standing,
            address,
            message: NewMessage {
                id: message,
                lineage: account.lineage,
                agent: account.id,
                agent_username: account.username.clone(),
                organization: account.lineage.organization.unwrap(),
                at: record.at,
                mail: mail(sender, raw, part).into(),
                thread: ThreadKeys::default(),
                tag: None,
                digest: self.digest(raw),
                authentication: None,
                passage: Passage {
                    marker: Marker::read(b"0123456789abcdef0123456789abcdef"),
                    automation: None,
                },
            },
            raw: Bytes::from(raw.to_owned()),
            arrival_keys: vec![self.mint.secret()],
            remembered_until: now.plus(Duration::from_secs(60)),
        };
        let intake = record.id;
        self.commit(Intake { record, accepted: Some(accepted) }).await;
        let scope = Scope::subtree(account.id, account.kind);
        let stored = self.store.messages(&scope, &[message]).await.unwrap().remove(0);
        let session = stored.session_key().expect("each message comes in a session");
        Received { message, intake, room: stored.room(), session }
    }

    /// A random digest for a small message, which is kept in its row; the true one for a large
    /// message, which reading compares with it.
    fn digest(&self, raw: &str) -> Digest {
        let sha256 = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, raw.as_bytes());
        let is_small = raw.len() < 100_000;
        Digest(if is_small { self.mint.secret() } else { sha256.as_ref().try_into().unwrap() })
    }

    /// Stores the record of mail that was not accepted.
    pub(crate) async fn refuse(&self, owner: &str, verdict: Verdict) -> IntakeId {
        self.refuse_at(owner, verdict, self.now()).await
    }

    /// Stores such a record of an earlier time.
    pub(crate) async fn refuse_at(&self, owner: &str, verdict: Verdict, at: Timestamp) -> IntakeId {
        let made = record(&self.mint, &self.residents[owner].account, verdict, None);
        let record = IntakeRecord { at, ..made };
        let id = record.id;
        self.commit(Intake { record, accepted: None }).await;
        id
    }

    pub(super) async fn commit(&self, intake: Intake) {
        let commit = Commit { intakes: vec![intake], now: self.mint.clock().now() };
        assert_eq!(self.store.commit(&commit).await.unwrap(), Committed::Done(vec![None]));
    }
}

/// The rows of a received message.
pub(crate) struct Received {
    pub(crate) message: MessageId,
    pub(crate) intake: IntakeId,
    pub(crate) room: Room,
    pub(crate) session: SessionKey,
}
