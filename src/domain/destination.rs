//! A URL that wants the events of one category, and how it wants them.

use url::Url;

pub use super::custom_header::CustomHeader;

use super::clock::Timestamp;
use super::event::Category;
use super::id::{AccountId, DestinationId};
use super::secret::Secret;
use super::words::words;

/// Belongs to an account and receives the events of that account and of all below it.
/// (account, url, category) is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub id: DestinationId,
    pub account: AccountId,
    pub url: Url,
    pub category: Category,
    pub label: String,
    pub wants: Wants,
    /// The key of the Standard Webhooks signature: 24 to 64 octets, shown once as `whsec_…`.
    pub secret: Secret,
    /// When that took the place of another.
    pub secret_rotated_at: Option<Timestamp>,
    /// Those that it had before, the newest first: each signs beside the other until its time.
    pub former_secrets: Vec<FormerSecret>,
    /// Why nothing is sent to it, if that is so.
    pub disabled: Option<Disabled>,
    pub health: Health,
    pub created_at: Timestamp,
}

words! {
    /// How much of what happened is sent.
    Payload {
        /// All of it.
        Full = "full",
        /// What a list shows: no text but its beginning, no HTML, no attachments.
        Summary = "summary",
        /// Ids only: nothing that needs protecting.
        Thin = "thin",
    }
}

/// How a destination wants its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wants {
    /// The events of a room one by one, in order.
    pub ordered: bool,
    pub payload: Payload,
    pub headers: Vec<CustomHeader>,
}

impl Default for Wants {
    fn default() -> Self {
        Self { ordered: false, payload: Payload::Full, headers: Vec::new() }
    }
}

/// A signing key that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerSecret {
    pub secret: Secret,
    /// It signs until then, so that the receiver has time to change over.
    pub until: Timestamp,
}

/// Since when nothing is sent, and why, in words that a customer may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disabled {
    pub at: Timestamp,
    pub reason: String,
}

/// What its attempts since the last success came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Failures in a row.
    pub failures: u64,
    pub failing_since: Option<Timestamp>,
    pub last_failure_at: Option<Timestamp>,
    /// Nothing is sent before this, after many failures; then one delivery as a probe.
    pub rests_until: Option<Timestamp>,
}
