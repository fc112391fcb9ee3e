//! Caches DNS answers, and results derived from them, until they expire. Bounded in bytes and not
//! in entries: strangers choose the names, sizes and TTLs, and one answer may be as large as sixty
//! others.

use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::domain::recent::Recent;

pub(super) struct Cache<K, V>(Mutex<Recent<K, CacheEntry<V>>>);

struct CacheEntry<V> {
    value: V,
    until: Instant,
}

impl<K: Hash + Eq, V: Clone> Cache<K, V> {
    pub(super) fn new(max_octets: usize) -> Self {
        Self(Mutex::new(Recent::new(max_octets)))
    }

    /// Returns the value and its time of expiry.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<(V, Instant)> {
        let mut kept = self.kept();
        let found = kept.find(key, |kept| kept.until > now)?;
        Some((found.value.clone(), found.until))
    }

    /// Keeps a value until `until`; `octets` is its approximate size in bytes.
    pub(super) fn keep(&self, key: K, value: V, octets: usize, until: Instant) {
        self.kept().keep(key, CacheEntry { value, until }, octets);
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.kept().count()
    }

    /// Ignores poisoning: no code panics under this lock.
    fn kept(&self) -> MutexGuard<'_, Recent<K, CacheEntry<V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
