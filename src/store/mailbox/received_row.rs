//! The JSON in which contents keep a message that did not come by mail. Fields may be added with a
//! default. No field may change its meaning, because old rows stay.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::domain::contact::Handle;
use crate::domain::message::{Call, Flags, Linked, Received};
use crate::domain::source::Source;

#[derive(Serialize, Deserialize)]
pub struct ReceivedRow {
    source: String,
    address: String,
    name: Option<String>,
    text: String,
    to: Option<String>,
    thread: Option<String>,
    /// Pairs of kind and URL.
    attachments: Vec<(String, String)>,
    context: Map<String, Value>,
    metadata: Map<String, Value>,
    outbound_url: Option<String>,
    chat_dialog: Option<Value>,
    #[serde(with = "CallRow")]
    call: Call,
    #[serde(default, with = "FlagsRow")]
    flags: Flags,
    #[serde(default)]
    lead_rating: Option<u8>,
    #[serde(default)]
    lead_rating_reason: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Flags")]
struct FlagsRow {
    is_live: Option<bool>,
    ai_agent: Option<bool>,
    notify: Option<bool>,
    bypass_agent: Option<bool>,
    self_call: Option<bool>,
    calling_user_is_contact: Option<bool>,
    campaign: Option<bool>,
    forced_campaign: Option<bool>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Call")]
struct CallRow {
    duration: Option<u64>,
    missed: bool,
    cnam_spam: bool,
    dialog: Option<Value>,
    recording: Option<String>,
    diversion: Option<String>,
    summary: Option<String>,
    outcome: Option<String>,
}

impl From<&Received> for ReceivedRow {
    fn from(received: &Received) -> Self {
        let received = received.clone();
        let linked = |one: Linked| (one.kind, one.url);
        Self {
            source: received.handle.source().to_string(),
            address: received.handle.address(),
            name: received.name,
            text: received.text,
            to: received.to,
            thread: received.thread,
            attachments: received.attachments.into_iter().map(linked).collect(),
            context: received.context,
            metadata: received.metadata,
            outbound_url: received.outbound_url,
            chat_dialog: received.chat_dialog,
            call: received.call,
            flags: received.flags,
            lead_rating: received.lead_rating,
            lead_rating_reason: received.lead_rating_reason,
        }
    }
}

impl From<ReceivedRow> for Received {
    fn from(row: ReceivedRow) -> Self {
        // The row of the message has the source, even an unknown one; only the address counts here.
        let source = row.source.parse().unwrap_or(Source::Chat);
        let handle = Handle::Elsewhere { source, address: row.address };
        let linked = |(kind, url)| Linked { kind, url };
        Self {
            handle,
            name: row.name,
            text: row.text,
            to: row.to,
            thread: row.thread,
            attachments: row.attachments.into_iter().map(linked).collect(),
            context: row.context,
            metadata: row.metadata,
            outbound_url: row.outbound_url,
            chat_dialog: row.chat_dialog,
            call: row.call,
            flags: row.flags,
            lead_rating: row.lead_rating,
            lead_rating_reason: row.lead_rating_reason,
        }
    }
}
