//! Places for what providers post, apart from those of clients: mail waits for no preview. An
//! organization has a quarter of each kind at most, so that no slow application, no slow sender and no
//! flood of large mail of one holds up the mail of the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::account::{Account, AccountType};
use crate::domain::id::AccountId;
use crate::http::error::Problem;
use crate::rules::InboundRules;

/// An organization's part of all places.
const PART: usize = 4;

/// All of them.
#[derive(Debug)]
pub(crate) struct Places {
    bodies: Parts,
    all: Parts,
    large: Parts,
    patience: Duration,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(in crate::http) struct Place {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    pub(crate) fn new(rules: &InboundRules, patience: Duration) -> Self {
        let requests = &rules.requests;
        Self {
            bodies: Parts::new(requests.max_at_once.saturating_mul(PART)),
            all: Parts::new(requests.max_at_once),
            large: Parts::new(requests.max_large),
            patience,
        }
    }

    /// For a body that is still on its way, at once or not at all: it is small, or has a large place.
    pub(in crate::http) fn body(&self, whose: &Account) -> Result<Place, Problem> {
        self.bodies.now(whose).ok_or_else(taken)
    }

    /// For a request that is there whole, at once or not at all.
    pub(in crate::http) fn any(&self, whose: &Account) -> Result<Place, Problem> {
        self.all.now(whose).ok_or_else(taken)
    }

    /// For one that is large; waited for.
    pub(in crate::http) async fn large(&self, whose: &Account) -> Result<Place, Problem> {
        match timeout(self.patience, self.large.in_turn(whose)).await {
            Ok(Some(place)) => Ok(place),
            _ => Err(Problem::busy("every place for a large request of a provider is taken")),
        }
    }
}

fn taken() -> Problem {
    Problem::busy("every place for what providers post is taken")
}

/// Places of one kind.
#[derive(Debug)]
struct Parts {
    all: Arc<Semaphore>,
    part: usize,
    /// Of those who have or wait for one.
    each: Mutex<HashMap<AccountId, Weak<Semaphore>>>,
}

impl Parts {
    fn new(most: usize) -> Self {
        let all = Arc::new(Semaphore::new(most));
        Self { all, part: (most / PART).max(1), each: Mutex::default() }
    }

    fn now(&self, whose: &Account) -> Option<Place> {
        let own = self.of(whose).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(Place { _own: own, _of_all: of_all })
    }

    /// Its own first: who waits for that has nothing that others wait for.
    async fn in_turn(&self, whose: &Account) -> Option<Place> {
        let own = self.of(whose).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(Place { _own: own, _of_all: of_all })
    }

    /// The part of the organization; a way in above organizations counts for itself.
    fn of(&self, whose: &Account) -> Arc<Semaphore> {
        let organization = whose.lineage.at(AccountType::Organization).unwrap_or(whose.id);
        let mut each = self.each.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = each.get(&organization).and_then(Weak::upgrade) {
            return own;
        }
        each.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.part));
        each.insert(organization, Arc::downgrade(&own));
        own
    }
}
