//! A URL that wants the events of one category.

use url::Url;

use super::clock::Timestamp;
use super::event::Category;
use super::id::{AccountId, DestinationId};
use super::secret::Secret;

/// Belongs to an account and receives the events of that account and of all below it.
/// (account, url, category) is unique.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub id: DestinationId,
    pub account: AccountId,
    pub url: Url,
    pub category: Category,
    pub label: String,
    /// The key of the Standard Webhooks signature: 24 to 64 octets, shown once as `whsec_…`.
    pub secret: Secret,
    pub created_at: Timestamp,
}
