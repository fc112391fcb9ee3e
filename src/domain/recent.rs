//! A cache of recently used entries, bounded by the sum of their weights.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// Two generations. A used entry is in the young one, or moves there. When the young generation
/// reaches half of the allowed weight, it becomes the old one, and the entries of the former old
/// one are dropped. This approximates least-recently-used without keeping an order.
#[derive(Debug)]
pub struct Recent<K, V> {
    half: usize,
    young: HashMap<K, Weighed<V>>,
    old: HashMap<K, Weighed<V>>,
    young_weight: usize,
}

#[derive(Debug)]
struct Weighed<V> {
    value: V,
    weight: usize,
}

impl<K: Hash + Eq, V> Recent<K, V> {
    /// `most` bounds the total weight.
    pub fn new(most: usize) -> Self {
        let (young, old) = (HashMap::new(), HashMap::new());
        Self { half: most / 2, young, old, young_weight: 0 }
    }

    /// Returns the value of `key` if it is `good`. An old entry that is not good is dropped instead
    /// of made young, so that it pushes no other out.
    pub fn find(&mut self, key: &K, good: impl Fn(&V) -> bool) -> Option<&V> {
        if let Some((key, one)) = self.old.remove_entry(key).filter(|(_, one)| good(&one.value)) {
            self.put(key, one);
        }
        self.young.get(key).map(|one| &one.value).filter(|value| good(value))
    }

    /// Keeps a value; ignores one of more than half of the allowed weight.
    pub fn keep(&mut self, key: K, value: V, weight: usize) {
        self.put(key, Weighed { value, weight });
    }

    fn put(&mut self, key: K, one: Weighed<V>) {
        let weight = one.weight;
        if weight > self.half {
            return;
        }
        if self.young_weight + weight > self.half {
            self.old = mem::take(&mut self.young);
            self.young_weight = 0;
        }
        self.young_weight += weight;
        if let Some(before) = self.young.insert(key, one) {
            self.young_weight -= before.weight;
        }
    }

    /// Empties the cache and returns its entries. They may be many: the caller can release its lock
    /// before it drops them.
    #[must_use]
    pub fn empty(&mut self) -> Self {
        mem::replace(self, Self::new(self.half * 2))
    }

    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.young.len() + self.old.len()
    }

    #[cfg(test)]
    pub(crate) fn weight(&self) -> usize {
        self.young.values().chain(self.old.values()).map(|one| one.weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_is_asked_for_stays_and_the_rest_goes() {
        let mut recent = Recent::new(10);
        let found = |recent: &mut Recent<_, _>, key: usize| recent.find(&key, |_| true).copied();
        for number in 0..1000 {
            recent.keep(number, number, 1);
            assert_eq!(found(&mut recent, 0), Some(0), "after {number}");
            assert!(recent.weight() <= 10);
        }
        assert_eq!((found(&mut recent, 999), found(&mut recent, 900)), (Some(999), None));
        assert_eq!(found(&mut recent.empty(), 999), Some(999));
        assert_eq!(found(&mut recent, 999), None);
        let mut none = Recent::new(0);
        none.keep(0, 0, 1);
        assert_eq!(found(&mut none, 0), None);
    }

    #[test]
    fn one_that_is_over_pushes_out_nothing_that_is_good() {
        let mut recent = Recent::new(4);
        for (key, is_good) in [("over", false), ("kept", true), ("a", true)] {
            recent.keep(key, is_good, 1);
        }
        // The first two are in the old generation now.
        assert_eq!(recent.find(&"over", |good| *good), None);
        recent.keep("b", true, 1);
        assert_eq!(recent.find(&"kept", |good| *good), Some(&true));
    }

    #[test]
    fn weights_are_bounded_whatever_they_are() {
        let mut recent = Recent::new(1 << 20);
        for number in 0..2000_usize {
            recent.keep(number, (), (number * 97) % 60_000);
            recent.keep(5000, (), 1000);
            assert!(recent.find(&5000, |()| true).is_some() && recent.weight() <= 1 << 20);
        }
        recent.keep(6000, (), 1 << 20);
        assert!(recent.find(&6000, |()| true).is_none() && recent.find(&1999, |()| true).is_some());
        assert!(recent.find(&0, |()| true).is_none());
    }
}
