//! Records of refusals on their way into the store, for which only their readers and erasures wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// Bytes per permit.
const UNIT: usize = 1024;
/// While a record is on its way for longer, no other sets out: the store is slow, or fails.
const LATE: Duration = Duration::from_millis(500);
/// Longest wait of a reader: by then a record is visible, unless the store fails (contract §2.3).
const VISIBLE: Duration = Duration::from_secs(1);

/// The records on their way. Clones share them.
#[derive(Clone, Debug)]
pub struct Noting(Arc<NotingState>);

#[derive(Debug)]
struct NotingState {
    room: Arc<Semaphore>,
    /// The number of records that fill a group.
    many: usize,
    open: Mutex<Open>,
    ended: Notify,
    /// Rings when records are not to wait for others.
    hurry: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    numbers: BTreeMap<u64, Instant>,
}

/// A record on its way, until dropped.
#[derive(Debug)]
pub struct OnItsWay {
    way: Arc<NotingState>,
    number: u64,
    _room: OwnedSemaphorePermit,
}

impl Noting {
    /// Makes room for so many bytes; `many` records fill a group.
    pub(in crate::store) fn new(octets: usize, many: usize) -> Self {
        let room = Arc::new(Semaphore::new(octets / UNIT));
        let (open, ended, hurry) = (Mutex::default(), Notify::new(), Arc::default());
        Self(Arc::new(NotingState { room, many, open, ended, hurry }))
    }

    /// Registers a record of so many bytes; None if there is no room, or another record is late.
    pub(in crate::store) fn set_out(&self, octets: usize) -> Option<OnItsWay> {
        let units = u32::try_from(octets / UNIT + 1).ok()?;
        let room = Arc::clone(&self.0.room).try_acquire_many_owned(units).ok()?;
        let (mut open, now) = (self.0.open(), Instant::now());
        if open.numbers.first_key_value().is_some_and(|(_, since)| now - *since > LATE) {
            return None;
        }
        let number = open.next;
        open.next += 1;
        open.numbers.insert(number, now);
        if open.numbers.len() >= self.0.many {
            self.0.hurry.notify_one();
        }
        Some(OnItsWay { way: Arc::clone(&self.0), number, _room: room })
    }

    /// Returns the bell that rings when records should be written at once.
    pub(in crate::store) fn hurry(&self) -> Arc<Notify> {
        Arc::clone(&self.0.hurry)
    }

    /// Waits for all records that have set out by now, a second at most.
    pub(in crate::store) async fn arrived(&self) {
        // A record that does not come in time is seen later.
        let _late = timeout(VISIBLE, self.all_arrived()).await;
    }

    async fn all_arrived(&self) {
        let until = self.0.open().next;
        loop {
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if self.0.open().numbers.first_key_value().is_none_or(|(first, _)| *first >= until) {
                return;
            }
            self.0.hurry.notify_one();
            ended.await;
        }
    }
}

impl NotingState {
    /// Locks the numbers. Nothing panics under the lock; if something did, they would be whole.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.way.open().numbers.remove(&self.number);
        self.way.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn whoever_reads_waits_for_what_set_out_before_and_for_nothing_after() {
        let noting = Noting::new(10 * UNIT, 3);
        noting.arrived().await;
        let first = noting.set_out(5).unwrap();
        let mut arrived = std::pin::pin!(noting.arrived());
        assert!(futures_util::poll!(arrived.as_mut()).is_pending());
        // A waiting reader hurries the writer.
        assert!(futures_util::poll!(std::pin::pin!(noting.hurry().notified())).is_ready());
        let second = noting.set_out(5).unwrap();
        assert!(futures_util::poll!(arrived.as_mut()).is_pending());
        drop(first);
        assert_eq!(futures_util::poll!(arrived.as_mut()), Poll::Ready(()));
        drop(second);
        noting.arrived().await;
    }

    #[tokio::test]
    async fn while_one_is_late_no_other_sets_out() {
        let noting = Noting::new(10 * UNIT, 3);
        let late = noting.set_out(1).unwrap();
        assert!(noting.set_out(1).is_some());
        let long_ago = Instant::now().checked_sub(2 * LATE).unwrap();
        noting.0.open().numbers.insert(0, long_ago);
        assert!(noting.set_out(1).is_none());
        drop(late);
        assert!(noting.set_out(1).is_some());
    }

    #[tokio::test]
    async fn room_is_bounded_and_a_full_group_waits_no_longer() {
        let noting = Noting::new(4 * UNIT, 2);
        let large = noting.set_out(3 * UNIT - 1).unwrap();
        assert!(noting.set_out(UNIT).is_none());
        let hurry = noting.hurry();
        assert!(futures_util::poll!(std::pin::pin!(hurry.notified())).is_pending());
        let small = noting.set_out(0).unwrap();
        assert!(futures_util::poll!(std::pin::pin!(hurry.notified())).is_ready());
        assert!(noting.set_out(0).is_none());
        drop((large, small));
        assert!(noting.set_out(2 * UNIT).is_some());
        assert!(noting.set_out(usize::MAX).is_none());
    }
}
