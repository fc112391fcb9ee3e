//! When to retry: arithmetic only.

use std::time::Duration;

/// The wait before each attempt of a delivery, the first attempt included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    waits: Vec<Duration>,
    /// Largest random addition to a wait, in percent.
    jitter_percent: u32,
}

impl Schedule {
    pub const fn new(waits: Vec<Duration>, jitter_percent: u32) -> Self {
        Self { waits, jitter_percent }
    }

    /// Returns the wait before the attempt that follows `attempts` failed ones; None if no attempts
    /// are left. `luck` (0 … 65535) picks the jitter, which spreads out receivers that failed
    /// together. A receiver's `retry_after` is used if it is longer, up to the longest wait of the
    /// schedule.
    pub fn wait(
        &self,
        attempts: u32,
        retry_after: Option<Duration>,
        luck: u16,
    ) -> Option<Duration> {
        let wait = *self.waits.get(usize::try_from(attempts).ok()?)?;
        let longest = self.waits.iter().copied().max().unwrap_or_default();
        let asked = retry_after.unwrap_or_default().min(longest);
        let base = wait.max(asked);
        let spread = base * self.jitter_percent / 100;
        Some(base + spread * u32::from(luck) / u32::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule() -> Schedule {
        Schedule::new(vec![Duration::ZERO, SECOND * 5, SECOND * 300], 10)
    }

    #[test]
    fn follows_the_waits_and_ends() {
        assert_eq!(schedule().wait(0, None, 0), Some(Duration::ZERO));
        assert_eq!(schedule().wait(1, None, 0), Some(SECOND * 5));
        assert_eq!(schedule().wait(2, None, u16::MAX), Some(SECOND * 330));
        assert_eq!(schedule().wait(3, None, 0), None);
    }

    #[test]
    fn a_receiver_may_ask_for_more_but_not_for_ever() {
        assert_eq!(schedule().wait(1, Some(SECOND * 60), 0), Some(SECOND * 60));
        assert_eq!(schedule().wait(1, Some(SECOND), 0), Some(SECOND * 5));
        assert_eq!(schedule().wait(1, Some(SECOND * 999_999), 0), Some(SECOND * 300));
    }
}
