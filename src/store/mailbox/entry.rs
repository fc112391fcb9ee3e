//! What came in, as it is written: the record of one recipient, and its message. Made ready by
//! whoever commits (`commit/ready.rs`).

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::packed::Packed;
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::domain::contact::Handle;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::message::{Digest, Mail};
use crate::domain::source::Inbox;
use crate::domain::thread::ThreadKeys;
use crate::store::base::unindexed::UnindexedMail;
use crate::store::engine::sql::Value;
use crate::store::tenancy::addresses::{Addressed, Question};

/// One recipient's record, and its message if it was accepted.
pub struct Entry {
    pub record: Arc<RecordColumns>,
    pub count: u64,
    pub message: Option<MessageId>,
    pub arrived: Option<Arrived>,
}

/// The columns of a record (`intake_records.rs`), but for its count and its message.
pub struct RecordColumns {
    /// Columns that the row of a message has, too.
    pub shared: Vec<Value>,
    /// Columns of the record alone; the row of a message keeps them for it.
    pub own: Vec<Value>,
    /// The reason in words, which a repeat has of its own.
    pub explanation: String,
}

impl RecordColumns {
    /// Approximate bytes sent to the database.
    pub(in crate::store) fn octets(&self) -> usize {
        let values = self.shared.iter().chain(&self.own).map(Value::octets);
        values.sum::<usize>() + self.explanation.len()
    }
}

/// An accepted message on its way in.
pub struct Arrived {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub organization: AccountId,
    pub at: Timestamp,
    pub handle: Handle,
    pub name: Option<String>,
    /// Of mail. What a platform hands in asks only that its Agent is active.
    pub decided: Option<Decided>,
    /// The request that may be carried out once, and whoever does so.
    pub once: Option<(Once, Uuid)>,
    /// Sorted, each once.
    pub keys: Vec<[u8; 32]>,
    pub thread: ThreadKeys,
    pub inbox: Inbox,
    /// How its text begins.
    pub preview: String,
    /// The mail, for the index of search; `None` for a message that a platform handed in, which is read back
    /// from its content.
    pub mail: Option<Arc<Mail>>,
    pub remembered_until: Timestamp,
    pub digest: Digest,
    /// The contents that it has: those of the first message of its transaction in its organization.
    pub content_id: MessageId,
    pub place: OriginalPlace,
    /// What is kept of the raw bytes: once for all recipients.
    pub content: Arc<Packed>,
    /// The message's columns, but for its contact, its thread, its session and its inbox, and those
    /// of its record.
    pub columns: Vec<Value>,
    pub record: Arc<RecordColumns>,
}

/// Where the raw bytes of a message belong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OriginalPlace {
    #[default]
    Row,
    /// Into the blob store, where a row names them already.
    Named,
    /// Into the blob store, where they were put under this name.
    Put(String),
}

impl OriginalPlace {
    /// The part of the raw bytes that belongs into the row: all, or nothing.
    pub(in crate::store) fn here<'r>(&self, raw: &'r Bytes) -> &'r Bytes {
        static NOTHING: Bytes = Bytes::new();
        if *self == Self::Row { raw } else { &NOTHING }
    }
}

/// The terms on which mail was admitted.
pub struct Decided {
    pub sender: Address,
    pub address: Address,
    pub by: Addressed,
}

impl Arrived {
    /// Its part in the index of search, where that need not be read back.
    pub(in crate::store) fn said(&self) -> Option<(MessageId, UnindexedMail)> {
        let Self { id, lineage, agent, at, .. } = *self;
        self.mail.clone().map(|mail| (id, UnindexedMail { lineage, agent, at, mail }))
    }

    /// What the decision about it rested on.
    pub(in crate::store) fn question(&self) -> Option<Question<'_>> {
        let Decided { sender, address, .. } = self.decided.as_ref()?;
        Some(Question { agent: self.agent, address, sender })
    }
}
