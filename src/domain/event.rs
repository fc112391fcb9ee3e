//! Something that happened, and who wants to hear of it.

use serde_json::Value;

use super::account::Lineage;
use super::clock::Timestamp;
use super::contact::ContactChange;
use super::id::{ContactId, EventId, MessageId};
use super::room::Room;
use super::source::Source;
use super::words::words;

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

/// What the `data` of an event shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Message,
    Contact,
    /// The configuration that is in force now.
    Published,
    /// The configuration that is staged now.
    Reverted,
    Policy,
    Account,
    Invitation,
    Webhook,
    /// A webhook, and why nothing is sent to it.
    DisabledWebhook,
}

/// What an event comes from.
#[derive(Clone, Copy)]
enum Cause {
    /// A message that arrived: `/logs` counts its deliveries with the message.
    Arrival,
    Change,
}

macro_rules! events {
    ($($variant:ident = $word:literal, $category:ident, $about:ident, $cause:ident, $path:expr,
       $description:literal;)*) => {
        words! {
            /// The events that are made. Two are beside the contract's list: those that concern a
            /// destination itself.
            EventName { $(#[doc = $description] $variant = $word,)* }
        }

        impl EventName {
            /// The category whose destinations receive it (contract §5).
            pub const fn category(self) -> Category {
                match self { $(Self::$variant => Category::$category,)* }
            }

            /// What its `data` shows.
            pub const fn about(self) -> About {
                match self { $(Self::$variant => About::$about,)* }
            }

            /// Whether it is one of those by which the arrival of a message is announced.
            pub const fn is_arrival(self) -> bool {
                match self { $(Self::$variant => matches!(Cause::$cause, Cause::Arrival),)* }
            }

            /// Where to read the whole of it, if anywhere, where it names no message.
            pub const fn path(self) -> Option<&'static str> {
                match self { $(Self::$variant => $path,)* }
            }

            /// When it is made.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$variant => $description,)* }
            }
        }
    };
}

// Name, category, what its data shows, cause, where to read the whole; when it is made.
events! {
    EmailReceived = "email.received", Incoming, Message, Arrival, None,
        "A message was accepted for an Agent.";
    MessageReceived = "message.received", Incoming, Message, Arrival, None,
        "A platform handed in a message for an Agent.";
    ConversationStarted = "conversation.started", Conversation, Message, Arrival, None,
        "The first message of a room was accepted.";
    ConversationUpdated = "conversation.updated", Conversation, Message, Arrival, None,
        "A later message of a room was accepted.";
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
        "A webhook gets nothing any more: it failed for too long, or was switched off.";
    WebhookTest = "webhook.test", Onboarding, Webhook, Change, Some("/webhooks"),
        "A test of a webhook was requested; only that webhook gets it.";
}

/// Something that happened to an account. A message or a contact is named, not copied: the row it
/// names was written in the same transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub id: EventId,
    pub name: EventName,
    pub at: Timestamp,
    /// The account that it happened to, with its ancestors: all of them may listen.
    pub lineage: Lineage,
    pub message: Option<MessageId>,
    pub contact: Option<ContactId>,
    /// Of an event that names no message and no contact, its `data`: what an account, a member or a
    /// policy was at that moment, and what an invitation said.
    pub told: Option<Value>,
}

impl Event {
    /// The message that its id names: one that tells nothing itself is about it.
    pub fn of_message(&self) -> Option<MessageId> {
        self.told.is_none().then_some(MessageId(self.id.row()))
    }

    /// The conversation that it belongs to; within one, events have an order.
    pub fn room(&self) -> Option<Room> {
        Some(Room { contact: self.contact?, agent: self.lineage.agent? })
    }
}

/// The events of one accepted message, in the order in which they are told: those that are no arrivals
/// last, as `/logs` tells deliveries apart by the numbers of their events.
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
