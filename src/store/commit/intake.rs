//! The one durable transaction of a message: intake record, message, contact, events, deliveries,
//! all or nothing (contract §2.1, §2.2).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::batch::{Entered, Written};
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::clock::Timestamp;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::domain::message::{Digest, Mail, Passage};
use crate::domain::thread::ThreadKeys;
use crate::store::db::{Store, TRIES};
use crate::store::engine::error::StoreError;
use crate::store::mailbox::contents::Kept;
use crate::store::mailbox::entry::Ready;
use crate::store::tenancy::addresses::Standing;

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
    /// Shared by all recipients.
    pub mail: Arc<Mail>,
    /// By which it finds its thread.
    pub thread: ThreadKeys,
    pub tag: Option<String>,
    pub digest: Digest,
    pub authentication: Value,
    pub passage: Passage,
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
    /// Writes everything, or nothing; together with others that wait.
    pub async fn commit(&self, commit: &Commit) -> Result<Committed, StoreError> {
        let mut kept = Kept::default();
        let apart = |raw: &Bytes| self.blobs().is_some_and(|blobs| blobs.takes(raw));
        for _ in 0..TRIES {
            for accepted in commit.intakes.iter().filter_map(|intake| intake.accepted.as_ref()) {
                self.keep_raw(accepted.message.digest, &accepted.raw, &mut kept).await?;
            }
            match self.intakes.ask(Ready::new(commit, &kept, apart)?).await? {
                Written::Done(entered) => {
                    let earlier = entered.into_iter().map(|entered| match entered {
                        Entered::Again(earlier) => Some(earlier),
                        Entered::Recorded | Entered::Stored(_) => None,
                    });
                    return Ok(Committed::Done(earlier.collect()));
                }
                Written::Stale => return Ok(Committed::Stale),
                Written::Repeated => return Err(StoreError::Repeated),
                Written::Unkept => {}
            }
        }
        Err(StoreError::Conflict(Arc::new(sqlx::Error::RowNotFound)))
    }
}
