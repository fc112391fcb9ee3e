//! One recipient's record and message, made ready for the writer (`commit/prepared.rs`).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::packed::Packed;
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::domain::contact::{ContactChange, Handle};
use crate::domain::id::{AccountId, ContactId, MessageId, SessionId, ThreadId};
use crate::domain::message::{Digest, Mail};
use crate::domain::room::Room;
use crate::domain::source::Inbox;
use crate::domain::thread::ThreadKeys;
use crate::store::base::unindexed_cache::UnindexedMail;
use crate::store::engine::sql::Value;
use crate::store::tenancy::addresses::{AddressedAgent, StandingQuestion};

/// The record of one recipient, and its message if it was accepted.
pub struct Entry {
    pub record: Arc<RecordColumns>,
    pub count: u64,
    pub message: Option<MessageId>,
    pub arrived: Option<Arrived>,
}

/// The columns of a record (`intake_records.rs`), except its count and its message.
pub struct RecordColumns {
    /// Columns that the row of a message has, too.
    pub shared: Vec<Value>,
    /// Columns of the record alone. The row of a message has them for the record's sake.
    pub own: Vec<Value>,
    /// The explanation of the verdict; a repeat has another one.
    pub explanation: String,
}

impl RecordColumns {
    /// Approximate bytes sent to the database.
    pub(in crate::store) fn octets(&self) -> usize {
        let values = self.shared.iter().chain(&self.own).map(Value::octets);
        values.sum::<usize>() + self.explanation.len()
    }
}

/// An accepted message that is not yet stored.
pub struct Arrived {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub organization: AccountId,
    pub at: Timestamp,
    pub handle: Handle,
    pub name: Option<String>,
    /// The terms of admission of mail; None for a platform's message: its Agent must be active.
    pub decided: Option<Decided>,
    /// The request that is carried out only once, and its holder (`tenancy/idempotency.rs`).
    pub once: Option<(Once, Uuid)>,
    /// Arrival keys, sorted, each once.
    pub keys: Vec<[u8; 32]>,
    pub thread: ThreadKeys,
    pub inbox: Inbox,
    /// The beginning of its text.
    pub preview: String,
    /// The mail, for the search index. None for a message submitted by a platform: the index reads
    /// it back from its contents.
    pub mail: Option<Arc<Mail>>,
    pub remembered_until: Timestamp,
    pub digest: Digest,
    /// The id of its contents: the first message of its transaction in its organization.
    pub content_id: MessageId,
    pub place: OriginalPlace,
    /// The packed contents, shared by all recipients.
    pub content: Arc<Packed>,
    /// The message's columns, except contact, thread, session, inbox, and those of its record.
    pub columns: Vec<Value>,
    /// The columns of the outcome that a platform handed in; None for mail.
    pub outcome: Option<Vec<Value>>,
    pub record: Arc<RecordColumns>,
}

/// A new message with its contact, its thread and its session.
pub struct FiledMessage<'a> {
    pub message: &'a Arrived,
    pub contact: ContactId,
    /// The change that this message made to the contact.
    pub change: ContactChange,
    /// A thread of its own, until `threads::assign` finds another one.
    pub thread: ThreadId,
    /// A session of its own, until `sessions::assign` finds another one.
    pub session: SessionId,
}

impl FiledMessage<'_> {
    pub(in crate::store) const fn room(&self) -> Room {
        Room { contact: self.contact, agent: self.message.agent }
    }
}

/// The place of the raw bytes of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OriginalPlace {
    #[default]
    Row,
    /// In the blob store, where a row names them already.
    Named,
    /// In the blob store, under this name.
    Put(String),
}

impl OriginalPlace {
    /// Returns the bytes that belong in the row: all, or none.
    pub(in crate::store) fn here<'r>(&self, raw: &'r Bytes) -> &'r Bytes {
        static NOTHING: Bytes = Bytes::new();
        if *self == Self::Row { raw } else { &NOTHING }
    }
}

/// The terms on which mail was admitted.
pub struct Decided {
    pub sender: Address,
    pub address: Address,
    pub by: AddressedAgent,
}

impl Arrived {
    /// Returns the message for the search index, or None if it must be read back.
    pub(in crate::store) fn said(&self) -> Option<(MessageId, UnindexedMail)> {
        let Self { id, lineage, agent, at, .. } = *self;
        self.mail.clone().map(|mail| (id, UnindexedMail { lineage, agent, at, mail }))
    }

    /// Returns the question that the decision answered; None for a message submitted by a platform.
    pub(in crate::store) fn question(&self) -> Option<StandingQuestion<'_>> {
        let Decided { sender, address, .. } = self.decided.as_ref()?;
        let (address, sender) = (Cow::Borrowed(address), Cow::Borrowed(sender));
        Some(StandingQuestion { agent: self.agent, address, sender })
    }
}
