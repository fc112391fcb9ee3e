//! Lines of the log that others can cause as often as they like: the first at once, then one a
//! minute at most for each cause, which says how many were left out. A peer must not be able to fill
//! a disk by being refused.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between two lines of the same cause.
const PAUSE: Duration = Duration::from_secs(60);

/// Why a line is written: a closed list, so that what is remembered is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// SMTP: less space is free than mail needs.
    ShortOfSpace,
    /// SMTP: a connection cannot be accepted.
    Accept,
    /// SMTP: a trusted proxy sent no PROXY header.
    NoProxyHeader,
    /// HTTP: a connection cannot be accepted.
    HttpAccept,
    /// HTTP: a request failed on this path of the route table, by our fault.
    Request(&'static str),
    /// HTTP: a request was put off on this path of the route table, because a limit is reached.
    PutOff(&'static str),
    /// HTTP: an answer was not kept for an Idempotency-Key.
    AnswerNotKept,
    /// Store: a group of jobs was not written.
    Group,
    /// Store: the record of a refusal was not written.
    Refusal,
    /// Store: nobody can say how much space is free.
    UnknownSpace,
    /// Store: a file of the blob store keeps its mode.
    Mode,
    /// Store: an original is missing or damaged.
    Original,
    /// Store: a stored message cannot be read.
    Message,
    /// Store: an event cannot be read.
    Event,
    /// Store: a connection to PostgreSQL has fallen silent.
    Silent,
    /// Intake: the store failed, for this plain cause, and the sender is asked to retry.
    Deferred(&'static str),
    /// Intake: a provider's request was turned away, for a reason of this account's way in.
    Provider,
    /// Intake and relays: an account's own setting or secret cannot be used.
    Relay,
    /// Intake and relays: an attempt was not written down.
    RelayAttempt,
    /// Relays: more attempts wait to be written down than may.
    RelayQueue,
}

/// Which lines are due. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Repeats {
    now: Arc<dyn Fn() -> Duration + Send + Sync>,
    seen: Arc<Mutex<BTreeMap<Cause, Seen>>>,
}

#[derive(Clone, Copy)]
struct Seen {
    told: Duration,
    /// Lines that were left out since.
    left_out: u64,
}

impl Default for Repeats {
    fn default() -> Self {
        let began = Instant::now();
        Self::by(move || began.elapsed())
    }
}

impl Repeats {
    /// By a clock that says how long it has run.
    pub fn by(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), seen: Arc::default() }
    }

    /// Whether a line of this cause is to be written now: how many were left out before it.
    pub fn due(&self, cause: Cause) -> Option<u64> {
        let now = (self.now)();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(&cause) {
            Some(last) if now < last.told.saturating_add(PAUSE) => {
                last.left_out = last.left_out.saturating_add(1);
                None
            }
            Some(last) => {
                let left_out = last.left_out;
                *last = Seen { told: now, left_out: 0 };
                Some(left_out)
            }
            None => {
                seen.insert(cause, Seen { told: now, left_out: 0 });
                Some(0)
            }
        }
    }
}

impl fmt::Debug for Repeats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repeats")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_first_is_told_and_then_one_a_minute_with_the_number_of_the_others() {
        let seconds = Arc::new(AtomicU64::new(5));
        let read = Arc::clone(&seconds);
        let repeats = Repeats::by(move || Duration::from_secs(read.load(Ordering::SeqCst)));
        for (at, cause, due) in [
            (5, Cause::ShortOfSpace, Some(0)),
            (5, Cause::ShortOfSpace, None),
            // Another cause, and another path, have their own.
            (6, Cause::Group, Some(0)),
            (6, Cause::Request("/a"), Some(0)),
            (6, Cause::Request("/b"), Some(0)),
            (6, Cause::Request("/a"), None),
            (64, Cause::ShortOfSpace, None),
            (65, Cause::ShortOfSpace, Some(2)),
            (65, Cause::ShortOfSpace, None),
            (500, Cause::ShortOfSpace, Some(1)),
            (500, Cause::Group, Some(0)),
        ] {
            seconds.store(at, Ordering::SeqCst);
            assert_eq!(repeats.due(cause), due, "{at} {cause:?}");
        }
    }
}
