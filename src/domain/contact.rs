//! A sender known to an Agent's organization.

use std::fmt;
use std::str::FromStr;

use super::address::{Address, AddressError};
use super::clock::Timestamp;
use super::id::{AccountId, ContactId};
use super::source::Source;

/// Under what a contact writes: one spelling each, so that it is the contact's key in its
/// organization. Who is known by mail is never the same contact as one who writes otherwise: a
/// mailbox is proven, all else is the word of the platform that handed it in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Handle {
    Mailbox(Address),
    /// A telephone number or a name, as the platform gave it; never of [`Source::Email`].
    Elsewhere {
        source: Source,
        address: String,
    },
}

/// `local@domain`, or `sms:+15551231234`: no local part holds a colon.
impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mailbox(address) => address.fmt(f),
            Self::Elsewhere { source, address } => write!(f, "{source}:{address}"),
        }
    }
}

/// Reads back what was kept.
impl FromStr for Handle {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let elsewhere = text.split_once(':').and_then(|(source, address)| {
            let source = source.parse().ok().filter(|source| *source != Source::Email)?;
            Some(Self::Elsewhere { source, address: address.to_owned() })
        });
        elsewhere.map_or_else(|| Address::kept(text).map(Self::Mailbox), Ok)
    }
}

impl Handle {
    /// By which way it writes.
    pub const fn source(&self) -> Source {
        match self {
            Self::Mailbox(_) => Source::Email,
            Self::Elsewhere { source, .. } => *source,
        }
    }

    /// Without the source: `local@domain`, `+15551231234`.
    pub fn address(&self) -> String {
        match self {
            Self::Mailbox(address) => address.to_string(),
            Self::Elsewhere { address, .. } => address.clone(),
        }
    }
}

/// The same person under another Agent of the organization is the same contact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    pub id: ContactId,
    pub organization: AccountId,
    pub handle: Handle,
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
