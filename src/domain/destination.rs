//! Destinations: URLs that receive the events of one category.

use url::Url;

pub use super::custom_header::CustomHeader;

use super::clock::Timestamp;
use super::event::Category;
use super::id::{AccountId, DestinationId};
use super::secret::Secret;
use super::words::words;

/// Belongs to an account and receives the events of that account and of all accounts below it.
/// (account, url, category) is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub id: DestinationId,
    pub account: AccountId,
    pub url: Url,
    pub category: Category,
    pub label: String,
    pub wants: Wants,
    /// Key of the Standard Webhooks signature: 24 to 64 bytes, shown once as `whsec_…`.
    pub secret: Secret,
    /// When the secret replaced an earlier one.
    pub secret_rotated_at: Option<Timestamp>,
    /// Earlier secrets, newest first. Each also signs until its `until`.
    pub former_secrets: Vec<FormerSecret>,
    /// Set if nothing is sent to the destination.
    pub disabled: Option<Disabled>,
    pub health: Health,
    pub created_at: Timestamp,
}

words! {
    /// How much of an event is sent.
    Payload {
        /// Everything.
        Full = "full",
        /// As in lists: only the beginning of the text, no HTML, no attachments.
        Summary = "summary",
        /// Ids only: no data that needs protection.
        Thin = "thin",
    }
}

/// Delivery options of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    /// Sends the events of a room one at a time, in order.
    pub ordered: bool,
    pub payload: Payload,
    pub headers: Vec<CustomHeader>,
}

impl Default for Wants {
    fn default() -> Self {
        Self { ordered: false, payload: Payload::Full, headers: Vec::new() }
    }
}

/// A replaced signing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerSecret {
    pub secret: Secret,
    /// Still signs until this time, so that the receiver can change keys.
    pub until: Timestamp,
}

/// Since when and why nothing is sent, in words for customers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    pub at: Timestamp,
    pub reason: String,
}

/// Results of the attempts since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    pub failures: u64,
    pub failing_since: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    /// After many failures: nothing is sent before this time; then one delivery is sent as a probe.
    pub rests_until: Option<Timestamp>,
}
