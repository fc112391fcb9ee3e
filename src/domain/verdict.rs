//! What the gateway decided for one recipient of one transaction.

use std::fmt;

use super::reason::Reason;

/// Every transaction ends in exactly one of these (contract §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Accepted,
    Refused(Reason),
    Deferred(Reason),
}

impl Verdict {
    /// The verdict that a decision amounts to.
    pub const fn of(reason: Option<Reason>) -> Self {
        match reason {
            None => Self::Accepted,
            Some(reason) if reason.is_temporary() => Self::Deferred(reason),
            Some(reason) => Self::Refused(reason),
        }
    }

    /// The word shown in records and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Refused(_) => "refused",
            Self::Deferred(_) => "deferred",
        }
    }

    /// Why, unless it was accepted.
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
