//! The lasting record of one verdict with its evidence, kept for accepted and refused mail.

use std::net::IpAddr;
use std::time::Duration;

use super::account::Lineage;
use super::clock::Timestamp;
use super::contact::Handle;
use super::evidence::Evidence;
use super::id::{AccountId, IntakeId, MessageId};
use super::message::Digest;
use super::source::Source;
use super::verdict::Verdict;

/// Neither a message nor an event. For refused mail it keeps headers, hashes and evidence, never
/// the body.
#[derive(Clone, Debug, PartialEq)]
pub struct IntakeRecord {
    pub id: IntakeId,
    pub at: Timestamp,
    /// The channel.
    pub source: Source,
    /// The owner of the record: the Agent's lineage; without an Agent, that of the account with the
    /// recipient's domain; else that of the partner.
    pub lineage: Lineage,
    pub agent: Option<AccountId>,
    /// As given in RCPT; empty if the client did not get that far. The Agent's username for other
    /// channels.
    pub recipient: String,
    /// The mailbox in From, if one was found; proven only if accepted. For other channels, the
    /// sender named by the platform.
    pub sender: Option<Handle>,
    /// As given in MAIL; empty for the null reverse-path.
    pub envelope_from: String,
    pub remote_address: IpAddr,
    pub helo: String,
    pub verdict: Verdict,
    /// The explanation, in plain words.
    pub explanation: String,
    pub message: Option<MessageId>,
    /// Bytes; 0 if no message was sent.
    pub size: u64,
    pub digest: Option<Digest>,
    /// The header section as received, cut at a limit.
    pub headers: Vec<u8>,
    pub evidence: Evidence,
    /// Number of refusals that this record counts; above 1 only at MAIL or RCPT.
    pub count: u64,
    /// From the end of the message to the begin of its commit; None if there was no commit.
    pub took: Option<Duration>,
}

#[cfg(test)]
impl IntakeRecord {
    /// An empty record, for tests that look at a part of it.
    pub(crate) fn blank(verdict: Verdict) -> Self {
        Self {
            id: IntakeId(uuid::Uuid::nil()),
            at: Timestamp::from_millis(0),
            source: Source::Email,
            lineage: Lineage::default(),
            agent: None,
            recipient: String::new(),
            sender: None,
            envelope_from: String::new(),
            remote_address: [192, 0, 2, 1].into(),
            helo: String::new(),
            verdict,
            explanation: String::new(),
            message: None,
            size: 0,
            digest: None,
            headers: Vec::new(),
            evidence: Evidence::default(),
            count: 1,
            took: None,
        }
    }
}
