//! Commits as the caller makes them: intake record, message, contact, events, deliveries, all or
//! nothing (contract §2.1, §2.2).

use bytes::Bytes;
use uuid::Uuid;

use crate::domain::address::Address;
use crate::domain::audit::Once;
use crate::domain::clock::Timestamp;
use crate::domain::id::{ContactId, MessageId};
use crate::domain::intake_record::IntakeRecord;
use crate::store::mailbox::new_messages::{NewMessage, NewReceived};
use crate::store::tenancy::addresses::Standing;

/// The result of one SMTP transaction: one entry per recipient, committed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Commit {
    pub intakes: Vec<Intake>,
    pub now: Timestamp,
}

/// The record of one verdict, and the message if it was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Intake {
    pub record: IntakeRecord,
    pub accepted: Option<Accepted>,
}

/// An accepted message, and the conditions of its acceptance.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The standing at the decision.
    pub standing: Standing,
    /// The address that must still be the Agent's at the commit.
    pub address: Address,
    pub message: NewMessage,
    pub raw: Bytes,
    /// If the Agent has any of these already, the message is a repeat.
    pub arrival_keys: Vec<[u8; 32]>,
    /// Until when the keys are remembered.
    pub remembered_until: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Committed {
    /// Durable. Holds for each entry the earlier message that it repeats, if any.
    Done(Vec<Option<MessageId>>),
    /// A policy, an address or an account changed since the decision; nothing was written.
    Stale,
}

/// A message from an account's own platform, with its record.
#[derive(Clone, Debug, PartialEq)]
pub struct PlatformMessage {
    pub record: IntakeRecord,
    pub message: NewReceived,
    /// As it was posted, without the names of targets.
    pub raw: Bytes,
    /// The idempotent request, and the holder who carries it out.
    pub once: Option<(Once, Uuid)>,
}

/// How the commit of a platform's message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// Durable, in the room of this contact.
    Stored(ContactId),
    /// The Agent, or an account above it, is not active or not there; nothing was written.
    Inactive,
}
