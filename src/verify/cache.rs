//! What is kept for the next message until its time is over: answers of the DNS, and what steps came to
//! by them. Bounded in octets and not by count: strangers choose the names, the sizes and the TTLs, and
//! one answer may be as large as sixty others.
//!
//! Two generations: what is asked for is in the younger one, or moves there. When that is half of
//! what is allowed, it becomes the older one, and what was in that is forgotten: nearly the least
//! recently used.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

pub(super) struct Cache<K, V> {
    max_octets: usize,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    young: HashMap<K, Kept<V>>,
    old: HashMap<K, Kept<V>>,
    young_octets: usize,
}

struct Kept<V> {
    value: V,
    octets: usize,
    until: Instant,
}

impl<K: Hash + Eq + Clone, V: Clone> Cache<K, V> {
    pub(super) fn new(max_octets: usize) -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        Self { max_octets, state: Mutex::new(State { young, old, young_octets: 0 }) }
    }

    /// With the moment at which it is over.
    pub(super) fn get(&self, key: &K, now: Instant) -> Option<(V, Instant)> {
        let mut state = self.state();
        // One that is over would push living ones out.
        if let Some(kept) = state.old.remove(key).filter(|kept| kept.until > now) {
            self.put(&mut state, key.clone(), kept);
        }
        let kept = state.young.get(key).filter(|kept| kept.until > now)?;
        Some((kept.value.clone(), kept.until))
    }

    /// Keeps a value that takes about so many octets, with its key.
    pub(super) fn keep(&self, key: K, value: V, octets: usize, until: Instant) {
        self.put(&mut self.state(), key, Kept { value, octets, until });
    }

    fn put(&self, state: &mut State<K, V>, key: K, kept: Kept<V>) {
        let (octets, half) = (kept.octets, self.max_octets / 2);
        if octets > half {
            return;
        }
        if state.young_octets + octets > half {
            state.old = mem::take(&mut state.young);
            state.young_octets = 0;
        }
        state.young_octets += octets;
        if let Some(before) = state.young.insert(key, kept) {
            state.young_octets -= before.octets;
        }
    }

    /// Nothing panics while it holds the lock.
    fn state(&self) -> MutexGuard<'_, State<K, V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_over_pushes_out_nothing_that_lives() {
        let (cache, now) = (Cache::new(40), Instant::now());
        let after = |seconds| now + Duration::from_secs(seconds);
        cache.keep("over", 0, 10, after(1));
        cache.keep("kept", 1, 10, after(300));
        // Now both are old; and one more is young.
        cache.keep("a", 2, 10, after(300));
        assert!(cache.get(&"over", after(2)).is_none());
        cache.keep("b", 3, 10, after(300));
        assert_eq!(cache.get(&"kept", after(2)), Some((1, after(300))));
        assert_eq!(cache.get(&"kept", after(300)), None);
    }

    #[test]
    fn octets_are_bounded_whatever_is_asked_and_what_is_asked_for_again_stays() {
        let limit = 1 << 20;
        let (cache, now) = (Cache::new(limit), Instant::now());
        let later = now + Duration::from_secs(300);
        for n in 0..2000 {
            cache.keep(format!("{n}"), n, (n * 97) % 60_000, later);
            cache.keep("same".to_owned(), n, 1000, later);
            assert!(cache.get(&"same".to_owned(), now).is_some());
            let state = cache.state();
            let of = |map: &HashMap<String, Kept<usize>>| -> usize {
                map.values().map(|kept| kept.octets).sum()
            };
            assert_eq!(of(&state.young), state.young_octets);
            assert!(of(&state.young) + of(&state.old) <= limit);
        }
        assert!(cache.get(&"1999".to_owned(), now).is_some());
        assert!(cache.get(&"0".to_owned(), now).is_none());
        cache.keep("bomb".to_owned(), 0, limit, later);
        assert!(cache.get(&"bomb".to_owned(), now).is_none());
        assert!(cache.get(&"1999".to_owned(), now).is_some());
        let none = Cache::new(0);
        none.keep("a", 1, 1, later);
        assert!(none.get(&"a", now).is_none());
    }
}
