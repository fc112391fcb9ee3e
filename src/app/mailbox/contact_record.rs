//! The record of a contact, for API and events.

use schemars::JsonSchema;
use serde::Serialize;

use crate::domain::contact::Contact;
use crate::domain::source::Source;
use crate::wire::{Date, Number, Word};

/// A sender known to an organization.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Contact")]
pub struct ContactRecord {
    /// The id of the contact.
    id: Number,
    /// The display name that the contact used last.
    name: Option<String>,
    /// The proven mailbox; null for contacts of other channels.
    #[schemars(example = &"boss@good.example")]
    email: Option<String>,
    /// The mailbox, telephone number or name that the contact writes under.
    #[schemars(example = &"boss@good.example")]
    address: String,
    /// The channel.
    source: Word<Source>,
    /// The organization of the contact.
    organization_id: Number,
    /// When the contact first wrote.
    first_seen: Date,
    /// When the contact last wrote.
    last_seen: Date,
}

impl From<&Contact> for ContactRecord {
    fn from(contact: &Contact) -> Self {
        Self {
            id: contact.id.into(),
            name: contact.name.clone(),
            email: contact.handle.mailbox().map(ToString::to_string),
            address: contact.handle.address(),
            source: Word(contact.handle.source()),
            organization_id: contact.organization.into(),
            first_seen: Date(contact.first_seen),
            last_seen: Date(contact.last_seen),
        }
    }
}
