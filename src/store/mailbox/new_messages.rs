//! New messages, before they have their contacts.

use std::sync::Arc;

use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::evidence::results::Results;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::message::{Digest, Mail, Passage, Received};
use crate::domain::source::Inbox;
use crate::domain::thread::ThreadKeys;

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
    pub thread: ThreadKeys,
    pub tag: Option<String>,
    pub digest: Digest,
    pub authentication: Option<Arc<Results>>,
    pub passage: Passage,
}

/// A message submitted by a platform.
#[derive(Clone, Debug, PartialEq)]
pub struct NewReceived {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub agent_username: String,
    pub organization: AccountId,
    pub at: Timestamp,
    pub inbox: Inbox,
    pub thread: ThreadKeys,
    pub received: Received,
    /// SHA-256 of the body of the request.
    pub digest: Digest,
}
