//! The few traits that turn an arrow round: the SMTP room asks `Intake` without knowing `app`,
//! and `app` wakes the dispatcher without knowing `webhook`.

use std::future::Future;
use std::net::IpAddr;

use bytes::Bytes;

use super::address::Address;
use super::id::{AccountId, IntakeId};
use super::reason::Reason;

/// Who is at the other end of an SMTP session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: IpAddr,
    /// The argument of EHLO or HELO, as sent.
    pub helo: String,
    /// EHLO rather than HELO.
    pub esmtp: bool,
    /// Present once the session is encrypted.
    pub tls: Option<TlsFacts>,
}

/// What was agreed on in a TLS handshake, as Received fields and records name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: String,
    /// The name of the cipher suite (IANA), as `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
}

/// An SMTP envelope whose recipients have been accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    pub client: Client,
    /// The reverse-path as sent, without angle brackets; empty for `<>`.
    pub reverse_path: String,
    pub recipients: Vec<Recipient>,
    /// The client asked for SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// The provider that handed the message on over HTTP, where no client brought it over SMTP; then
    /// the envelope is what it says.
    pub posted: Option<Posted>,
}

/// How a provider handed a message on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Its name, as it stands in the path that it posts to.
    pub provider: &'static str,
    /// What proved that it was the provider, in plain words.
    pub proof: &'static str,
    /// The account's own application was asked and let it pass (contract §6).
    pub relayed: bool,
}

/// A recipient that some Agent answers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    pub agent: AccountId,
    /// The address that was asked for, without the tag; for `postmaster` the one that stands for
    /// it. The Agent has it, or is its domain's catch-all.
    pub address: Address,
    /// `local+tag@domain`.
    pub tag: Option<String>,
    /// The forward-path as sent, without angle brackets.
    pub as_sent: String,
    /// The organization with whose sharing recipients it may be in one transaction: the verdict cannot
    /// differ from theirs (contract §2, Policy). Of several organizations none are, so that each keeps
    /// its own copy of one message, and nothing is written for two.
    pub shares: Option<AccountId>,
}

impl Recipient {
    /// Whether both may be in one transaction.
    pub fn may_be_with(&self, other: &Self) -> bool {
        self.shares.is_some() && self.shares == other.shares
    }
}

/// The answer to one RCPT or to one message: `reason` is `None` when it was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub reason: Option<Reason>,
    /// What exactly was wrong, in plain words fit for the client to read: one line, ASCII.
    pub detail: Option<String>,
    pub record: Option<IntakeId>,
    /// Every message that it accepts was here before (contract §2, Repeats).
    pub again: bool,
}

/// What the SMTP room asks of the rest of the house.
pub trait Intake: Send + Sync + 'static {
    /// MAIL: how many octets are free where messages are kept? `None` where that is nobody's to
    /// know, as on PostgreSQL.
    fn free_space(&self) -> impl Future<Output = Option<u64>> + Send;

    /// MAIL, with an empty `path`, or RCPT: the client's network has brought too much lately.
    /// Leaves a counted record (contract §2.3), and answers what the client is told.
    fn over_rate(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> impl Future<Output = Answer> + Send;

    /// RCPT: which Agent answers to this forward-path? `path` is as sent, without angle brackets;
    /// it may be `postmaster` without a domain.
    fn recipient(
        &self,
        client: &Client,
        reverse_path: &str,
        path: &str,
    ) -> impl Future<Output = Result<Recipient, Answer>> + Send;

    /// The end of DATA: `raw` is the message as received, dot-unstuffed and otherwise unaltered.
    fn message(&self, envelope: Envelope, raw: Bytes) -> impl Future<Output = Answer> + Send;

    /// The session itself had to turn a transaction away (size, bare line ends): leaves the
    /// record. `head` is the beginning of the message as far as it was kept, `size` the octets
    /// read or declared.
    fn refused(
        &self,
        envelope: Envelope,
        reason: Reason,
        detail: String,
        head: Bytes,
        size: u64,
    ) -> impl Future<Output = Answer> + Send;
}

/// Something waits to be told that there is work.
pub trait Wake: Send + Sync {
    /// Returns at once; a wake-up that comes while it works is not lost.
    fn wake(&self);
}
