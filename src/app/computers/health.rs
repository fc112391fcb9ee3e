//! How work reaches a computer, as far as this side sees it: by webhooks of the Agent itself, or by
//! its own keys, with which a worker may read events, but anybody may ask anything. What an account
//! above it has is not told.

use super::{ComputerError, Computers};
use crate::domain::clock::Timestamp;
use crate::domain::computer::Computer;
use crate::domain::delivery::State;
use crate::domain::destination::Destination;
use crate::domain::event::Category;
use crate::domain::id::AccountId;
use crate::store::{DeliveryFilter, DeliveryRecord, Page};

/// Deliveries that are counted of each webhook: how many wait at least.
const COUNTED: u32 = 100;

/// What is known of the ways to a computer.
#[derive(Clone, Debug, PartialEq)]
pub struct Health {
    pub computer: Computer,
    /// When a key of the Agent was used last, to the hour or so: a worker that pulls uses one, and
    /// whoever asks for this may have done so, too.
    pub key_last_used: Option<Timestamp>,
    /// Whether that was lately.
    pub key_in_use: bool,
    pub webhooks: Vec<Way>,
}

/// A webhook of the Agent that tells of messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Way {
    pub destination: Destination,
    /// When the latest of what was delivered to it was.
    pub last_delivered: Option<Timestamp>,
    /// How many deliveries wait, up to a bound; `None` where that was not asked for.
    pub waiting: Option<u64>,
}

impl Computers {
    /// What is known of the ways to an Agent's computer; with `probe` also how much waits.
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
            webhooks.push(Way { destination, last_delivered, waiting });
        }
        Ok(Health { computer, key_last_used, key_in_use, webhooks })
    }

    /// The latest deliveries in this state, the newest first, each with its latest attempt.
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
