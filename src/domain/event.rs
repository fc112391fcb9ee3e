//! Something that happened, and who wants to hear of it.

use std::fmt;
use std::str::FromStr;

use super::account::Lineage;
use super::clock::Timestamp;
use super::contact::ContactChange;
use super::id::{ContactId, EventId, MessageId};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($variant,)* }

        impl $name {
            /// Every word of the closed list.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The interface's word.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(format!("{text:?} is not one of: {}", [$($word),*].join(", "))),
                }
            }
        }
    };
}

words! {
    /// What a destination subscribes to (its `type`).
    Category {
        Conversation = "conversation",
        Incoming = "incoming",
        Contact = "contact",
        Agent = "agent",
        Onboarding = "onboarding",
    }
}

words! {
    /// The events that are made today; the contract's list grows with the rooms that make them.
    EventName {
        EmailReceived = "email.received",
        ConversationStarted = "conversation.started",
        ConversationUpdated = "conversation.updated",
        ContactCreated = "contact.created",
        ContactUpdated = "contact.updated",
    }
}

impl EventName {
    /// The category whose destinations receive it (contract §5).
    pub const fn category(self) -> Category {
        match self {
            Self::EmailReceived => Category::Incoming,
            Self::ConversationStarted | Self::ConversationUpdated => Category::Conversation,
            Self::ContactCreated | Self::ContactUpdated => Category::Contact,
        }
    }
}

/// Something that happened to an account. What it is about is named, not copied: the row it
/// names was written in the same transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub name: EventName,
    pub at: Timestamp,
    /// The account that it happened to, with its ancestors: all of them may listen.
    pub lineage: Lineage,
    pub message: Option<MessageId>,
    pub contact: Option<ContactId>,
}

/// The events of one accepted message, in the order in which they are told.
pub fn announced(contact: ContactChange, first_of_room: bool) -> impl Iterator<Item = EventName> {
    let about_contact = match contact {
        ContactChange::Created => Some(EventName::ContactCreated),
        ContactChange::Renamed => Some(EventName::ContactUpdated),
        ContactChange::Unchanged => None,
    };
    let about_room =
        if first_of_room { EventName::ConversationStarted } else { EventName::ConversationUpdated };
    about_contact.into_iter().chain([about_room, EventName::EmailReceived])
}
