//! The events, and the categories that destinations receive.

use serde_json::Value;

use super::account::Lineage;
use super::clock::Timestamp;
use super::contact::ContactChange;
use super::id::{ContactId, EventId, MessageId};
use super::room::Room;
use super::source::Source;
use super::words::words;

words! {
    /// Category of events that a destination receives (its `type`).
    Category {
        Conversation = "conversation",
        Incoming = "incoming",
        Contact = "contact",
        Agent = "agent",
        Onboarding = "onboarding",
    }
}

/// Content of an event's `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Message,
    Contact,
    /// The live configuration.
    Published,
    /// The staged configuration.
    Reverted,
    Policy,
    Account,
    Invitation,
    Webhook,
    /// A webhook, and why it is disabled.
    DisabledWebhook,
}

#[derive(Clone, Copy)]
enum Cause {
    /// The arrival of a message: `/logs` counts its deliveries with the message.
    Arrival,
    Change,
}

macro_rules! events {
    ($($variant:ident = $word:literal, $category:ident, $about:ident, $cause:ident, $path:expr,
       $description:literal;)*) => {
        words! {
            /// All events. Two are not in the contract's list: those about a destination itself.
            EventName { $(#[doc = $description] $variant = $word,)* }
        }

        impl EventName {
            /// The category whose destinations receive it (contract §5).
            pub const fn category(self) -> Category {
                match self { $(Self::$variant => Category::$category,)* }
            }

            pub const fn about(self) -> About {
                match self { $(Self::$variant => About::$about,)* }
            }

            /// Tells whether the event announces the arrival of a message.
            pub const fn is_arrival(self) -> bool {
                match self { $(Self::$variant => matches!(Cause::$cause, Cause::Arrival),)* }
            }

            /// API path of the full data, for events that name no message.
            pub const fn path(self) -> Option<&'static str> {
                match self { $(Self::$variant => $path,)* }
            }

            /// When the event is made.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }
        }
    };
}

// Name, category, content of `data`, cause, path of the full data; when it is made.
events! {
    EmailReceived = "email.received", Incoming, Message, Arrival, None,
        "A message was accepted for an Agent.";
    MessageReceived = "message.received", Incoming, Message, Arrival, None,
        "A platform submitted a message for an Agent.";
    ConversationStarted = "conversation.started", Conversation, Message, Arrival, None,
        "The first message of a room was accepted.";
    ConversationUpdated = "conversation.updated", Conversation, Message, Arrival, None,
        "A later message of a room was accepted, or the outcome of a message was recorded.";
    ContactCreated = "contact.created", Contact, Contact, Arrival, None,
        "A sender wrote to an organization for the first time.";
    ContactUpdated = "contact.updated", Contact, Contact, Arrival, None,
        "A known sender has a new name.";
    AgentPublished = "agent.published", Agent, Published, Change, Some("/agentEventRules/default"),
        "The staged configuration of an Agent, or a version, went live.";
    AgentReverted = "agent.reverted", Agent, Reverted, Change, Some("/agentEventRules/staging"),
        "The staged configuration of an Agent went back to the live one.";
    AgentPolicyChanged = "agent.policyChanged", Agent, Policy, Change, Some("/account"),
        "The mode or the allowlist of an Agent changed.";
    AccountCreated = "account.created", Onboarding, Account, Change, Some("/account"),
        "An account was created.";
    AccountDeleted = "account.deleted", Onboarding, Account, Change, None,
        "An account was deleted.";
    MemberInvited = "member.invited", Onboarding, Invitation, Change, Some("/members"),
        "A member was invited to an account.";
    WebhookDisabled = "webhook.disabled", Onboarding, DisabledWebhook, Change, Some("/webhooks"),
        "A webhook was disabled: it failed for too long, or was switched off.";
    WebhookTest = "webhook.test", Onboarding, Webhook, Change, Some("/webhooks"),
        "A test of a webhook was requested; only that webhook gets it.";
}

/// Something that happened to an account. Names its message or contact instead of copying it; the
/// row with that id was written in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub name: EventName,
    pub at: Timestamp,
    /// The account that the event happened to, with its ancestors: destinations of all of them may
    /// receive it.
    pub lineage: Lineage,
    /// The message that the event announces, which has the id of its row, or another message.
    pub message: Option<MessageId>,
    pub contact: Option<ContactId>,
    /// The `data` of an event that names no message and no contact: the account, member, policy or
    /// invitation as it was at that moment.
    pub told: Option<Value>,
}

impl Event {
    /// Returns the message that the event names, unless its id says so.
    pub fn other_message(&self) -> Option<MessageId> {
        self.message.filter(|message| message.0 != self.id.row())
    }

    /// Returns the room of the event. Events of one room are ordered.
    pub fn room(&self) -> Option<Room> {
        Some(Room { contact: self.contact?, agent: self.lineage.agent? })
    }
}

/// Returns the events of one accepted message, in their order. Events that are no arrivals come
/// last, because `/logs` tells deliveries apart by event number.
pub fn announced(
    contact: ContactChange,
    first_of_room: bool,
    source: Source,
) -> impl Iterator<Item = EventName> {
    let about_contact = match contact {
        ContactChange::Created => Some(EventName::ContactCreated),
        ContactChange::Renamed => Some(EventName::ContactUpdated),
        ContactChange::Unchanged => None,
    };
    let about_room =
        if first_of_room { EventName::ConversationStarted } else { EventName::ConversationUpdated };
    let came = match source {
        Source::Email => EventName::EmailReceived,
        Source::Sms | Source::Chat | Source::Call => EventName::MessageReceived,
    };
    about_contact.into_iter().chain([about_room, came])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testkit::golden;

    #[test]
    fn arrivals_are_what_a_message_announces_first() {
        let mut told = Vec::new();
        for contact in [ContactChange::Created, ContactChange::Renamed, ContactChange::Unchanged] {
            for source in Source::ALL {
                for first_of_room in [false, true] {
                    let names: Vec<_> = announced(contact, first_of_room, *source).collect();
                    assert!(names.is_sorted_by_key(|name| !name.is_arrival()), "{names:?}");
                    told.extend(names);
                }
            }
        }
        for name in EventName::ALL.iter().filter(|name| name.is_arrival()) {
            assert!(told.contains(name), "{name} announces no message");
        }
    }

    #[test]
    fn the_book_shows_every_event() {
        let row = |name: &EventName| {
            format!("| `{name}` | `{}` | {} |", name.category(), name.description())
        };
        let rows: Vec<String> = EventName::ALL.iter().map(row).collect();
        golden::hold_table("docs/webhooks.md", "| event | type | when |", &rows).unwrap();
    }
}
