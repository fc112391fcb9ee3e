//! The decision on one recipient of one transaction.

use std::fmt;

use super::reason::Reason;
use super::words::words;

words! {
    /// A verdict without its reason.
    Outcome {
        Accepted = "accepted",
        Refused = "refused",
        Deferred = "deferred",
    }
}

/// Each transaction ends in exactly one of these (contract §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Accepted,
    Refused(Reason),
    Deferred(Reason),
}

impl Verdict {
    pub const fn of(reason: Option<Reason>) -> Self {
        match reason {
            None => Self::Accepted,
            Some(reason) if reason.is_temporary() => Self::Deferred(reason),
            Some(reason) => Self::Refused(reason),
        }
    }

    pub const fn outcome(self) -> Outcome {
        match self {
            Self::Accepted => Outcome::Accepted,
            Self::Refused(_) => Outcome::Refused,
            Self::Deferred(_) => Outcome::Deferred,
        }
    }

    /// The word in records and in the API.
    pub const fn as_str(self) -> &'static str {
        self.outcome().as_str()
    }

    /// The reason; None if accepted.
    pub const fn reason(self) -> Option<Reason> {
        match self {
            Self::Accepted => None,
            Self::Refused(reason) | Self::Deferred(reason) => Some(reason),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
