//! Waits before retries, as several files have them.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
use crate::domain::retry::Schedule;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waits {
    wait_seconds: Vec<u64>,
    jitter_percent: u32,
}

impl Waits {
    pub fn schedule(&self) -> Schedule {
        let waits = self.wait_seconds.iter().copied().map(Duration::from_secs).collect();
        Schedule::new(waits, self.jitter_percent)
    }

    /// Returns how many waits there are.
    pub const fn count(&self) -> usize {
        self.wait_seconds.len()
    }

    /// The longest wait, with its jitter.
    pub(super) fn longest_seconds(&self) -> u64 {
        let longest = self.wait_seconds.iter().copied().max().unwrap_or_default();
        longest.saturating_mul(u64::from(self.jitter_percent) + 100).div_ceil(100)
    }

    /// Checks how many waits there are in this section, and how long each is.
    pub(super) fn validate(
        &self,
        file: &'static str,
        section: &str,
        count: RangeInclusive<u64>,
        each: RangeInclusive<u64>,
    ) -> Result<(), RulesError> {
        within(file, format!("{section}.wait_seconds (count)"), self.count(), count)?;
        for (index, wait) in self.wait_seconds.iter().enumerate() {
            within(file, format!("{section}.wait_seconds[{index}]"), *wait, each.clone())?;
        }
        within(file, format!("{section}.jitter_percent"), self.jitter_percent, 0..=100)
    }
}
