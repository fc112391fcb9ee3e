//! An accepted message, as its Agent will read it.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::account::Lineage;
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

/// SHA-256 of the raw bytes of a message, and the name under which they are kept.
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

/// What was read out of an accepted message, before it has a contact or a place in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Mail {
    pub from: Sender,
    /// The text that a person would read.
    pub text: String,
    pub subject: Option<String>,
    /// `To` and `Cc` as shown: `Name <local@domain>` or `local@domain`, at most as many as
    /// `policies/intake.toml` says.
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
    /// Remarks about the content.
    pub findings: Vec<Finding>,
}

/// A leaf part that was not chosen as text, or the HTML part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The part's index in the order of the message, as `mail::mime` counts: with the message it
    /// names the attachment.
    pub part: u32,
    /// Lower case, without parameters: `image/png`.
    pub content_type: String,
    /// Cleaned of paths, controls and bidi characters; never empty, at most 255 octets.
    pub filename: String,
    /// Octets after decoding.
    pub size: u64,
    /// Shown in `attachments`; false for the HTML part alone.
    pub listed: bool,
}

impl Received {
    /// From this handle, without a word.
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
        }
    }
}

impl Mail {
    /// From this sender, without a word.
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

    /// The part that `metadata.emailHtml` points at.
    pub fn html(&self) -> Option<&Attachment> {
        self.attachments.iter().find(|part| !part.listed)
    }
}

/// How one copy of a message came. Beside the message itself, which may be there for others too
/// that it reached under another address or by another envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// Of the address that it reached; `None` only of messages from before there were markers.
    pub marker: Option<Marker>,
    /// The same, or an origin that a later version knows.
    pub automation: Option<Automation>,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    pub lineage: Lineage,
    pub agent: AccountId,
    pub agent_username: String,
    pub contact: ContactId,
    pub at: Timestamp,
    /// Messages of a room that answer each other.
    pub thread: ThreadId,
    pub inbox: Inbox,
    /// The session that it came in; one from before there were sessions came in none.
    pub session: Option<SessionId>,
    /// Octets of the original.
    pub size: u64,
    pub raw: Digest,
    /// What was read out of it cannot be read back: `content` has only what is known beside it.
    pub unreadable: bool,
    pub content: Content,
}

/// What a message says, and how it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Mail(Box<Mailed>),
    Received(Box<Received>),
}

/// Mail, proven and admitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Mailed {
    pub mail: Mail,
    /// The recipient's tag: `local+tag@domain`.
    pub tag: Option<String>,
    /// The results of all methods; `None` only where the contents cannot be read back.
    pub authentication: Option<Arc<Results>>,
    pub passage: Passage,
}

/// What the account's own platform handed in: its word, checked in shape and size alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Received {
    pub handle: Handle,
    /// The sender's name, where the platform gave one.
    pub name: Option<String>,
    pub text: String,
    /// What was written or called, spelled as handles are.
    pub to: Option<String>,
    /// The platform's name for the thread, inside its room.
    pub thread: Option<String>,
    pub attachments: Vec<Linked>,
    /// As given.
    pub context: Map<String, Value>,
    /// As given, of names that the record does not use itself.
    pub metadata: Map<String, Value>,
    /// Where the platform wants to hear answers; nothing is ever sent to it.
    pub outbound_url: Option<String>,
    /// `[{role, content}]` of a text or a chat, where the platform gave it.
    pub chat_dialog: Option<Value>,
    /// Of a call alone.
    pub call: Call,
}

/// Something that lies elsewhere; nobody here has looked at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The platform's word: `image`, `image/png`.
    pub kind: String,
    /// https.
    pub url: String,
}

/// What a platform tells of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// Seconds.
    pub duration: Option<u64>,
    pub missed: bool,
    /// The caller's name is a known nuisance's (CNAM).
    pub cnam_spam: bool,
    /// `[{role, content}]`.
    pub dialog: Option<Value>,
    /// https.
    pub recording: Option<String>,
    /// The number that it was diverted from.
    pub diversion: Option<String>,
    pub summary: Option<String>,
    pub outcome: Option<String>,
}

impl Message {
    /// The conversation that the message belongs to.
    pub const fn room(&self) -> Room {
        Room { contact: self.contact, agent: self.agent }
    }

    /// What a worker knows its session by.
    pub fn session_key(&self) -> Option<SessionKey> {
        self.session.map(|id| SessionKey { room: self.room(), id })
    }

    /// By which way it came.
    pub const fn source(&self) -> Source {
        match &self.content {
            Content::Mail(_) => Source::Email,
            Content::Received(received) => received.handle.source(),
        }
    }

    /// Who sent it: of mail the proven mailbox.
    pub fn from(&self) -> Handle {
        match &self.content {
            Content::Mail(mailed) => Handle::Mailbox(mailed.mail.from.address.clone()),
            Content::Received(received) => received.handle.clone(),
        }
    }

    /// The sender's display name.
    pub fn from_name(&self) -> Option<&str> {
        match &self.content {
            Content::Mail(mailed) => mailed.mail.from.name.as_deref(),
            Content::Received(received) => received.name.as_deref(),
        }
    }

    /// The text that a person would read.
    pub fn text(&self) -> &str {
        match &self.content {
            Content::Mail(mailed) => &mailed.mail.text,
            Content::Received(received) => &received.text,
        }
    }

    /// The same, for tests that change it.
    #[cfg(test)]
    pub(crate) fn mailed_mut(&mut self) -> &mut Mailed {
        match &mut self.content {
            Content::Mail(mailed) => mailed,
            Content::Received(_) => panic!("no mail"),
        }
    }

    /// What mail alone has.
    pub fn mailed(&self) -> Option<&Mailed> {
        match &self.content {
            Content::Mail(mailed) => Some(mailed),
            Content::Received(_) => None,
        }
    }
}
