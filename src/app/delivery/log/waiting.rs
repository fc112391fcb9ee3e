//! Waiting readers of the log. Their number is bounded in all, per account and per key.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::app::locked::locked;
use crate::domain::id::{AccountId, KeyId};
use crate::domain::scope::Scope;
use crate::rules::EventRules;

/// The bound that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyReaders {
    #[error("too many requests with this key are waiting for events: close one first")]
    Key,
    #[error("too many requests with keys of this account are waiting for events: close one first")]
    Account,
    #[error(
        "too many requests are waiting for events at this gateway: try again later, or without \
         waiting"
    )]
    Gateway,
}

/// A reader's registration; dropping it frees the place.
#[derive(Debug)]
pub struct Waiting {
    waiters: Waiters,
    number: u64,
    woken: Arc<Notify>,
}

impl Waiting {
    /// Resolves once an event has come since the last call, or since the registration. Returns the
    /// place up to which no event concerned this reader, provided that it had read to the end of
    /// the log; None if that is unknown.
    pub async fn changed(&self) -> Option<i64> {
        self.woken.notified().await;
        let mut places = locked(&self.waiters.0.places);
        places.taken.get_mut(&self.number)?.quiet.take()
    }

    /// Changes the scope of the reader. Read after this call.
    pub fn concern(&self, scope: &Scope) {
        if let Some(reader) = locked(&self.waiters.0.places).taken.get_mut(&self.number) {
            (reader.concerned, reader.quiet) = (concerned(scope), None);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        locked(&self.waiters.0.places).taken.remove(&self.number);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Waiters(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rules: EventRules,
    places: Mutex<Places>,
    came: Notify,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Places {
    last: u64,
    taken: HashMap<u64, Reader>,
}

#[derive(Debug)]
struct Reader {
    key: KeyId,
    account: AccountId,
    /// Events of these accounts, or of accounts below, wake the reader.
    concerned: Vec<AccountId>,
    /// The place before the first batch that woke the reader since it last looked.
    quiet: Option<i64>,
    woken: Arc<Notify>,
}

fn concerned(scope: &Scope) -> Vec<AccountId> {
    scope.permitted().map_or_else(|| vec![scope.root()], <[AccountId]>::to_vec)
}

impl Waiters {
    pub(super) fn new(rules: &EventRules) -> Self {
        let (places, came, bell) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(Shared { rules: *rules, places, came, bell }))
    }

    pub(super) fn join(
        &self,
        key: KeyId,
        account: AccountId,
        scope: &Scope,
    ) -> Result<Waiting, TooManyReaders> {
        let mut places = locked(&self.0.places);
        let EventRules { max_waiting, max_waiting_per_account, max_waiting_per_key, .. } =
            self.0.rules;
        let taken = &places.taken;
        if taken.len() >= max_waiting {
            return Err(TooManyReaders::Gateway);
        }
        if taken.values().filter(|one| one.account == account).count() >= max_waiting_per_account {
            return Err(TooManyReaders::Account);
        }
        if taken.values().filter(|one| one.key == key).count() >= max_waiting_per_key {
            return Err(TooManyReaders::Key);
        }
        places.last += 1;
        let (number, woken) = (places.last, Arc::new(Notify::new()));
        let (concerned, wakes) = (concerned(scope), Arc::clone(&woken));
        let reader = Reader { key, account, concerned, quiet: None, woken: wakes };
        places.taken.insert(number, reader);
        drop(places);
        self.0.came.notify_one();
        Ok(Waiting { waiters: self.clone(), number, woken })
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        locked(&self.0.places).taken.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        locked(&self.0.places).taken.is_empty()
    }

    /// Resolves once a reader waits.
    pub(super) async fn wait_for_reader(&self) {
        while self.is_empty() {
            self.0.came.notified().await;
        }
    }

    /// The accounts whose events readers wait for.
    pub(super) fn concerned(&self) -> HashSet<AccountId> {
        let places = locked(&self.0.places);
        places.taken.values().flat_map(|reader| &reader.concerned).copied().collect()
    }

    /// Wakes all readers: each may have an event at any place.
    pub(super) fn wake_all(&self) {
        for reader in locked(&self.0.places).taken.values_mut() {
            reader.quiet = Some(0);
            reader.woken.notify_one();
        }
    }

    /// Wakes the readers of these accounts, which have events behind the place `behind`.
    pub(super) fn wake(&self, happened: &HashSet<AccountId>, behind: i64) {
        for reader in locked(&self.0.places).taken.values_mut() {
            if reader.concerned.iter().any(|one| happened.contains(one)) {
                reader.quiet.get_or_insert(behind);
                reader.woken.notify_one();
            }
        }
    }

    pub(super) fn ring(&self) {
        self.0.bell.notify_one();
    }

    pub(super) async fn bell(&self) {
        self.0.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::domain::account::AccountType;
    use crate::rules::Rules;

    #[tokio::test]
    async fn so_many_wait_in_all_and_with_one_key_and_each_hears_what_concerns_it() {
        let mut rules = Rules::defaults().unwrap().access.events;
        rules.max_waiting = 4;
        (rules.max_waiting_per_account, rules.max_waiting_per_key) = (3, 2);
        let waiters = Waiters::new(&rules);
        let key = |number| KeyId(Uuid::from_u128(number));
        let account = |id| AccountId::new(id).unwrap();
        let all = |id| Scope::subtree(account(id), AccountType::Organization);
        let first = waiters.join(key(1), account(9), &all(1)).unwrap();
        let second = waiters.join(key(1), account(9), &all(2)).unwrap();
        let full = waiters.join(key(1), account(9), &all(1)).unwrap_err();
        assert_eq!(full, TooManyReaders::Key);
        let restricted = all(1).only(vec![account(3)]);
        let third = waiters.join(key(2), account(9), &restricted).unwrap();
        let full = waiters.join(key(3), account(9), &all(1)).unwrap_err();
        assert_eq!(full, TooManyReaders::Account);
        let fourth = waiters.join(key(4), account(8), &all(4)).unwrap();
        let full = waiters.join(key(5), account(7), &all(1)).unwrap_err();
        assert_eq!(full, TooManyReaders::Gateway);
        drop(fourth);
        let fourth = waiters.join(key(4), account(8), &all(4)).unwrap();
        let woken = async |waiting: &Waiting| {
            tokio::time::timeout(std::time::Duration::ZERO, waiting.changed()).await.ok()
        };
        waiters.wake(&HashSet::from([account(1), account(2)]), 7);
        waiters.wake(&HashSet::from([account(1)]), 9);
        // No event before the first batch concerned these readers.
        assert_eq!((woken(&first).await, woken(&second).await), (Some(Some(7)), Some(Some(7))));
        assert_eq!((woken(&third).await, woken(&fourth).await), (None, None));
        waiters.wake(&HashSet::from([account(1), account(3)]), 11);
        assert_eq!((woken(&first).await, woken(&third).await), (Some(Some(11)), Some(Some(11))));
        waiters.wake(&HashSet::from([account(3)]), 12);
        // Its new scope has no known place.
        third.concern(&all(2));
        assert_eq!(woken(&third).await, Some(None));
        waiters.wake(&HashSet::from([account(1), account(3)]), 13);
        assert_eq!(woken(&third).await, None);
        waiters.wake_all();
        waiters.wake(&HashSet::from([account(2)]), 14);
        assert_eq!((woken(&third).await, woken(&fourth).await), (Some(Some(0)), Some(Some(0))));
        assert_eq!(waiters.concerned(), HashSet::from([account(1), account(2), account(4)]));
        drop((first, second, third, fourth));
        assert!(waiters.is_empty());
    }
}
