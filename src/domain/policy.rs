//! An Agent's inbound policy, and the one pure function that decides by it.

use super::clock::Timestamp;
use super::reason::Reason;
use super::words::words;

words! {
    /// Who may write to an Agent.
    Mode {
        /// Only authenticated senders on the Agent's list, by exact address.
        Allowlist = "allowlist",
        /// Any authenticated sender.
        Open = "open",
    }
}

/// An Agent's policy as its owner sees it. A new Agent has `Allowlist` and an empty list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    /// Entries on the list; they count in `allowlist` mode only.
    pub allowlist_count: u64,
    /// Grows with every change of the mode or the list; the commit compares it (contract §2.5).
    pub version: i64,
    pub updated_at: Timestamp,
}

/// One entry of an allowlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedSender {
    pub address: super::address::Address,
    pub note: Option<String>,
    pub added_at: Timestamp,
}

/// What authentication found, reduced to what the decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// An aligned, counted signature: the From domain vouches for the sender.
    Authenticated,
    /// No such signature; the reason says how far it came.
    Unproven(Reason),
    /// A lookup that could have changed the answer failed for the time being.
    Undecidable(Reason),
}

/// Everything that the decision about one recipient depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The Agent and all its ancestors are active.
    pub recipient_active: bool,
    /// The message has passed through here for this same address, or through too many hops.
    pub looping: bool,
    pub proof: Proof,
    pub mode: Mode,
    /// The sender is on the Agent's list, by exact address.
    pub listed: bool,
}

/// Decides one recipient of one transaction; `None` accepts.
///
/// Default deny: only an authenticated sender that the mode admits is accepted. The order is that
/// of the contract: what is wrong with the recipient, then with the message, then who sent it.
pub const fn decide(facts: Facts) -> Option<Reason> {
    if !facts.recipient_active {
        return Some(Reason::InactiveRecipient);
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
