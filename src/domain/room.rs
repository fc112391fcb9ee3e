//! The conversation of one contact with one Agent.

use std::fmt;
use std::str::FromStr;

use super::id::{AccountId, ContactId, IdError};

/// Shown as `"<contactId>:<agentId>"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Room {
    pub contact: ContactId,
    pub agent: AccountId,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.contact, self.agent)
    }
}

impl FromStr for Room {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let (contact, agent) = text.split_once(':').ok_or(IdError)?;
        Ok(Self { contact: contact.parse()?, agent: agent.parse()? })
    }
}
