//! Those who wait for more of the log: a bounded number in all, and of one key.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::domain::id::{AccountId, KeyId};

/// As many wait as may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    #[error("as many readers wait with this key as may: close one first")]
    Key,
    #[error("as many readers wait at this gateway as may: try again later, or without waiting")]
    Gateway,
}

/// A reader's place; given back when it is dropped.
#[derive(Debug)]
pub struct Waiting {
    waiters: Waiters,
    number: u64,
    woken: Arc<Notify>,
}

impl Waiting {
    /// Resolves once something has come since the last time, or since the place was taken.
    pub async fn changed(&self) {
        self.woken.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiters.lock().remove(&self.number);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Waiters(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    most_of_key: usize,
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
    woken: Arc<Notify>,
}

impl Places {
    fn remove(&mut self, number: &u64) {
        self.taken.remove(number);
    }
}

impl Waiters {
    pub(super) fn new(most: usize, most_of_key: usize) -> Self {
        let (places, came, bell) = (Mutex::default(), Notify::new(), Notify::new());
        Self(Arc::new(Shared { most, most_of_key, places, came, bell }))
    }

    pub(super) fn join(&self, key: KeyId, account: AccountId) -> Result<Waiting, Full> {
        let mut places = self.lock();
        if places.taken.len() >= self.0.most {
            return Err(Full::Gateway);
        }
        if places.taken.values().filter(|one| one.key == key).count() >= self.0.most_of_key {
            return Err(Full::Key);
        }
        places.last += 1;
        let (number, woken) = (places.last, Arc::new(Notify::new()));
        places.taken.insert(number, Reader { key, account, woken: Arc::clone(&woken) });
        drop(places);
        self.0.came.notify_one();
        Ok(Waiting { waiters: self.clone(), number, woken })
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.lock().taken.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().taken.is_empty()
    }

    /// Resolves when somebody waits.
    pub(super) async fn somebody(&self) {
        while self.is_empty() {
            self.0.came.notified().await;
        }
    }

    /// Wakes those who wait for one of these accounts, or all.
    pub(super) fn wake(&self, concerned: Option<&HashSet<AccountId>>) {
        for reader in self.lock().taken.values() {
            if concerned.is_none_or(|accounts| accounts.contains(&reader.account)) {
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

    /// Nothing panics while it holds the lock; if something did, the places would be whole.
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn so_many_wait_in_all_and_with_one_key_and_each_hears_what_concerns_it() {
        let waiters = Waiters::new(3, 2);
        let key = |number| KeyId(Uuid::from_u128(number));
        let account = |id| AccountId::new(id).unwrap();
        let first = waiters.join(key(1), account(1)).unwrap();
        let second = waiters.join(key(1), account(2)).unwrap();
        assert_eq!(waiters.join(key(1), account(1)).unwrap_err(), Full::Key);
        let third = waiters.join(key(2), account(1)).unwrap();
        assert_eq!(waiters.join(key(3), account(1)).unwrap_err(), Full::Gateway);
        drop(third);
        let third = waiters.join(key(2), account(3)).unwrap();
        waiters.wake(Some(&HashSet::from([account(1), account(2)])));
        first.changed().await;
        second.changed().await;
        let unheard = tokio::time::timeout(std::time::Duration::ZERO, third.changed()).await;
        assert!(unheard.is_err());
        waiters.wake(None);
        third.changed().await;
        drop((first, second, third));
        assert!(waiters.is_empty());
    }
}
