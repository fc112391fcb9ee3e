//! An API key: who owns it and what may be shown of it.

use std::fmt;

use super::clock::Timestamp;
use super::id::{AccountId, KeyId, MemberId};
use super::words::words;

words! {
    /// The types of keys that v2 has.
    KeyType {
        Admin = "admin",
    }
}

/// SHA-256 of a key: the only form in which it is kept, and how it is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

/// Who owns a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyOwner {
    Account(AccountId),
    Member(MemberId),
}

impl KeyOwner {
    /// Its id: accounts' and members' are of one sequence.
    pub const fn id(self) -> i64 {
        match self {
            Self::Account(id) => id.get(),
            Self::Member(id) => id.get(),
        }
    }
}

/// What may be shown of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: KeyId,
    /// The account that it acts for; of a member's key, the one that the member belongs to.
    pub account: AccountId,
    /// The member that owns it, where no account does.
    pub member: Option<MemberId>,
    pub purpose: String,
    pub last_four: String,
    pub created_at: Timestamp,
    /// From when on it opens nothing.
    pub expires_at: Option<Timestamp>,
    /// To the hour or so.
    pub last_used_at: Option<Timestamp>,
    pub revoked_at: Option<Timestamp>,
}

impl Key {
    /// The member, where it is one's; the account otherwise.
    pub fn owner(&self) -> KeyOwner {
        self.member.map_or(KeyOwner::Account(self.account), KeyOwner::Member)
    }

    /// Whether it has reached its end by then.
    pub fn is_expired(&self, at: Timestamp) -> bool {
        self.expires_at.is_some_and(|end| end <= at)
    }
}
