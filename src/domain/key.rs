//! API keys: their owners, and the parts that may be shown.

use std::fmt;

use uuid::Uuid;

use super::clock::Timestamp;
use super::id::{AccountId, KeyId, MemberId};
use super::words::words;

words! {
    /// The key types of v2, and ours.
    KeyType {
        Admin = "admin",
        /// The key of a provisioned worker: it alone is given secrets, and is no administrator.
        Worker = "worker",
    }
}

/// SHA-256 of a key: the only form that is stored, and the key of look-ups.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// SHA-256 of the secret of a console session, or of the ticket of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionHash(pub [u8; 32]);

impl fmt::Debug for SessionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionHash(…)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    Account(AccountId),
    Member(MemberId),
}

impl KeyOwner {
    /// Returns the id; accounts and members share one sequence.
    pub const fn id(self) -> i64 {
        match self {
            Self::Account(id) => id.get(),
            Self::Member(id) => id.get(),
        }
    }
}

/// The parts of a key that may be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: KeyId,
    /// The account that the key acts for; for a member's key, the member's account.
    pub account: AccountId,
    /// The member that owns the key; None if the account does.
    pub member: Option<MemberId>,
    pub purpose: String,
    pub last_four: String,
    pub created_at: Timestamp,
    /// The key is refused from this time on.
    pub expires_at: Option<Timestamp>,
    /// Late by up to `last_used_minutes` of `access.toml`.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
    /// For the key of an Agent's worker, the job that provisioned it: the key is given secrets
    /// while that job is the last one of the Agent's computer.
    pub worker_job: Option<Uuid>,
    /// Whether tools of MCP may change what this key may, though the operator does not let all keys.
    pub mcp_changes: bool,
}

impl Key {
    pub fn owner(&self) -> KeyOwner {
        self.member.map_or(KeyOwner::Account(self.account), KeyOwner::Member)
    }

    pub const fn kind(&self) -> KeyType {
        if self.worker_job.is_some() { KeyType::Worker } else { KeyType::Admin }
    }

    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }
}
