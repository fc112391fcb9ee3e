//! The inbound policy of an Agent, and the one pure function that applies it.

use super::address::{Address, AddressError};
use super::clock::Timestamp;
use super::reason::Reason;
use super::words::words;

words! {
    /// The senders that may write to an Agent.
    Mode {
        /// Only authenticated senders on the Agent's list, by exact address.
        Allowlist = "allowlist",
        /// Any authenticated sender.
        Open = "open",
    }
}

/// The policy as the Agent's owner sees it. A new Agent has `Allowlist` and an empty list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// Entries on the list; they apply in `allowlist` mode only.
    pub allowlist_count: u64,
    /// Grows with each change of the mode or the list; the commit compares it (contract §2.5).
    pub version: i64,
    pub updated_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedSender {
    pub address: Address,
    pub note: Option<String>,
    pub added_at: Timestamp,
}

/// Why a text cannot be put on an allowlist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SenderError {
    #[error(
        "an allowlist holds exact senders, no patterns, because a pattern would admit everybody \
         who has a mailbox in that domain: add each address by itself, or set the mode to open and \
         let your application look at the sender"
    )]
    Pattern,
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Parses a new entry of an allowlist. Mailboxes with `*` exist (RFC 5322 §3.2.3), but whoever writes
/// one here means a pattern, and would wait in vain for the mail that it matches.
pub fn new_sender(text: &str) -> Result<Address, SenderError> {
    if text.contains('*') || text.starts_with('@') {
        return Err(SenderError::Pattern);
    }
    Ok(Address::parse(text)?)
}

/// The result of authentication, reduced to what the decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// An aligned signature that counts: the From domain vouches for the sender.
    Authenticated,
    /// No such signature; the reason tells which check failed.
    Unproven(Reason),
    /// A look-up that could have changed the result failed for now.
    Undecidable(Reason),
}

/// All facts that the decision about one recipient depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The Agent and all its ancestors are active.
    pub recipient_active: bool,
    /// The Agent has the feature `inboundEmail`.
    pub takes_mail: bool,
    /// The message has already reached this address, or has passed too many servers.
    pub looping: bool,
    pub proof: Proof,
    pub mode: Mode,
    /// The sender's exact address is on the Agent's list.
    pub listed: bool,
}

/// Decides on one recipient of one transaction; None accepts.
///
/// Default deny: only an authenticated sender that the mode admits is accepted. The order is the
/// contract's: first the recipient, then the message, then the sender.
pub const fn decide(facts: Facts) -> Option<Reason> {
    if !facts.recipient_active {
        return Some(Reason::InactiveRecipient);
    }
    if !facts.takes_mail {
        return Some(Reason::InboundEmailOff);
    }
    if facts.looping {
        return Some(Reason::LoopDetected);
    }
    match facts.proof {
        Proof::Unproven(reason) | Proof::Undecidable(reason) => Some(reason),
        Proof::Authenticated => match facts.mode {
            Mode::Open => None,
            Mode::Allowlist if facts.listed => None,
            Mode::Allowlist => Some(Reason::SenderNotAllowed),
        },
    }
}
