//! How many orders an hour are placed for customers' domains: authorities count them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use crate::domain::clock::{Clock, Timestamp};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// The orders of the last hour.
pub(super) struct Budget {
    most: usize,
    clock: Clock,
    /// By steady time. Locked for a moment.
    placed: Mutex<Vec<Timestamp>>,
    /// Held by the one who waits first, so that the others follow in their order.
    queue: tokio::sync::Mutex<()>,
}

impl Budget {
    pub(super) fn new(most: usize, clock: Clock) -> Self {
        Self { most, clock, placed: Mutex::default(), queue: tokio::sync::Mutex::default() }
    }

    /// Counts an order from before the start.
    pub(super) fn count(&self, at: Timestamp) {
        let (at, now) = (self.clock.steady_of(at), self.clock.steady());
        // Beyond it the clock was wrong then.
        if at <= now && at.plus(HOUR) > now {
            self.placed.lock().unwrap_or_else(PoisonError::into_inner).push(at);
        }
    }

    /// Waits until another order may be placed, and counts it.
    pub(super) async fn take(&self) {
        let _first = self.queue.lock().await;
        while let Some(left) = self.try_take() {
            sleep(left).await;
        }
    }

    /// Takes back the order that was counted last: it was not placed.
    pub(super) fn give_back(&self) {
        self.placed.lock().unwrap_or_else(PoisonError::into_inner).pop();
    }

    /// Counts another order. Returns how long to wait if there are too many.
    fn try_take(&self) -> Option<Duration> {
        let mut placed = self.placed.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.steady();
        placed.retain(|at| at.plus(HOUR) > now);
        if placed.len() < self.most {
            placed.push(now);
            return None;
        }
        let free = placed.iter().min().map_or(now, |first| first.plus(HOUR));
        let left = u64::try_from(free.millis().saturating_sub(now.millis())).unwrap_or(0);
        Some(Duration::from_millis(left).min(HOUR))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

    use super::*;

    #[test]
    fn orders_of_the_last_hour_count_those_from_before_a_start_too() {
        let now = Arc::new(AtomicI64::new(10_000_000));
        let told = Arc::clone(&now);
        let clock = Clock::new(move || Timestamp::from_millis(told.load(SeqCst)));
        let budget = Budget::new(2, clock);
        budget.count(Timestamp::from_millis(10_000_000 - 3_600_000));
        budget.count(Timestamp::from_millis(10_000_001));
        budget.count(Timestamp::from_millis(10_000_000 - 3_599_000));
        assert_eq!(budget.try_take(), None);
        assert_eq!(budget.try_take(), Some(Duration::from_secs(1)));
        now.fetch_add(1000, SeqCst);
        assert_eq!(budget.try_take(), None);
        assert_eq!(budget.try_take(), Some(HOUR - Duration::from_secs(1)));
        budget.give_back();
        assert_eq!(budget.try_take(), None);
    }
}
