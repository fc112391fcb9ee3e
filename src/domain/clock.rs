//! Time as a value. The program reads time only through a [`Clock`] that it was given.
//!
//! A clock has two times. The wall clock ([`Clock::now`]) is for people and strangers: dates,
//! signatures, certificates. Anybody may set it, so no timer depends on it. Timers and deadlines
//! use steady time ([`Clock::steady`]), which never goes back and never jumps.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use jiff::SignedDuration;
use jiff::civil::DateTime;

pub(super) const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Milliseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A range of time, without a bound where one is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    /// The first moment in it.
    pub since: Option<Timestamp>,
    /// The first moment after it.
    pub before: Option<Timestamp>,
}

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    pub fn from_utc(at: DateTime) -> Self {
        let millis = at.duration_since(EPOCH).as_nanos().div_euclid(1_000_000);
        Self(i64::try_from(millis).unwrap_or(i64::MAX))
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Date and time in UTC; beyond the year 9999, the last instant of that year.
    pub fn utc(self) -> DateTime {
        EPOCH.saturating_add(SignedDuration::from_millis(self.0))
    }

    /// Adds `duration`; saturates at the end of time.
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// Subtracts `duration`; saturates at the beginning of time.
    pub fn minus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        Self(self.0.saturating_sub(millis))
    }
}

/// ISO 8601 in UTC with milliseconds: `2026-11-20T10:00:00.000Z` (contract §1).
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}Z", self.utc())
    }
}

type Source = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Tolerance in milliseconds when two clocks are compared: they cannot be read at the same instant.
const SAME_MILLIS: i64 = 1000;

/// Two clocks that were read within this time are compared; after so many reads, the closest are.
const CLOSE_MILLIS: i64 = 100;
const MOST_READS: usize = 8;

/// The source of the present. Production passes the system's clocks, tests pass their own. Clones
/// share the offset of steady time.
#[derive(Clone)]
pub struct Clock {
    wall: Source,
    steady: Source,
    kept: Arc<ClockState>,
}

/// Shared state of the clones, in milliseconds except for `steps`.
#[derive(Default)]
struct ClockState {
    /// Added to the steady source to get steady time, which began before this process.
    offset: AtomicI64,
    is_aligned: AtomicBool,
    /// How far the wall clock was ahead of steady time at the last [`Clock::look`].
    ahead: AtomicI64,
    steps: AtomicU64,
}

impl Clock {
    /// Returns a clock whose wall time and steady time both come from `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        let wall: Source = Arc::new(now);
        Self { steady: Arc::clone(&wall), wall, kept: Arc::default() }
    }

    /// Returns a clock with two sources. `steady` must never go back or jump. Both must count from
    /// the same epoch.
    pub fn beside(
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
        steady: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        Self { wall: Arc::new(wall), steady: Arc::new(steady), kept: Arc::default() }
    }

    /// The present by the wall clock.
    pub fn now(&self) -> Timestamp {
        (self.wall)()
    }

    /// The present in steady time, which no step of the wall clock moves. Gateways on one store
    /// share it, and it continues after a restart.
    pub fn steady(&self) -> Timestamp {
        let offset = self.kept.offset.load(Ordering::SeqCst);
        Timestamp((self.steady)().0.saturating_add(offset))
    }

    /// Adopts the steady time of the store. The first call sets any value; later calls only move
    /// forward, so that no reader sees steady time go back. Not to be called beside [`Self::look`].
    pub fn align(&self, steady: Timestamp) {
        let offset = steady.0.saturating_sub((self.steady)().0);
        let kept = &self.kept;
        if kept.is_aligned.swap(true, Ordering::SeqCst) {
            let before = kept.offset.fetch_max(offset, Ordering::SeqCst);
            let moved = offset.saturating_sub(before).max(0);
            // The wall clock did not step: steady time caught up.
            kept.ahead.fetch_sub(moved, Ordering::SeqCst);
        } else {
            kept.offset.store(offset, Ordering::SeqCst);
            kept.ahead.store(self.difference(), Ordering::SeqCst);
        }
    }

    /// Compares the wall clock with steady time since the last look. Returns the milliseconds by
    /// which the wall clock was set forward (negative: back) if that is `least` or more, and counts
    /// the step; else None.
    pub fn look(&self, least: Duration) -> Option<i64> {
        let ahead = self.difference();
        let step = ahead.saturating_sub(self.kept.ahead.swap(ahead, Ordering::SeqCst));
        let is_step = u128::from(step.unsigned_abs()) >= least.as_millis();
        is_step.then(|| self.kept.steps.fetch_add(1, Ordering::SeqCst)).map(|_| step)
    }

    /// Number of steps of the wall clock that [`Clock::look`] has found.
    pub fn steps(&self) -> u64 {
        self.kept.steps.load(Ordering::SeqCst)
    }

    /// Converts an instant of the wall clock, past or future, to steady time.
    pub fn steady_of(&self, wall: Timestamp) -> Timestamp {
        Timestamp(wall.0.saturating_sub(self.ahead()))
    }

    /// Converts steady time to the wall clock, for people.
    pub fn wall_of(&self, steady: Timestamp) -> Timestamp {
        Timestamp(steady.0.saturating_add(self.ahead()))
    }

    /// Returns the value of the last look, or the present difference if the wall clock has stepped
    /// since.
    fn ahead(&self) -> i64 {
        let (kept, present) = (self.kept.ahead.load(Ordering::SeqCst), self.difference());
        if kept.abs_diff(present) <= SAME_MILLIS.unsigned_abs() { kept } else { present }
    }

    /// Compares two clocks that were read at nearly the same time: a thread that is held up between
    /// the two would take one for set.
    fn difference(&self) -> i64 {
        let read = || {
            let (before, wall) = (self.steady().0, self.now().0);
            (self.steady().0.saturating_sub(before), wall.saturating_sub(before))
        };
        let mut closest = read();
        for _ in 1..MOST_READS {
            if closest.0 <= CLOSE_MILLIS {
                break;
            }
            closest = closest.min(read());
        }
        closest.1
    }
}

/// The wall clock as retention trusts it before it deletes old data. A step back is trusted at
/// once. A step forward is trusted only after the clock has gone on for `calm` without another
/// step; until then the time before the step continues. A clock that was wrong when the process
/// began is not noticed.
#[derive(Clone, Debug)]
pub struct Belief {
    clock: Clock,
    /// Steady time that must pass after a step forward before it is trusted.
    calm: Duration,
    /// Trusted lead of the wall clock over steady time, in milliseconds.
    ahead: i64,
    /// Lead that the wall clock claims after a step forward, and the steady time when it was first
    /// seen.
    claim: Option<(i64, Timestamp)>,
}

impl Belief {
    /// Trusts the clock as it is now.
    pub fn new(clock: Clock, calm: Duration) -> Self {
        let ahead = clock.difference();
        Self { clock, calm, ahead, claim: None }
    }

    /// Returns the present by the trusted wall clock.
    pub fn now(&mut self) -> Timestamp {
        let (ahead, steady) = (self.clock.difference(), self.clock.steady());
        if ahead.saturating_sub(self.ahead) <= SAME_MILLIS {
            (self.ahead, self.claim) = (ahead, None);
        } else {
            let same = |known: i64| known.abs_diff(ahead) <= SAME_MILLIS.unsigned_abs();
            let claim = self.claim.filter(|(known, _)| same(*known));
            let (_, since) = *self.claim.insert(claim.unwrap_or((ahead, steady)));
            if steady >= since.plus(self.calm) {
                (self.ahead, self.claim) = (ahead, None);
            }
        }
        Timestamp(steady.0.saturating_add(self.ahead))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iso_8601_over_leap_days_and_the_epoch() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_718_463_395_123, "2024-06-15T14:56:35.123Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            // Expiry of a certificate that never expires (RFC 5280 §4.1.2.5).
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            let at = Timestamp::from_millis(millis);
            assert_eq!((at.to_string().as_str(), Timestamp::from_utc(at.utc())), (expected, at));
        }
        let last = "9999-12-31T23:59:59.999Z";
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), last);
    }

    const SECOND: i64 = 1000;
    const YEAR: i64 = 365 * 86_400 * SECOND;

    /// Returns a clock with its wall and steady sources.
    fn moved() -> (Clock, Arc<AtomicI64>, Arc<AtomicI64>) {
        let (wall, steady) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let told = |source: &Arc<AtomicI64>| {
            let source = Arc::clone(source);
            move || Timestamp(source.load(Ordering::SeqCst))
        };
        (Clock::beside(told(&wall), told(&steady)), wall, steady)
    }

    fn pass(sources: [&AtomicI64; 2], millis: i64) {
        for source in sources {
            source.fetch_add(millis, Ordering::SeqCst);
        }
    }

    #[test]
    fn steps_of_the_wall_clock_move_no_steady_time_and_are_noticed_once() {
        let (clock, wall, steady) = moved();
        let (least, before) = (Duration::from_secs(2), clock.steady());
        assert_eq!(clock.look(least), None);
        for (number, step) in (1_u64..).zip([YEAR, -YEAR, -3_600_000, 3_600_000, 2 * YEAR]) {
            wall.fetch_add(step, Ordering::SeqCst);
            pass([&wall, &steady], SECOND);
            // Conversion is right even before the step is looked at.
            assert_eq!(clock.steady_of(clock.now()), clock.steady(), "{step}");
            assert_eq!(clock.look(least), Some(step));
            assert_eq!((clock.look(least), clock.steps()), (None, number), "{step}");
            assert_eq!(clock.wall_of(clock.steady()), clock.now(), "{step}");
        }
        assert_eq!(clock.steady().millis() - before.millis(), 5 * SECOND);
        // A daemon that slews the clock makes no step.
        wall.fetch_add(1999, Ordering::SeqCst);
        assert_eq!(clock.look(least), None);
    }

    /// A machine stands still for a while between the look at one clock and that at the other.
    #[test]
    fn a_thread_that_is_held_up_takes_no_clock_for_set() {
        let (time, held) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let (steady, wall, holds) = (Arc::clone(&time), Arc::clone(&time), Arc::clone(&held));
        let wall = move || {
            let pause = holds.swap(0, Ordering::SeqCst);
            Timestamp(wall.fetch_add(pause, Ordering::SeqCst).saturating_add(pause))
        };
        let clock = Clock::beside(wall, move || Timestamp(steady.load(Ordering::SeqCst)));
        for pause in [3 * SECOND, YEAR] {
            held.store(pause, Ordering::SeqCst);
            assert_eq!(clock.look(Duration::from_secs(2)), None);
            assert_eq!(held.load(Ordering::SeqCst), 0, "it was held up");
        }
    }

    #[test]
    fn steady_time_of_a_store_is_taken_up_and_never_goes_back() {
        let (clock, wall, steady) = moved();
        clock.align(Timestamp(-YEAR));
        assert_eq!((clock.steady(), clock.now()), (Timestamp(-YEAR), Timestamp(0)));
        assert_eq!(clock.look(Duration::from_secs(2)), None);
        clock.align(Timestamp(SECOND - YEAR));
        clock.align(Timestamp(-2 * YEAR));
        pass([&wall, &steady], SECOND);
        assert_eq!(clock.steady(), Timestamp(2 * SECOND - YEAR));
        assert_eq!(clock.look(Duration::from_millis(1)), None, "no step of the wall clock");
    }

    #[test]
    fn a_step_forward_is_believed_when_the_clock_has_gone_on_for_long() {
        let (clock, wall, steady) = moved();
        let calm = Duration::from_secs(100);
        let mut belief = Belief::new(clock.clone(), calm);
        let mut goes = |step: i64, seconds: i64| {
            wall.fetch_add(step, Ordering::SeqCst);
            pass([&wall, &steady], seconds * SECOND);
            belief.now().millis()
        };
        assert_eq!(goes(0, 1), SECOND);
        assert_eq!(goes(YEAR, 3), 4 * SECOND, "a year ahead");
        assert_eq!(goes(-YEAR, 1), 5 * SECOND, "and back");
        assert_eq!(goes(-SECOND * 2, 2), 5 * SECOND, "back");
        assert_eq!(goes(YEAR, 50), 55 * SECOND);
        assert_eq!(goes(0, 99), 154 * SECOND);
        // The calm counts from the first sight of the step.
        assert_eq!(goes(0, 1), YEAR + 155 * SECOND);
    }
}
