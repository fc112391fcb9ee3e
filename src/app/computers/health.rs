//! The ways by which work reaches a computer: webhooks of the Agent, and its API keys. A key in use
//! is no proof of a worker: any client may use it. Webhooks and keys of accounts above are not
//! shown.

use super::{ComputerError, Computers};
use crate::domain::clock::Timestamp;
use crate::domain::computer::Computer;
use crate::domain::delivery::State;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::AccountId;
use crate::store::{DeliveryFilter, DeliveryRecord, Page};

/// At most so many waiting deliveries are counted per webhook.
const COUNTED: u32 = 100;

/// The known ways to a computer.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    pub computer: Computer,
    /// The last use of an API key of the Agent, to the hour or so. The request for this may have
    /// been the last one.
    pub key_last_used: Option<Timestamp>,
    /// Whether that use is more recent than `idle`.
    pub key_in_use: bool,
    pub webhooks: Vec<WebhookHealth>,
}

/// A webhook of the Agent for events about messages.
#[derive(Clone, Debug, PartialEq)]
pub struct WebhookHealth {
    pub destination: Destination,
    /// When the latest successful delivery was sent.
    pub last_delivered: Option<Timestamp>,
    /// Waiting deliveries, up to `COUNTED`; `None` without a probe.
    pub waiting: Option<u64>,
}

impl Computers {
    /// Returns the ways to an Agent's computer; with `probe` it also counts waiting deliveries.
    pub async fn health(&self, agent: AccountId, probe: bool) -> Result<Health, ComputerError> {
        let computer = self.show(agent).await?;
        let keys = self.store.keys(agent).await?;
        let own = keys.iter().filter(|key| key.member.is_none() && key.revoked_at.is_none());
        let key_last_used = own.filter_map(|key| key.last_used_at).max();
        let since = self.mint.clock().now().minus(self.idle);
        let key_in_use = key_last_used.is_some_and(|at| at > since);
        let mut webhooks = Vec::new();
        for destination in self.store.destinations(agent).await? {
            if !matches!(destination.category, Category::Incoming | Category::Conversation) {
                continue;
            }
            let last_delivered = self.latest(&destination, State::Delivered, 1).await?;
            let waiting = match probe {
                true => {
                    let waiting = self.latest(&destination, State::Pending, COUNTED).await?;
                    Some(u64::try_from(waiting.len()).unwrap_or(u64::MAX))
                }
                false => None,
            };
            let attempt = last_delivered.first().and_then(|one| one.attempts.last());
            let last_delivered = attempt.map(|attempt| attempt.at);
            webhooks.push(WebhookHealth { destination, last_delivered, waiting });
        }
        Ok(Health { computer, key_last_used, key_in_use, webhooks })
    }

    /// Returns the latest deliveries in this state, newest first, each with its latest attempt.
    async fn latest(
        &self,
        destination: &Destination,
        state: State,
        limit: u32,
    ) -> Result<Vec<DeliveryRecord>, ComputerError> {
        let filter = DeliveryFilter { state: Some(state), since: None, until: None };
        let page = Page { limit, from: None, until: None };
        Ok(self.store.deliveries(destination.id, &filter, &page, 1).await?)
    }
}
