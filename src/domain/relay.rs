//! A relay passes an inbound request through the account's own application before the message is
//! processed (contract §6); an inbound way is where a provider posts what it received.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use url::Url;

pub use super::custom_header::CustomHeader;

use super::account::Account;
use super::clock::Timestamp;
use super::id::{AccountId, RelayAttemptId, RelayId};
use super::secret::Secret;
use super::words::words;

/// The answer by which an application refuses for good (contract §6); no other does.
pub const REFUSES: u16 = 406;

words! {
    /// What is relayed: a provider's webhook, or mail that arrived over SMTP.
    RelayType {
        Mailgun = "mailgun",
        Sendgrid = "sendgrid",
        Postmark = "postmark",
        Ses = "ses",
        Smtp = "smtp",
    }
}

impl RelayType {
    /// Whether a provider posts it to `/inbound/{type}/{inboundKey}`.
    pub const fn has_way_in(self) -> bool {
        !matches!(self, Self::Smtp)
    }
}

/// One application that is asked. (account, kind) is unique; of those of an Agent and of the accounts
/// above it, the nearest counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub id: RelayId,
    pub account: AccountId,
    pub kind: RelayType,
    pub url: Url,
    /// From look-up to the beginning of the answer.
    pub timeout: Duration,
    pub headers: Vec<CustomHeader>,
    /// Codes that let a message go on; none means 200 to 299.
    pub success: Vec<u16>,
    /// The key of the Standard Webhooks signature.
    pub secret: Secret,
    /// Grows with each change.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Which relay a decision rests on, and as of which change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    pub id: RelayId,
    pub revision: i64,
}

impl Relay {
    /// What a decision by it rests on.
    pub const fn relayed(&self) -> Relayed {
        Relayed { id: self.id, revision: self.revision }
    }

    /// What an answer of this status means: only 406 refuses, the success codes pass, all else
    /// defers, so that nothing bounces while the application is being deployed (contract §6).
    pub fn judge(&self, status: u16) -> Hop {
        let passes = match self.success.as_slice() {
            [] => (200..300).contains(&status),
            codes => codes.contains(&status),
        };
        match status {
            REFUSES => Hop::Refused,
            _ if passes => Hop::Passed,
            _ => Hop::Deferred(format!("the application answered {status}")),
        }
    }
}

/// What came of asking an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    Passed,
    /// It answered 406.
    Refused,
    /// Anything else, and why, in words that a customer may read.
    Deferred(String),
}

impl Hop {
    /// How it is kept.
    pub const fn outcome(&self) -> HopOutcome {
        match self {
            Self::Passed => HopOutcome::Passed,
            Self::Refused => HopOutcome::Refused,
            Self::Deferred(_) => HopOutcome::Deferred,
        }
    }
}

words! {
    /// How an attempt at a relay ended.
    HopOutcome {
        Passed = "passed",
        Refused = "refused",
        Deferred = "deferred",
    }
}

/// One attempt, as its account may see it: nothing of what was passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAttempt {
    pub id: RelayAttemptId,
    pub relay: RelayId,
    /// For whom: the Agent of the mail, or the account whose provider posted.
    pub account: AccountId,
    pub at: Timestamp,
    pub outcome: HopOutcome,
    pub status: Option<u16>,
    pub took: Duration,
    pub error: Option<String>,
}

/// A request that goes on as it came.
#[derive(Clone)]
pub struct Forwarded {
    pub method: String,
    /// Names and values as received; those about the connection are left out on the way.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forwarded({} octets)", self.body.len())
    }
}

/// Where a provider posts, of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub account: Account,
    pub verification: Verification,
}

/// What proves that a provider posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// HMAC-SHA256 by the account's HTTP webhook signing key.
    Mailgun { signing_key: Secret },
    /// ECDSA P-256 by this key (base64 of its DER), where the customer switched the signature on.
    Sendgrid { public_key: Option<String> },
    /// Postmark signs nothing: a name and a password in the URL that it is given.
    Postmark { basic: Option<(String, Secret)> },
    /// SNS always signs; the topic may be pinned.
    Ses { topic: Option<String> },
}

impl Verification {
    /// Whose it is.
    pub const fn kind(&self) -> RelayType {
        match self {
            Self::Mailgun { .. } => RelayType::Mailgun,
            Self::Sendgrid { .. } => RelayType::Sendgrid,
            Self::Postmark { .. } => RelayType::Postmark,
            Self::Ses { .. } => RelayType::Ses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::id::AccountId;
    use super::*;

    fn relay(success: &[u16]) -> Relay {
        Relay {
            id: RelayId(uuid::Uuid::nil()),
            account: AccountId::new(1).unwrap(),
            kind: RelayType::Smtp,
            url: "https://app.example/".parse().unwrap(),
            timeout: Duration::from_secs(1),
            headers: Vec::new(),
            success: success.to_vec(),
            secret: Secret::new([1; 32]),
            revision: 1,
            created_at: Timestamp::from_millis(0),
            updated_at: Timestamp::from_millis(0),
        }
    }

    #[test]
    fn only_406_refuses_and_all_that_is_no_success_defers() {
        for status in 100..600 {
            let expected = match status {
                406 => HopOutcome::Refused,
                200..300 => HopOutcome::Passed,
                _ => HopOutcome::Deferred,
            };
            assert_eq!(relay(&[]).judge(status).outcome(), expected, "{status}");
        }
        let own = relay(&[202, 302]);
        assert_eq!(own.judge(202), Hop::Passed);
        assert_eq!(own.judge(302), Hop::Passed);
        assert_eq!(own.judge(200).outcome(), HopOutcome::Deferred);
        assert_eq!(own.judge(406), Hop::Refused);
        // Even where somebody lists it: nothing else says no.
        assert_eq!(relay(&[406]).judge(406), Hop::Refused);
    }
}
