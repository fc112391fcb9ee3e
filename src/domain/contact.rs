//! A sender known to an Agent's organization.

use super::address::Address;
use super::clock::Timestamp;
use super::id::{AccountId, ContactId};

/// The same person under another Agent of the organization is the same contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub id: ContactId,
    pub organization: AccountId,
    pub address: Address,
    /// The display name of the latest accepted message that had one.
    pub name: Option<String>,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

/// What an accepted message told us about its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContactChange {
    Created,
    Renamed,
    Unchanged,
}
