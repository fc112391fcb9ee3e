//! The one durable transaction of a message: intake record, message, contact, events, deliveries,
//! all or nothing (contract §2.1, §2.2).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::addresses::{Standing, read_standing};
use super::db::{Store, Transaction, settled};
use super::error::StoreError;
use super::mail_row::MailRow;
use super::row::stored;
use super::sql::sql;
use super::{arrivals, contacts, deliveries, gates, intake_records};
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::event::{Event, announced};
use crate::domain::id::{AccountId, AttachmentId, ContactId, EventId, MessageId, Mint};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::{Digest, Mail};

/// What one transaction of SMTP comes to: one entry per recipient, committed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub intakes: Vec<Intake>,
    pub now: Timestamp,
}

/// The record of one verdict, and what is stored if it was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Intake {
    pub record: IntakeRecord,
    pub accepted: Option<Accepted>,
}

/// What an accepted message brings with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// What the decision rested on.
    pub standing: Standing,
    /// The address that the Agent must still answer to.
    pub address: Address,
    pub message: NewMessage,
    pub raw: Bytes,
    /// Any of these that arrived for the Agent before makes this the same message.
    pub arrival_keys: Vec<[u8; 32]>,
    /// Until when the keys are remembered.
    pub remembered_until: Timestamp,
}

/// A message before it has its contact.
#[derive(Clone, Debug, PartialEq)]
pub struct NewMessage {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub agent_username: String,
    pub organization: AccountId,
    pub at: Timestamp,
    /// Shared by all recipients; stored with attachment ids of its own.
    pub mail: Arc<Mail>,
    pub tag: Option<String>,
    pub digest: Digest,
    pub authentication: Value,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Durable. For each entry the earlier message that it is the same as, if it is.
    Done(Vec<Option<MessageId>>),
    /// A policy, an address or an account changed since the decision; nothing was written.
    Stale,
}

impl Store {
    /// Writes everything, or nothing.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        settled!(self.try_commit(commit))
    }

    async fn try_commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        let mut tx = self.begin().await?;
        let mut earlier = vec![None; commit.intakes.len()];
        for (place, intake) in in_order_of_locks(&commit.intakes) {
            let same_as = match &intake.accepted {
                None => None,
                Some(accepted) => {
                    if !still_stands(&mut tx, accepted).await? {
                        return Ok(Committed::Stale);
                    }
                    let same_as = arrivals::remember(&mut tx, accepted, commit.now).await?;
                    if same_as.is_none() {
                        self.store_message(&mut tx, accepted).await?;
                    }
                    same_as
                }
            };
            intake_records::insert(&mut tx, &intake.record, same_as).await?;
            if let Some(found) = earlier.get_mut(place) {
                *found = same_as;
            }
        }
        tx.commit().await?;
        Ok(Committed::Done(earlier))
    }

    async fn store_message(
        &self,
        tx: &mut Transaction,
        accepted: &Accepted,
    ) -> Result<(), StoreError> {
        let message = &accepted.message;
        let (contact, change) = contacts::greet(tx, message).await?;
        let first_of_room = is_new_room(tx, contact, message.agent).await?;
        insert_raw(tx, message.digest, &accepted.raw).await?;
        insert_message(tx, message, contact, accepted.raw.len(), self.mint()).await?;
        for name in announced(change, first_of_room) {
            let event = Event {
                id: EventId(self.mint().uuid()),
                name,
                at: message.at,
                lineage: message.lineage,
                message: Some(message.id),
                contact: Some(contact),
            };
            deliveries::announce(tx, &event, self.mint()).await?;
        }
        Ok(())
    }
}

/// The entries with their places, in one order for all transactions: two that have recipients in
/// common wait for each other's contacts in the same order, not in a circle.
fn in_order_of_locks(intakes: &[Intake]) -> Vec<(usize, &Intake)> {
    let mut entries: Vec<_> = intakes.iter().enumerate().collect();
    entries.sort_by_key(|(_, intake)| {
        let message = intake.accepted.as_ref().map(|accepted| &accepted.message);
        message.map(|message| (message.organization, message.agent))
    });
    entries
}

async fn still_stands(tx: &mut Transaction, accepted: &Accepted) -> Result<bool, StoreError> {
    let message = &accepted.message;
    let sender = &message.mail.from.address;
    gates::pass(tx, &message.lineage, message.agent, &accepted.address).await?;
    let now = read_standing(tx.on(), message.agent, &accepted.address, sender).await?;
    Ok(now == Some(accepted.standing))
}

/// The contact is locked, so nobody else begins the same conversation at this moment.
async fn is_new_room(
    tx: &mut Transaction,
    contact: ContactId,
    agent: AccountId,
) -> Result<bool, StoreError> {
    let known = sql("SELECT id FROM messages WHERE contact_id = $1 AND agent_id = $2 LIMIT 1")
        .bind(contact.get())
        .bind(agent)
        .fetch_optional(tx.on())
        .await?;
    Ok(known.is_none())
}

/// The same bytes for several recipients are kept once. Asked first, because handing the bytes to
/// the database copies them: 100 recipients of 50 MiB would hold everybody else up for seconds.
async fn insert_raw(tx: &mut Transaction, digest: Digest, raw: &Bytes) -> Result<(), StoreError> {
    let kept = sql("SELECT digest FROM raw_messages WHERE digest = $1")
        // What is there stays there until its message is: retention waits for nobody.
        .locking("FOR KEY SHARE")
        .bind(digest.0.as_slice())
        .fetch_optional(tx.on())
        .await?;
    if kept.is_some() {
        return Ok(());
    }
    // Somebody beside us may be storing the same bytes for another Agent.
    sql("INSERT INTO raw_messages (digest, bytes) VALUES ($1, $2) ON CONFLICT (digest) DO NOTHING")
        .bind(digest.0.as_slice())
        .bind(raw.as_ref())
        .execute(tx.on())
        .await?;
    Ok(())
}

async fn insert_message(
    tx: &mut Transaction,
    message: &NewMessage,
    contact: ContactId,
    size: usize,
    mint: &Mint,
) -> Result<(), StoreError> {
    let mail = with_own_attachment_ids(&message.mail, mint);
    let corrupt = |error: serde_json::Error| StoreError::Corrupt {
        table: "messages",
        detail: error.to_string(),
    };
    sql("INSERT INTO messages (id, partner_id, reseller_id, organization_id, agent_id,
                               agent_username, contact_id, at, sender, tag, size, digest, mail,
                               authentication)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)")
    .bind(message.id.0)
    .bind(message.lineage.partner)
    .bind(message.lineage.reseller)
    .bind(message.lineage.organization)
    .bind(message.agent.get())
    .bind(message.agent_username.clone())
    .bind(contact.get())
    .bind(message.at.millis())
    .bind(mail.from.address.to_string())
    .bind(message.tag.clone())
    .bind(stored(u64::try_from(size).unwrap_or(u64::MAX)))
    .bind(message.digest.0.as_slice())
    .bind(serde_json::to_string(&MailRow::from(&mail)).map_err(corrupt)?)
    .bind(message.authentication.to_string())
    .execute(tx.on())
    .await?;
    for attachment in &mail.attachments {
        sql("INSERT INTO attachments (id, message_id, part) VALUES ($1, $2, $3)")
            .bind(attachment.id.0)
            .bind(message.id.0)
            .bind(i64::from(attachment.part))
            .execute(tx.on())
            .await?;
    }
    Ok(())
}

/// Each recipient's message has attachments of its own, so that erasing one leaves the others.
fn with_own_attachment_ids(mail: &Mail, mint: &Mint) -> Mail {
    let mut mail = mail.clone();
    for attachment in &mut mail.attachments {
        let id = AttachmentId(mint.uuid());
        if mail.html == Some(attachment.id) {
            mail.html = Some(id);
        }
        attachment.id = id;
    }
    mail
}
