//! Records attempts at relays, behind the answers: no mail waits for it. One task writes one
//! attempt at a time, so that at most one is ahead of mail in the queue of the store's writer. An
//! attempt that cannot be written, or finds the queue full, is dropped with a warning.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use tracing::warn;

use crate::app::locked::locked;
use crate::domain::relay::RelayAttempt;
use crate::domain::repeats::{LogCause, Repeats};
use crate::store::Store;

/// Records attempts. All clones share one queue, whose lock is never held across an await.
#[derive(Clone, Debug)]
pub(super) struct Attempts {
    store: Store,
    /// Attempts kept per relay.
    kept: u32,
    queue: Arc<Mutex<Queue>>,
    repeats: Repeats,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<RelayAttempt>,
    /// The most attempts that may wait.
    most: usize,
    /// A task is writing, and takes later attempts too.
    is_served: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queued {
    Waits,
    /// The attempt waits, and the caller must start a task.
    Unserved,
    Dropped,
}

impl Attempts {
    pub(super) fn new(store: Store, kept: u32, most: usize) -> Self {
        let queue = Queue { waiting: VecDeque::new(), most, is_served: false };
        let (queue, repeats) = (Arc::new(Mutex::new(queue)), Repeats::default());
        Self { store, kept, queue, repeats }
    }

    pub(super) fn note(&self, attempt: RelayAttempt) {
        let relay = attempt.relay;
        let queued = locked(&self.queue).add(attempt);
        match queued {
            Queued::Waits => {}
            Queued::Unserved => drop(tokio::spawn(self.clone().write())),
            Queued::Dropped => {
                if let Some(left_out) = self.repeats.due(LogCause::RelayQueue) {
                    const SAID: &str = "too many relay attempts wait to be written: one is dropped";
                    warn!(relay.id = %relay, left_out, "{SAID}");
                }
            }
        }
    }

    async fn write(self) {
        loop {
            let next = locked(&self.queue).next();
            let Some(attempt) = next else { return };
            if let Err(error) = self.store.insert_relay_attempt(&attempt, self.kept).await
                && let Some(left_out) = self.repeats.due(LogCause::RelayAttempt)
            {
                let error = &error as &(dyn std::error::Error + 'static);
                warn!(error, left_out, "cannot record a relay attempt: its result still counts");
            }
        }
    }
}

impl Queue {
    fn add(&mut self, attempt: RelayAttempt) -> Queued {
        if self.waiting.len() >= self.most {
            return Queued::Dropped;
        }
        self.waiting.push_back(attempt);
        if std::mem::replace(&mut self.is_served, true) { Queued::Waits } else { Queued::Unserved }
    }

    /// Returns the next attempt to write; with None the task must end, and a later attempt starts
    /// one.
    fn next(&mut self) -> Option<RelayAttempt> {
        let next = self.waiting.pop_front();
        self.is_served = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;
    use crate::domain::clock::Timestamp;
    use crate::domain::id::{AccountId, RelayAttemptId, RelayId};
    use crate::domain::relay::HopOutcome;

    fn attempt(number: u128) -> RelayAttempt {
        RelayAttempt {
            id: RelayAttemptId(Uuid::from_u128(number)),
            relay: RelayId(Uuid::nil()),
            account: AccountId::new(1).unwrap(),
            at: Timestamp::from_millis(0),
            outcome: HopOutcome::Passed,
            status: Some(200),
            took: Duration::ZERO,
            error: None,
        }
    }

    #[test]
    fn one_writes_at_a_time_and_what_finds_the_queue_full_is_dropped() {
        let mut queue = Queue { waiting: VecDeque::new(), most: 2, is_served: false };
        assert_eq!(queue.add(attempt(1)), Queued::Unserved);
        assert_eq!(queue.add(attempt(2)), Queued::Waits);
        assert_eq!(queue.add(attempt(3)), Queued::Dropped);
        assert_eq!(queue.next(), Some(attempt(1)));
        assert_eq!(queue.add(attempt(4)), Queued::Waits);
        assert_eq!((queue.next(), queue.next()), (Some(attempt(2)), Some(attempt(4))));
        assert_eq!(queue.add(attempt(5)), Queued::Waits, "the last one is still being written");
        assert_eq!((queue.next(), queue.next()), (Some(attempt(5)), None));
        assert_eq!(queue.add(attempt(6)), Queued::Unserved);
    }
}
