//! What was asked for lately, in a bounded number of entries.

use std::collections::HashMap;
use std::hash::Hash;
use std::mem;

/// What was asked for since half of the entries were new is never pushed out: nearly the least recently
/// used go first, without any order to keep.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    half: usize,
    young: HashMap<K, V>,
    old: HashMap<K, V>,
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    pub(super) fn new(most: usize) -> Self {
        Self { half: most / 2, young: HashMap::new(), old: HashMap::new() }
    }

    pub(super) fn find(&mut self, key: &K) -> Option<V> {
        if let Some(value) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, value) = self.old.remove_entry(key)?;
        self.keep(key, value.clone());
        Some(value)
    }

    pub(super) fn keep(&mut self, key: K, value: V) {
        if self.young.len() >= self.half {
            self.old = mem::take(&mut self.young);
        }
        if self.half > 0 {
            self.young.insert(key, value);
        }
    }

    /// Forgets all; it may be large, so that whoever holds a lock lets go of it first.
    #[must_use]
    pub(super) fn empty(&mut self) -> Self {
        mem::replace(self, Self::new(self.half * 2))
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut recent = Recent::new(10);
        for number in 0..1000 {
            recent.keep(number, number);
            assert!(recent.find(&0).is_some(), "after {number}");
            assert!(recent.size() <= 10);
        }
        assert!(recent.find(&999).is_some() && recent.find(&900).is_none());
        assert_eq!((recent.empty().find(&999), recent.find(&999)), (Some(999), None));
        let mut none = Recent::new(0);
        none.keep(0, 0);
        assert!(none.find(&0).is_none());
    }
}
