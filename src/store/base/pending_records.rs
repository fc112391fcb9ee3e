//! Records of refusals on their way into the store, for which only their readers and erasures wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Bytes per permit.
const UNIT: usize = 1024;
/// While a record is pending for longer, no other is registered: the store is slow, or fails.
const LATE: Duration = Duration::from_millis(500);
/// Longest wait of a reader: by then a record is visible, unless the store fails (contract §2.3).
const VISIBLE: Duration = Duration::from_secs(1);

/// The records on their way. Clones share them.
#[derive(Clone, Debug)]
pub struct PendingRecords(Arc<PendingState>);

#[derive(Debug)]
struct PendingState {
    room: Arc<Semaphore>,
    /// The number of records that fill a group.
    many: usize,
    numbers: Mutex<Numbers>,
    ended: Notify,
    /// Rings when records are not to wait for others.
    hurry: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    pending: BTreeMap<u64, Instant>,
}

/// One record on its way, until dropped.
#[derive(Debug)]
pub struct PendingRecord {
    state: Arc<PendingState>,
    number: u64,
    _room: OwnedSemaphorePermit,
}

impl PendingRecords {
    /// Makes room for so many bytes; `many` records fill a group.
    pub fn new(octets: usize, many: usize) -> Self {
        let room = Arc::new(Semaphore::new(octets / UNIT));
        let (numbers, ended, hurry) = (Mutex::default(), Notify::new(), Arc::default());
        Self(Arc::new(PendingState { room, many, numbers, ended, hurry }))
    }

    /// Registers a record of so many bytes; None if there is no room, or another record is late.
    pub fn register(&self, octets: usize) -> Option<PendingRecord> {
        let units = u32::try_from(octets / UNIT + 1).ok()?;
        let room = Arc::clone(&self.0.room).try_acquire_many_owned(units).ok()?;
        let (mut numbers, now) = (self.0.numbers(), Instant::now());
        if numbers.pending.first_key_value().is_some_and(|(_, since)| now - *since > LATE) {
            return None;
        }
        let number = numbers.next;
        numbers.next += 1;
        numbers.pending.insert(number, now);
        if numbers.pending.len() >= self.0.many {
            self.0.hurry.notify_one();
        }
        Some(PendingRecord { state: Arc::clone(&self.0), number, _room: room })
    }

    /// Returns the bell that rings when records should be written at once.
    pub fn hurry(&self) -> Arc<Notify> {
        Arc::clone(&self.0.hurry)
    }

    /// Waits for all records that are registered by now, a second at most. Returns whether none of
    /// them is late; a reader sees a late one later.
    pub(in crate::store) async fn wait_until_written(&self) -> bool {
        timeout(VISIBLE, self.all_written()).await.is_ok()
    }

    async fn all_written(&self) {
        let until = self.0.numbers().next;
        loop {
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if self.0.numbers().pending.first_key_value().is_none_or(|(first, _)| *first >= until) {
                return;
            }
            self.0.hurry.notify_one();
            ended.await;
        }
    }
}

impl PendingState {
    /// Locks the numbers. Nothing panics under the lock; if something did, they would be whole.
    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        self.state.numbers().pending.remove(&self.number);
        self.state.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn a_reader_waits_for_earlier_records_and_for_none_after() {
        let records = PendingRecords::new(10 * UNIT, 3);
        records.wait_until_written().await;
        let first = records.register(5).unwrap();
        let mut written = std::pin::pin!(records.wait_until_written());
        assert!(futures_util::poll!(written.as_mut()).is_pending());
        // A waiting reader hurries the writer.
        assert!(futures_util::poll!(std::pin::pin!(records.hurry().notified())).is_ready());
        let second = records.register(5).unwrap();
        assert!(futures_util::poll!(written.as_mut()).is_pending());
        drop(first);
        assert_eq!(futures_util::poll!(written.as_mut()), Poll::Ready(true));
        drop(second);
        records.wait_until_written().await;
    }

    #[tokio::test]
    async fn while_one_is_late_no_other_sets_out() {
        let records = PendingRecords::new(10 * UNIT, 3);
        let late = records.register(1).unwrap();
        assert!(records.register(1).is_some());
        let long_ago = Instant::now().checked_sub(2 * LATE).unwrap();
        records.0.numbers().pending.insert(0, long_ago);
        assert!(records.register(1).is_none());
        drop(late);
        assert!(records.register(1).is_some());
    }

    #[tokio::test]
    async fn room_is_bounded_and_a_full_group_waits_no_longer() {
        let records = PendingRecords::new(4 * UNIT, 2);
        let large = records.register(3 * UNIT - 1).unwrap();
        assert!(records.register(UNIT).is_none());
        let hurry = records.hurry();
        assert!(futures_util::poll!(std::pin::pin!(hurry.notified())).is_pending());
        let small = records.register(0).unwrap();
        assert!(futures_util::poll!(std::pin::pin!(hurry.notified())).is_ready());
        assert!(records.register(0).is_none());
        drop((large, small));
        assert!(records.register(2 * UNIT).is_some());
        assert!(records.register(usize::MAX).is_none());
    }
}
