//! Places for posts of providers, apart from those of clients: mail never waits for a preview. An
//! organization may hold a quarter of each kind, so its slow application, slow sender or flood of
//! large mail does not delay the mail of others.
//!
//! Order: `body`, then `large` once the body has grown large, then `any` once it is whole, which
//! frees `body`. A place is freed when it is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::domain::account::{Account, AccountType};
use crate::domain::id::AccountId;
use crate::http::error::Problem;
use crate::rules::InboundRules;

/// An organization may hold one part in this many.
const PART: usize = 4;

#[derive(Debug)]
pub(crate) struct InboundPlaces {
    bodies: DividedPlaces,
    all: DividedPlaces,
    large: DividedPlaces,
    patience: Duration,
}

#[derive(Debug)]
pub(in crate::http) struct InboundPlace {
    _own: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl InboundPlaces {
    pub(crate) fn new(rules: &InboundRules, patience: Duration) -> Self {
        let requests = &rules.requests;
        Self {
            bodies: DividedPlaces::new(requests.max_at_once.saturating_mul(PART)),
            all: DividedPlaces::new(requests.max_at_once),
            large: DividedPlaces::new(requests.max_large),
            patience,
        }
    }

    /// Takes a place for a body still being received, without waiting. Fails with 503.
    pub(in crate::http) fn body(&self, account: &Account) -> Result<InboundPlace, Problem> {
        self.bodies.now(account).ok_or_else(taken)
    }

    /// Takes a place for a request received whole, without waiting. Fails with 503.
    pub(in crate::http) fn any(&self, account: &Account) -> Result<InboundPlace, Problem> {
        self.all.now(account).ok_or_else(taken)
    }

    /// Waits for a place for a large body. Fails with 503 when the patience ends.
    pub(in crate::http) async fn large(&self, account: &Account) -> Result<InboundPlace, Problem> {
        match timeout(self.patience, self.large.in_turn(account)).await {
            Ok(Some(place)) => Ok(place),
            _ => Err(Problem::busy("too many large requests of providers are under way")),
        }
    }
}

fn taken() -> Problem {
    Problem::busy("too many requests of providers are under way")
}

/// Places of one kind.
#[derive(Debug)]
struct DividedPlaces {
    all: Arc<Semaphore>,
    part: usize,
    /// The part of each organization that holds or waits for a place.
    each: Mutex<HashMap<AccountId, Weak<Semaphore>>>,
}

impl DividedPlaces {
    fn new(most: usize) -> Self {
        let all = Arc::new(Semaphore::new(most));
        Self { all, part: (most / PART).max(1), each: Mutex::default() }
    }

    /// Takes a place without waiting; None if the organization's part or all places are taken.
    fn now(&self, account: &Account) -> Option<InboundPlace> {
        let own = self.of(account).try_acquire_owned().ok()?;
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(InboundPlace { _own: own, _of_all: of_all })
    }

    /// Waits for the organization's own permit first, so that a waiting request holds nothing that
    /// others wait for.
    async fn in_turn(&self, account: &Account) -> Option<InboundPlace> {
        let own = self.of(account).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(InboundPlace { _own: own, _of_all: of_all })
    }

    /// The organization's part; a way in above organizations has its own.
    fn of(&self, account: &Account) -> Arc<Semaphore> {
        let organization = account.lineage.at(AccountType::Organization).unwrap_or(account.id);
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
