//! Messages before they have their contacts.

use std::sync::Arc;

use crate::domain::account::Lineage;
use crate::domain::clock::Timestamp;
use crate::domain::evidence::results::Results;
use crate::domain::id::{AccountId, MessageId};
use crate::domain::message::{Digest, Mail, Passage, Received};
use crate::domain::source::Inbox;
use crate::domain::thread::ThreadKeys;

/// A mail.
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
    pub authentication: Option<Arc<Results>>,
    pub passage: Passage,
}

/// What a platform handed in.
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
    /// SHA-256 of what was posted.
    pub digest: Digest,
}
