//! The one durable transaction of a message: intake record, message, contact, events, deliveries,
//! all or nothing (contract §2.1, §2.2).

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::address::Address;
use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::domain::id::{ContactId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::store::mailbox::new_messages::{NewMessage, NewReceived};
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

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Durable. For each entry the earlier message that it is the same as, if it is.
    Done(Vec<Option<MessageId>>),
    /// A policy, an address or an account changed since the decision; nothing was written.
    Stale,
}

/// A message that was handed in, with its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Handed {
    pub record: IntakeRecord,
    pub message: NewReceived,
    /// As it was posted, without the names of targets.
    pub raw: Bytes,
    /// The request that may be carried out once, and whoever does so.
    pub once: Option<(Once, Uuid)>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Durable, in the room of this contact.
    Stored(ContactId),
    /// The Agent, or an account above it, is not active or not there; nothing was written.
    Inactive,
}
