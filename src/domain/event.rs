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

words! {
    /// The events that are made today; the contract's list grows with the rooms that make them. Two
    /// are beside it: what concerns a destination itself.
    EventName {
        EmailReceived = "email.received",
        MessageReceived = "message.received",
        ConversationStarted = "conversation.started",
        ConversationUpdated = "conversation.updated",
        ContactCreated = "contact.created",
        ContactUpdated = "contact.updated",
        AgentPublished = "agent.published",
        AgentReverted = "agent.reverted",
        AgentPolicyChanged = "agent.policyChanged",
        AccountCreated = "account.created",
        AccountDeleted = "account.deleted",
        MemberInvited = "member.invited",
        WebhookDisabled = "webhook.disabled",
        WebhookTest = "webhook.test",
    }
}

impl EventName {
    /// The category whose destinations receive it (contract §5).
    pub const fn category(self) -> Category {
        match self {
            Self::EmailReceived | Self::MessageReceived => Category::Incoming,
            Self::ConversationStarted | Self::ConversationUpdated => Category::Conversation,
            Self::ContactCreated | Self::ContactUpdated => Category::Contact,
            Self::AgentPublished | Self::AgentReverted | Self::AgentPolicyChanged => {
                Category::Agent
            }
            Self::AccountCreated
            | Self::AccountDeleted
            | Self::MemberInvited
            | Self::WebhookDisabled
            | Self::WebhookTest => Category::Onboarding,
        }
    }
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

/// The events of one accepted message, in the order in which they are told.
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
