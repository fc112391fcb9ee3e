//! The lasting trace of one verdict with its evidence, kept for accepted and refused mail alike.

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

/// Not a message and not an event. Of refused mail it keeps headers, hashes and evidence, never
/// the body.
#[derive(Clone, Debug, PartialEq)]
pub struct IntakeRecord {
    pub id: IntakeId,
    pub at: Timestamp,
    /// By which way it came.
    pub source: Source,
    /// Whose record it is: the Agent's lineage; without an Agent the lineage of the account that
    /// owns the recipient's domain; else that of the partner.
    pub lineage: Lineage,
    pub agent: Option<AccountId>,
    /// As given in RCPT; empty when the client never came so far. Of what was handed in otherwise the
    /// Agent's username.
    pub recipient: String,
    /// The mailbox in From, as far as one could be found; proven only if accepted. Of what was handed
    /// in otherwise, who the platform says wrote it.
    pub sender: Option<Handle>,
    /// As given in MAIL; empty for the null reverse-path.
    pub envelope_from: String,
    pub remote_address: IpAddr,
    pub helo: String,
    pub verdict: Verdict,
    /// What happened, in plain words.
    pub explanation: String,
    pub message: Option<MessageId>,
    /// Octets; 0 where no message was sent.
    pub size: u64,
    pub digest: Option<Digest>,
    /// The header section as received, bounded.
    pub headers: Vec<u8>,
    pub evidence: Evidence,
    /// How many refusals this record stands for: more than 1 only at RCPT.
    pub count: u64,
    /// From the end of the message until its commit began; `None` where there was none.
    pub took: Option<Duration>,
}

#[cfg(test)]
impl IntakeRecord {
    /// For tests that look at a part of a record: all else is empty.
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
