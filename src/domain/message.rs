//! Accepted messages, as Agents read them.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::account::Lineage;
use super::agent_outcome::AgentOutcome;
use super::automation::Automation;
use super::clock::Timestamp;
use super::contact::Handle;
use super::evidence::finding::Finding;
use super::evidence::results::Results;
use super::id::{AccountId, ContactId, MessageId, SessionId, ThreadId};
use super::marker::Marker;
use super::room::Room;
use super::sender::Sender;
use super::session::SessionKey;
use super::source::{Inbox, Source};

/// SHA-256 of a message's raw bytes, and the name under which they are stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The content of an accepted mail, before it has a contact or a place in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    pub from: Sender,
    pub text: String,
    pub subject: Option<String>,
    /// `To` and `Cc` as shown: `Name <local@domain>` or `local@domain`; `policies/intake.toml`
    /// limits their number.
    pub to: Vec<String>,
    pub cc: Vec<String>,
    pub reply_to: Vec<String>,
    /// Without angle brackets.
    pub message_id: Option<String>,
    pub in_reply_to: Vec<String>,
    pub references: Vec<String>,
    /// `text` without quoted history and signature.
    pub stripped_text: String,
    pub auto_submitted: Option<String>,
    pub disposition_notification_to: Option<String>,
    pub attachments: Vec<Attachment>,
    pub findings: Vec<Finding>,
}

/// A leaf part that was not chosen as text, or the HTML part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Index of the part in the message, as `mail::mime` counts; together with the message it
    /// identifies the attachment.
    pub part: u32,
    /// Lower case, without parameters: `image/png`.
    pub content_type: String,
    /// Without paths, controls and bidi characters; never empty, at most 255 bytes.
    pub filename: String,
    /// Bytes after decoding.
    pub size: u64,
    /// Shown in `attachments`; false only for the HTML part.
    pub listed: bool,
}

impl Received {
    /// A message from this handle with empty content.
    pub fn of(handle: Handle) -> Self {
        Self {
            handle,
            name: None,
            text: String::new(),
            to: None,
            thread: None,
            attachments: Vec::new(),
            context: Map::new(),
            metadata: Map::new(),
            outbound_url: None,
            chat_dialog: None,
            call: Call::default(),
            flags: Flags::default(),
            lead_rating: None,
            lead_rating_reason: None,
        }
    }
}

impl Received {
    /// Returns the outcome that the platform handed in.
    pub fn outcome(&self) -> AgentOutcome {
        AgentOutcome {
            result: self.call.outcome.clone(),
            summary: self.call.summary.clone(),
            lead_rating: self.lead_rating,
            lead_rating_reason: self.lead_rating_reason.clone(),
            ..AgentOutcome::default()
        }
    }

    pub fn is_call(&self) -> bool {
        self.handle.source() == Source::Call
    }

    /// Whether nobody took it; None for what nobody takes.
    pub fn missed_call(&self) -> Option<bool> {
        (self.is_call() || self.call.missed).then_some(self.call.missed)
    }
}

impl Mail {
    /// A mail from this sender with empty content.
    pub fn of(from: Sender) -> Self {
        Self {
            from,
            text: String::new(),
            subject: None,
            to: Vec::new(),
            cc: Vec::new(),
            reply_to: Vec::new(),
            message_id: None,
            in_reply_to: Vec::new(),
            references: Vec::new(),
            stripped_text: String::new(),
            auto_submitted: None,
            disposition_notification_to: None,
            attachments: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Returns the part that `metadata.emailHtml` points at.
    pub fn html(&self) -> Option<&Attachment> {
        self.attachments.iter().find(|part| !part.listed)
    }
}

/// How one copy of a message arrived. Kept apart from the content, which copies for other addresses
/// and envelopes share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Marker of the address that the copy reached; None for messages older than markers.
    pub marker: Option<Marker>,
    /// None if a later version stored an origin unknown to this one.
    pub automation: Option<Automation>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub agent_username: String,
    pub contact: ContactId,
    pub at: Timestamp,
    /// The messages of a room that answer each other.
    pub thread: ThreadId,
    pub inbox: Inbox,
    /// The session of the message; None for messages older than sessions.
    pub session: Option<SessionId>,
    /// Bytes of the original.
    pub size: u64,
    pub raw: Digest,
    /// The stored content cannot be read back; `content` holds only what the row itself has.
    pub unreadable: bool,
    pub content: Content,
    pub outcome: AgentOutcome,
}

/// The content of a message, by channel.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Mail(Box<Mailed>),
    Received(Box<Received>),
}

/// Mail, authenticated and admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Mailed {
    pub mail: Mail,
    /// The tag in the recipient: `local+tag@domain`.
    pub tag: Option<String>,
    /// Results of all methods; None only if the content cannot be read back.
    pub authentication: Option<Arc<Results>>,
    pub passage: Passage,
}

/// A message submitted by the account's own platform: unproven, checked only in shape and size.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub handle: Handle,
    /// The sender's name, if the platform sent one.
    pub name: Option<String>,
    pub text: String,
    /// The number or name that was written to or called, spelled like a handle.
    pub to: Option<String>,
    /// The platform's name of the thread within its room.
    pub thread: Option<String>,
    pub attachments: Vec<Linked>,
    /// As sent.
    pub context: Map<String, Value>,
    /// As sent; names that the record itself uses are not allowed.
    pub metadata: Map<String, Value>,
    /// Where the platform wants replies; nothing is ever sent there.
    pub outbound_url: Option<String>,
    /// `[{role, content}]` of an SMS or a chat, if the platform sent it.
    pub chat_dialog: Option<Value>,
    pub call: Call,
    /// Marks that the platform gave.
    pub flags: Flags,
    pub lead_rating: Option<u8>,
    pub lead_rating_reason: Option<String>,
}

/// Marks of a message, by their names in the API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub is_live: Option<bool>,
    pub ai_agent: Option<bool>,
    pub notify: Option<bool>,
    pub bypass_agent: Option<bool>,
    pub self_call: Option<bool>,
    pub calling_user_is_contact: Option<bool>,
    pub campaign: Option<bool>,
    pub forced_campaign: Option<bool>,
}

/// A linked resource; its content was not checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// As the platform sent it: `image`, `image/png`.
    pub kind: String,
    /// https only.
    pub url: String,
}

/// Details of a call; other channels have only a length, a summary, an outcome, and whether nobody
/// took it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// Seconds.
    pub duration: Option<u64>,
    pub missed: bool,
    /// The caller's name is known for nuisance calls (CNAM).
    pub cnam_spam: bool,
    /// `[{role, content}]`.
    pub dialog: Option<Value>,
    /// https only.
    pub recording: Option<String>,
    /// The number that the call was diverted from.
    pub diversion: Option<String>,
    pub summary: Option<String>,
    pub outcome: Option<String>,
}

impl Content {
    /// Returns the outcome that a platform handed in with its message.
    pub fn outcome(&self) -> AgentOutcome {
        match self {
            Self::Mail(_) => AgentOutcome::default(),
            Self::Received(received) => received.outcome(),
        }
    }
}

impl Message {
    pub const fn room(&self) -> Room {
        Room { contact: self.contact, agent: self.agent }
    }

    /// Returns the key of the session for workers; None without a session.
    pub fn session_key(&self) -> Option<SessionKey> {
        self.session.map(|id| SessionKey { room: self.room(), id })
    }

    pub const fn source(&self) -> Source {
        match &self.content {
            Content::Mail(_) => Source::Email,
            Content::Received(received) => received.handle.source(),
        }
    }

    /// The sender: for mail the proven mailbox.
    pub fn from(&self) -> Handle {
        match &self.content {
            Content::Mail(mailed) => Handle::Mailbox(mailed.mail.from.address.clone()),
            Content::Received(received) => received.handle.clone(),
        }
    }

    pub fn from_name(&self) -> Option<&str> {
        match &self.content {
            Content::Mail(mailed) => mailed.mail.from.name.as_deref(),
            Content::Received(received) => received.name.as_deref(),
        }
    }

    pub fn text(&self) -> &str {
        match &self.content {
            Content::Mail(mailed) => &mailed.mail.text,
            Content::Received(received) => &received.text,
        }
    }

    /// Returns the mail, for tests that change it.
    #[cfg(test)]
    pub(crate) fn mailed_mut(&mut self) -> &mut Mailed {
        match &mut self.content {
            Content::Mail(mailed) => mailed,
            Content::Received(_) => panic!("no mail"),
        }
    }

    /// Returns the mail; None for other channels.
    pub fn mailed(&self) -> Option<&Mailed> {
        match &self.content {
            Content::Mail(mailed) => Some(mailed),
            Content::Received(_) => None,
        }
    }
}
