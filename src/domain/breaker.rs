//! The circuit breaker of a destination: when it rests, and when it is disabled. Arithmetic only.

use std::time::Duration;

use super::clock::Timestamp;
use super::destination::Health;

/// The numbers of `policies/webhooks.toml [breaker]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row after which a destination rests.
    pub failures: u64,
    /// Length of the first rest; each failed probe doubles it, up to `longest_rest`.
    pub rest: Duration,
    pub longest_rest: Duration,
    /// A destination that has failed for this long is disabled.
    pub disable_after: Duration,
    /// A failure that comes later than this after the previous one starts a new run, so that an
    /// outage weeks ago does not count as days of failure.
    pub forget_after: Duration,
}

/// Result of one attempt at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Success,
    Failure {
        at: Timestamp,
        /// The attempt was the probe after a rest.
        probe: bool,
    },
}

/// Consequence for the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// The destination continues, with this health.
    Goes(Health),
    /// The destination is disabled; it has failed since this time.
    GivenUp { since: Timestamp },
}

impl Breaker {
    /// Returns the verdict when an attempt ends. A failure that is no probe and ends during a rest
    /// changes nothing: its attempt began before the rest, and many attempts that time out together
    /// must not lengthen the rest.
    pub fn judge(&self, health: Health, ending: Ending) -> BreakerState {
        let Ending::Failure { at, probe } = ending else {
            return BreakerState::Goes(Health::default());
        };
        if !probe && health.rests_until.is_some_and(|until| until > at) {
            return BreakerState::Goes(health);
        }
        let forgotten = |last: Timestamp| elapsed(last, at) > self.forget_after;
        let health =
            if health.last_failure_at.is_some_and(forgotten) { Health::default() } else { health };
        let since = health.failing_since.unwrap_or(at);
        if elapsed(since, at) >= self.disable_after {
            return BreakerState::GivenUp { since };
        }
        let failures = health.failures.saturating_add(1);
        BreakerState::Goes(Health {
            failures,
            failing_since: Some(since),
            last_failure_at: health.last_failure_at.max(Some(at)),
            rests_until: self.rest_after(failures).map(|rest| at.plus(rest)),
        })
    }

    /// Tells whether a failure at `at` may disable a destination that has failed since `since`.
    pub fn may_give_up(&self, since: Option<Timestamp>, at: Timestamp) -> bool {
        since.is_some_and(|since| elapsed(since, at) >= self.disable_after)
    }

    fn rest_after(&self, failures: u64) -> Option<Duration> {
        let doublings = u32::try_from(failures.checked_sub(self.failures)?).unwrap_or(u32::MAX);
        let rest = self.rest.saturating_mul(2_u32.saturating_pow(doublings));
        Some(rest.min(self.longest_rest))
    }
}

/// Returns zero if the clock went back.
fn elapsed(from: Timestamp, to: Timestamp) -> Duration {
    let millis = to.millis().saturating_sub(from.millis());
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn breaker() -> Breaker {
        Breaker {
            failures: 10,
            rest: Duration::from_secs(5),
            longest_rest: Duration::from_secs(300),
            disable_after: Duration::from_hours(120),
            forget_after: Duration::from_hours(48),
        }
    }

    fn fails(health: Health, millis: i64, probe: bool) -> Health {
        match breaker().judge(health, Ending::Failure { at: at(millis), probe }) {
            BreakerState::Goes(health) => health,
            BreakerState::GivenUp { since } => panic!("given up since {since:?}"),
        }
    }

    fn failed(times: i64) -> Health {
        (0..times).fold(Health::default(), |health, millis| fails(health, millis, false))
    }

    #[test]
    fn rests_grow_from_five_seconds_to_five_minutes() {
        assert_eq!(failed(9).rests_until, None);
        let mut health = failed(10);
        assert_eq!(health.rests_until, Some(at(9 + 5_000)));
        let mut now = 9;
        for seconds in [10, 20, 40, 80, 160, 300, 300, 300] {
            now += HOUR;
            health = fails(health, now, true);
            assert_eq!(health.rests_until, Some(at(now + seconds * 1000)), "{seconds}");
        }
        assert_eq!((health.failures, health.failing_since), (18, Some(at(0))));
        assert_eq!(breaker().judge(health, Ending::Success), BreakerState::Goes(Health::default()));
    }

    #[test]
    fn what_fails_while_it_rests_changes_nothing_but_the_probe_does() {
        let rests = failed(10);
        assert_eq!(fails(rests, 4_000, false), rests);
        assert_eq!(fails(rests, 4_000, true).rests_until, Some(at(14_000)));
        // Began before the rest and ended after it: an ordinary failure.
        assert_eq!(fails(rests, 6_000, false).rests_until, Some(at(16_000)));
    }

    #[test]
    fn five_days_of_failure_are_the_end_and_an_old_outage_is_none() {
        // (failing since, last failure, the next one; hours) → given up?
        for (since, last, next, given_up) in [
            (0, 100, 119, false),
            (0, 100, 120, true),
            (0, 119, 200, false),
            (0, 72, 120, true),
            (0, 71, 120, false),
            (0, 0, 1000, false),
            (100, 100, 50, false),
        ] {
            let health = Health {
                failures: 20,
                failing_since: Some(at(since * HOUR)),
                last_failure_at: Some(at(last * HOUR)),
                rests_until: Some(at(last * HOUR)),
            };
            let ending = Ending::Failure { at: at(next * HOUR), probe: false };
            let verdict = breaker().judge(health, ending);
            let expected = BreakerState::GivenUp { since: at(since * HOUR) };
            assert_eq!(verdict == expected, given_up, "{since} {last} {next}: {verdict:?}");
            if given_up {
                assert!(breaker().may_give_up(health.failing_since, at(next * HOUR)));
            }
        }
        assert!(!breaker().may_give_up(None, at(HOUR)));
        let anew = fails(Health { last_failure_at: Some(at(9)), ..failed(10) }, 100 * HOUR, false);
        assert_eq!((anew.failures, anew.failing_since), (1, Some(at(100 * HOUR))));
        assert_eq!(anew.rests_until, None);
    }

    #[test]
    fn nothing_overflows() {
        let health = Health { failures: u64::MAX, ..failed(10) };
        assert_eq!(fails(health, 1, true).rests_until, Some(at(1 + 300_000)));
    }
}
