//! Traits that reverse a dependency: the SMTP room calls `Intake` without importing `app`, and
//! `app` wakes the dispatcher without importing `webhook`.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;

use super::address::Address;
use super::id::{AccountId, IntakeId};
use super::reason::Reason;

/// The client of an SMTP session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: IpAddr,
    /// The argument of EHLO or HELO, as sent.
    pub helo: String,
    /// EHLO rather than HELO.
    pub esmtp: bool,
    /// Set once the session is encrypted.
    pub tls: Option<TlsFacts>,
}

/// The result of a TLS handshake, in the words of Received fields and records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: String,
    /// IANA name of the cipher suite, such as `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
}

/// An SMTP envelope whose recipients have been accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub client: Client,
    /// The reverse-path as sent, without angle brackets; empty for `<>`.
    pub reverse_path: String,
    pub recipients: Vec<Recipient>,
    /// The client sent SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// Set if a provider posted the message over HTTP; then the envelope is the provider's claim.
    pub posted: Option<Posted>,
    /// From MAIL to the end of the message, for traces; zero if nobody measured it.
    pub open_for: Duration,
}

/// Details of a message that a provider posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Name of the provider, as in the path of its URL.
    pub provider: &'static str,
    /// The proof that the provider posted, in plain words.
    pub proof: &'static str,
    /// The account's own application was asked and let the message pass (contract §6).
    pub relayed: bool,
}

/// A recipient that belongs to an Agent, or takes reports on TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// None: the address takes reports of senders on TLS for its domain (RFC 8460).
    pub agent: Option<AccountId>,
    /// The address in RCPT without its tag; for `postmaster`, the configured address. It is the
    /// Agent's, if there is one, or the Agent is the catch-all of its domain.
    pub address: Address,
    /// `local+tag@domain`.
    pub tag: Option<String>,
    /// The forward-path as sent, without angle brackets.
    pub as_sent: String,
    /// Recipients with the same organization here may share a transaction, because their verdicts
    /// cannot differ (contract §2, Policy). Recipients of different organizations never share one,
    /// so that each organization keeps its own copy of a message. None: the recipient needs a
    /// transaction of its own.
    pub shares: Option<AccountId>,
}

impl Envelope {
    /// Returns the recipient if it takes reports on TLS: it is the only one.
    pub fn report_address(&self) -> Option<&Recipient> {
        self.recipients.first().filter(|recipient| recipient.agent.is_none())
    }
}

impl Recipient {
    /// An address that takes reports on TLS; `as_sent` in RCPT.
    pub fn of_reports(address: Address, as_sent: &str) -> Self {
        Self { agent: None, address, tag: None, as_sent: as_sent.to_owned(), shares: None }
    }

    /// Tells whether both belong to one Agent.
    pub fn is_also(&self, other: &Self) -> bool {
        self.agent.is_some() && self.agent == other.agent
    }

    /// Tells whether both recipients may be in one transaction.
    pub fn may_be_with(&self, other: &Self) -> bool {
        self.shares.is_some() && self.shares == other.shares
    }
}

/// The result of one RCPT or one message; accepted if `reason` is None.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntakeReply {
    pub reason: Option<Reason>,
    /// The exact fault, in plain words for the client: one line of ASCII.
    pub detail: Option<String>,
    pub record: Option<IntakeId>,
    /// Every message that it accepts is a repeat (contract §2, Repeats).
    pub again: bool,
}

/// The load of the front end for mail; None for a figure that it does not know.
#[derive(Clone, Copy, Debug)]
pub struct MailLoad {
    /// Open sessions.
    pub sessions: Option<usize>,
    /// Bytes reserved for messages under way.
    pub memory_bytes: Option<usize>,
    /// Whether memory is left for one more message.
    pub has_memory: bool,
}

/// A pool of connections to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLoad {
    /// Open connections, and those of them that are idle.
    pub open: u32,
    pub idle: u32,
    /// Largest number of connections.
    pub most: u32,
}

/// The port through which the SMTP room reaches `app`.
pub trait Intake: Send + Sync + 'static {
    /// At MAIL: returns the free bytes where messages are stored, or None if this process cannot
    /// know, as on PostgreSQL; or the reply that defers the message.
    fn free_space(&self) -> impl Future<Output = Result<Option<u64>, IntakeReply>> + Send;

    /// At MAIL (with an empty `path`) or RCPT: records that the client's network has sent too much.
    /// Leaves a counted record (contract §2.3) and returns the reply for the client.
    fn over_rate(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> impl Future<Output = IntakeReply> + Send;

    /// At RCPT: returns the recipient for this forward-path, or the reply that refuses it. `path`
    /// is as sent, without angle brackets; it may be `postmaster` without a domain.
    fn recipient(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> impl Future<Output = Result<Recipient, IntakeReply>> + Send;

    /// At the end of DATA: decides on the message and stores it. `raw` is as received, with dots
    /// unstuffed and nothing else changed. If the future is dropped, it may be stored or not.
    fn message(&self, envelope: Envelope, raw: Bytes) -> impl Future<Output = IntakeReply> + Send;

    /// Records a transaction that the session itself refused (size, bare line ends). `head` is the
    /// beginning of the message, as far as it was kept; `size` the bytes read or declared.
    fn refused(
        &self,
        envelope: Envelope,
        reason: Reason,
        detail: String,
        head: Bytes,
        size: u64,
    ) -> impl Future<Output = IntakeReply> + Send;

    /// Counts a reply of 400 or more, or a connection that is turned away, by its label, which is one
    /// of a closed list (contract §2.3: our own failures leave a metric).
    fn turned_down(&self, label: &'static str);
}

/// A task that can be told that there is work.
pub trait Wake: Send + Sync {
    /// Returns at once. A call while the task is working is not lost.
    fn wake(&self);
}
