//! Keeps answers of the DNS, and results that follow from them, for the next message until their time is
//! over. Bounded in octets and not by count: strangers choose the names, the sizes and the TTLs, and one
//! answer may be as large as sixty others.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::domain::recent::Recent;

pub(super) struct Cache<K, V>(Mutex<Recent<K, Kept<V>>>);

struct Kept<V> {
    value: V,
    until: Instant,
}

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    pub(super) fn new(max_octets: usize) -> Self {
        Self(Mutex::new(Recent::new(max_octets)))
    }

    /// With the moment at which it is over.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<(V, Instant)> {
        let mut kept = self.kept();
        let found = kept.find(key, |kept| kept.until > now)?;
        Some((found.value.clone(), found.until))
    }

    /// Keeps a value that takes about so many octets, with its key.
    pub(super) fn keep(&self, key: K, value: V, octets: usize, until: Instant) {
        self.kept().keep(key, Kept { value, until }, octets);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.kept().count()
    }

    /// Nothing panics while it holds the lock.
    fn kept(&self) -> MutexGuard<'_, Recent<K, Kept<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
