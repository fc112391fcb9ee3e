//! Limits log lines that other parties can cause at will. Each cause writes its first line at once,
//! then at most one line a minute, which tells how many were left out. A peer must not fill the
//! disk with refusals.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two lines of one cause.
const PAUSE: Duration = Duration::from_secs(60);

/// Cause of a log line: a closed list, which bounds the memory used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogCause {
    /// SMTP: less free space than mail needs.
    ShortOfSpace,
    /// SMTP: a connection cannot be accepted.
    Accept,
    /// SMTP: a trusted proxy sent no PROXY header.
    NoProxyHeader,
    /// SMTP: a connection is turned away, for this label of a notice.
    TurnedAway(&'static str),
    /// HTTP: a connection cannot be accepted.
    HttpAccept,
    /// HTTP: a request to this path of the route table failed by our fault.
    Request(&'static str),
    /// HTTP: a request to this path of the route table was deferred by a limit.
    PutOff(&'static str),
    /// HTTP: the policy of MTA-STS cannot be enforced.
    MtaSts,
    /// HTTP: a response was not stored for its Idempotency-Key.
    AnswerNotKept,
    /// Store: a group of jobs was not written.
    Group,
    /// Store: the record of a refusal was not written.
    Refusal,
    /// Store: the free space cannot be determined.
    UnknownSpace,
    /// Store: the mode of a blob file cannot be changed.
    Mode,
    /// Store: an original is missing or damaged.
    Original,
    /// Store: a stored message cannot be read.
    Message,
    /// Store: an event cannot be read.
    Event,
    /// Store: a connection to PostgreSQL does not respond.
    Silent,
    /// Store: no PostgreSQL server of several can be written to.
    Leaderless,
    /// Store: a PostgreSQL server can be written to, and another one was promoted later.
    Replaced,
    /// System: the gauges of the store cannot be read.
    Gauges,
    /// Intake: the store failed for this cause; the sender is asked to retry.
    Deferred(&'static str),
    /// Intake: a provider's request was refused because of the account's settings.
    Provider,
    /// Intake and relays: an account's own setting or secret cannot be used.
    Relay,
    /// Intake and relays: an attempt was not recorded.
    RelayAttempt,
    /// Relays: the queue of attempts to record is full.
    RelayQueue,
    /// Traces: spans were not exported.
    Traces,
}

/// Decides which lines are due. Clones share their state.
#[derive(Clone)]
pub struct Repeats {
    now: Arc<dyn Fn() -> Duration + Send + Sync>,
    seen: Arc<Mutex<BTreeMap<LogCause, Seen>>>,
}

#[derive(Clone, Copy)]
struct Seen {
    told: Duration,
    /// Lines left out since then.
    left_out: u64,
}

impl Default for Repeats {
    fn default() -> Self {
        let began = Instant::now();
        Self::by(move || began.elapsed())
    }
}

impl Repeats {
    /// Uses a clock that tells how long it has run.
    pub fn by(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self { now: Arc::new(now), seen: Arc::default() }
    }

    /// Returns the number of lines left out if a line of this cause is due now; else counts it as
    /// left out and returns None.
    pub fn due(&self, cause: LogCause) -> Option<u64> {
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
            (5, LogCause::ShortOfSpace, Some(0)),
            (5, LogCause::ShortOfSpace, None),
            // Other causes and other paths count for themselves.
            (6, LogCause::Group, Some(0)),
            (6, LogCause::Request("/a"), Some(0)),
            (6, LogCause::Request("/b"), Some(0)),
            (6, LogCause::Request("/a"), None),
            (64, LogCause::ShortOfSpace, None),
            (65, LogCause::ShortOfSpace, Some(2)),
            (65, LogCause::ShortOfSpace, None),
            (500, LogCause::ShortOfSpace, Some(1)),
            (500, LogCause::Group, Some(0)),
        ] {
            seconds.store(at, Ordering::SeqCst);
            assert_eq!(repeats.due(cause), due, "{at} {cause:?}");
        }
    }
}
