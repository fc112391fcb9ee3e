//! The memory of all messages in flight. A share gives itself back when it is dropped, so that a
//! session that panics keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The octets of all messages being received, together.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
}

/// One message's share, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    left: Arc<AtomicUsize>,
    octets: usize,
}

impl Budget {
    pub(super) fn new(octets: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(octets)) }
    }

    /// An empty share.
    pub(super) fn share(&self) -> Share {
        Share { left: Arc::clone(&self.left), octets: 0 }
    }
}

impl Share {
    /// Makes the share larger; `false` when that much is not left.
    pub(super) fn grow(&mut self, octets: usize) -> bool {
        let less = |left: usize| left.checked_sub(octets);
        let granted = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if granted {
            self.octets = self.octets.saturating_add(octets);
        }
        granted
    }

    /// Gives back what is above `octets`.
    pub(super) fn shrink(&mut self, octets: usize) {
        self.left.fetch_add(self.octets.saturating_sub(octets), Ordering::Relaxed);
        self.octets = self.octets.min(octets);
    }

    /// Gives everything back.
    pub(super) fn clear(&mut self) {
        self.shrink(0);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_exceed_the_budget() {
        let budget = Budget::new(100);
        let (mut one, mut two) = (budget.share(), budget.share());
        assert!(one.grow(60));
        assert!(!two.grow(41));
        assert!(two.grow(40));
        assert!(!one.grow(1));
        drop(two);
        assert!(one.grow(40));
        one.shrink(100);
        assert_eq!(budget.left.load(Ordering::Relaxed), 0);
        one.shrink(30);
        assert_eq!(budget.left.load(Ordering::Relaxed), 70);
        one.clear();
        assert_eq!(budget.left.load(Ordering::Relaxed), 100);
    }
}
