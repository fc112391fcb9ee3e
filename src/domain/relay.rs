//! A relay passes an inbound message to the account's own application before the message is
//! processed (contract §6). An inbound way is a URL to which a provider posts mail.

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

/// The only status by which an application refuses for good (contract §6).
pub const REFUSES: u16 = 406;

words! {
    /// Kind of relay: a provider's webhook, mail received over SMTP, or records of the account's own
    /// adapter.
    RelayType {
        Mailgun = "mailgun",
        Sendgrid = "sendgrid",
        Postmark = "postmark",
        Ses = "ses",
        Smtp = "smtp",
        Json = "json",
    }
}

impl RelayType {
    /// True if a provider, or an adapter, posts to `/inbound/{type}/{inboundKey}`.
    pub const fn has_way_in(self) -> bool {
        !matches!(self, Self::Smtp)
    }

    /// True if an application of the account may be asked. An adapter is one already.
    pub const fn asks_application(self) -> bool {
        !matches!(self, Self::Json)
    }
}

/// An application that is asked about messages. (account, kind) is unique. Among the relays of an
/// Agent and the accounts above it, the nearest applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    pub id: RelayId,
    pub account: AccountId,
    pub kind: RelayType,
    pub url: Url,
    /// Bounds the time from DNS look-up to the beginning of the response.
    pub timeout: Duration,
    pub headers: Vec<CustomHeader>,
    /// Status codes that let a message pass; empty means 200 to 299.
    pub success: Vec<u16>,
    /// Key of the Standard Webhooks signature.
    pub secret: Secret,
    /// Grows with each change.
    pub revision: i64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The relay that a decision rests on, with its revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    pub id: RelayId,
    pub revision: i64,
}

impl Relay {
    pub const fn relayed(&self) -> Relayed {
        Relayed { id: self.id, revision: self.revision }
    }

    /// Judges a response: 406 refuses, the success codes pass, everything else defers, so that no
    /// message bounces while the application is being deployed (contract §6).
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

/// Result of asking an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    Passed,
    /// The application answered 406.
    Refused,
    /// Any other result, with its cause in words for customers.
    Deferred(String),
}

impl Hop {
    /// The result as it is stored.
    pub const fn outcome(&self) -> HopOutcome {
        match self {
            Self::Passed => HopOutcome::Passed,
            Self::Refused => HopOutcome::Refused,
            Self::Deferred(_) => HopOutcome::Deferred,
        }
    }
}

words! {
    /// Stored result of an attempt at a relay.
    HopOutcome {
        Passed = "passed",
        Refused = "refused",
        Deferred = "deferred",
    }
}

/// One attempt at a relay, as its account may see it: no content of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAttempt {
    pub id: RelayAttemptId,
    pub relay: RelayId,
    /// The Agent of the mail, or the account of the provider's URL.
    pub account: AccountId,
    pub at: Timestamp,
    pub outcome: HopOutcome,
    pub status: Option<u16>,
    pub took: Duration,
    pub error: Option<String>,
}

/// A request to be forwarded as received.
#[derive(Clone)]
pub struct Forwarded {
    pub method: String,
    /// As received; headers about the connection are removed when it is sent.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Forwarded({} octets)", self.body.len())
    }
}

/// An account's URL for a provider, with its proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WayIn {
    pub account: Account,
    pub verification: Verification,
}

/// The proof that a provider posted, by provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// HMAC-SHA256 with the account's HTTP webhook signing key.
    Mailgun { signing_key: Secret },
    /// ECDSA P-256 with this key (base64 of its DER); None until the customer turns the signature
    /// on.
    Sendgrid { public_key: Option<String> },
    /// Postmark does not sign: a user name and a password in its URL.
    Postmark { basic: Option<(String, Secret)> },
    /// SNS always signs; the topic may be fixed.
    Ses { topic: Option<String> },
    /// Standard Webhooks, with a secret that we made.
    Json { secret: Secret },
}

impl Verification {
    pub const fn kind(&self) -> RelayType {
        match self {
            Self::Mailgun { .. } => RelayType::Mailgun,
            Self::Sendgrid { .. } => RelayType::Sendgrid,
            Self::Postmark { .. } => RelayType::Postmark,
            Self::Ses { .. } => RelayType::Ses,
            Self::Json { .. } => RelayType::Json,
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
        // Refuses even if it is listed as a success code: there is no other way to refuse.
        assert_eq!(relay(&[406]).judge(406), Hop::Refused);
    }
}
