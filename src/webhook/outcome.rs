//! Decides the outcome of an attempt. Pure.

use std::time::Duration;

use crate::domain::clock::Timestamp;
use crate::domain::delivery::Outcome;
use crate::domain::retry::Schedule;
use crate::metrics::AttemptOutcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverResponse {
    /// None if no HTTP response came.
    pub status: Option<u16>,
    pub retry_after: Option<Duration>,
}

/// Decides by status alone: 2xx is delivered, 410 is gone, everything else is retried as long as
/// the schedule has a wait left (contract §5). `attempts` counts those before this one, `now` is
/// its end, and `luck` (0 … 65535) picks the jitter.
pub fn decide(
    answer: ReceiverResponse,
    attempts: u32,
    schedule: &Schedule,
    now: Timestamp,
    luck: u16,
) -> Outcome {
    match answer.status {
        Some(200..=299) => Outcome::Delivered,
        Some(410) => Outcome::Gone,
        _ => match schedule.wait(attempts.saturating_add(1), answer.retry_after, luck) {
            Some(wait) => Outcome::RetryAt(now.plus(wait)),
            None => Outcome::Exhausted,
        },
    }
}

/// The outcome as metrics and logs name it.
pub const fn named(outcome: Outcome) -> AttemptOutcome {
    match outcome {
        Outcome::Delivered => AttemptOutcome::Delivered,
        Outcome::RetryAt(_) => AttemptOutcome::Retry,
        Outcome::Exhausted => AttemptOutcome::Exhausted,
        Outcome::Gone => AttemptOutcome::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn outcome(status: Option<u16>, attempts: u32, retry_after: Option<u64>) -> Outcome {
        let retry_after = retry_after.map(Duration::from_secs);
        let schedule = Rules::defaults().unwrap().webhooks.retries.schedule();
        decide(ReceiverResponse { status, retry_after }, attempts, &schedule, NOW, 0)
    }

    fn after(seconds: u64) -> Outcome {
        Outcome::RetryAt(NOW.plus(Duration::from_secs(seconds)))
    }

    #[test]
    fn the_status_decides() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(outcome(Some(status), 0, None), Outcome::Delivered, "{status}");
        }
        assert_eq!(outcome(Some(410), 0, None), Outcome::Gone);
        for status in [100, 199, 300, 301, 302, 307, 308, 400, 401, 404, 409, 411, 429, 500, 503] {
            assert_eq!(outcome(Some(status), 0, None), after(5), "{status}");
        }
        assert_eq!(outcome(None, 0, None), after(5));
    }

    #[test]
    fn the_waits_are_those_of_the_contract_and_end_after_ten_attempts() {
        let hour = 3600;
        let waits = [5, 300, 1800, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour];
        for (attempts, wait) in (0..).zip(waits) {
            assert_eq!(outcome(Some(500), attempts, None), after(wait), "{attempts}");
        }
        assert_eq!(outcome(Some(500), 9, None), Outcome::Exhausted);
        assert_eq!(outcome(None, u32::MAX, None), Outcome::Exhausted);
        assert_eq!(outcome(Some(200), 9, None), Outcome::Delivered);
        assert_eq!(outcome(Some(410), 9, None), Outcome::Gone);
    }

    #[test]
    fn retry_after_lengthens_a_wait_but_saves_no_exhausted_delivery() {
        assert_eq!(outcome(Some(503), 0, Some(60)), after(60));
        assert_eq!(outcome(Some(429), 0, Some(1)), after(5));
        assert_eq!(outcome(Some(503), 0, Some(u64::MAX)), after(86_400));
        assert_eq!(outcome(Some(503), 9, Some(60)), Outcome::Exhausted);
    }
}
