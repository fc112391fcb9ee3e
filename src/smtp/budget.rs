//! The memory budget shared by all messages in flight. A share returns its bytes when it is
//! dropped, so a session that panics keeps nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bytes that all messages being received may hold together.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
    all: usize,
}

#[derive(Debug)]
pub(super) struct Share {
    left: Arc<AtomicUsize>,
    all: usize,
    octets: usize,
}

impl Budget {
    pub(super) fn new(octets: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(octets)), all: octets }
    }

    /// Whether at least `octets` bytes are free. Reserves nothing.
    pub(super) fn has(&self, octets: usize) -> bool {
        self.left.load(Ordering::Relaxed) >= octets
    }

    /// Bytes that are taken.
    pub(super) fn taken(&self) -> usize {
        self.all.saturating_sub(self.left.load(Ordering::Relaxed))
    }

    pub(super) fn share(&self) -> Share {
        Share { left: Arc::clone(&self.left), all: self.all, octets: 0 }
    }
}

impl Share {
    /// Grows the share by `octets`. Returns false, and takes nothing, if the budget has less left.
    pub(super) fn grow(&mut self, octets: usize) -> bool {
        let less = |left: usize| left.checked_sub(octets);
        let granted = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        if granted {
            self.octets = self.octets.saturating_add(octets);
        }
        granted
    }

    /// The lowest rate, in bytes per second, that a message with this share must keep. The rate is
    /// 0 while at least half of the budget is free. With nothing free the whole share must turn
    /// over once per `turnover`. In between the rate grows linearly.
    pub(super) fn least_rate(&self, turnover: Duration) -> u64 {
        let wide = |number: usize| u128::try_from(number).unwrap_or(u128::MAX);
        let taken = wide(self.all).saturating_sub(wide(self.left.load(Ordering::Relaxed)));
        let above_half = (2 * taken).saturating_sub(wide(self.all));
        let whole = wide(self.all).saturating_mul(turnover.as_secs().max(1).into()).max(1);
        let rate = wide(self.octets).saturating_mul(above_half) / whole;
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// Returns everything above `octets` to the budget.
    pub(super) fn shrink(&mut self, octets: usize) {
        self.left.fetch_add(self.octets.saturating_sub(octets), Ordering::Relaxed);
        self.octets = self.octets.min(octets);
    }

    /// Returns the whole share to the budget.
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

    #[test]
    fn who_holds_much_of_what_is_short_must_hurry() {
        let budget = Budget::new(1000);
        let (mut large, mut small) = (budget.share(), budget.share());
        let rates = |large: &Share, small: &Share| {
            [large, small].map(|share| share.least_rate(Duration::from_secs(10)))
        };
        assert!(large.grow(400) && small.grow(100));
        assert_eq!(rates(&large, &small), [0, 0], "half is left");
        let mut others = budget.share();
        assert!(others.grow(250));
        assert_eq!(rates(&large, &small), [20, 5]);
        assert!(others.grow(250));
        assert_eq!(rates(&large, &small), [40, 10], "all is taken");
        drop(others);
        assert_eq!(rates(&large, &small), [0, 0]);
    }
}
