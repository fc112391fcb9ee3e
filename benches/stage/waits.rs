//! Durations of a repeated operation.

use std::time::Duration;

use serde_json::{Value, json};

/// Sorted.
pub struct Waits(Vec<Duration>);

impl Waits {
    /// Panics on an empty list.
    pub fn new(mut waits: Vec<Duration>) -> Self {
        assert!(!waits.is_empty(), "nothing was measured");
        waits.sort_unstable();
        Self(waits)
    }

    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// The percentile, in milliseconds.
    pub fn millis(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1000.0
    }

    pub fn json(&self) -> Value {
        let micros = |percent| (self.millis(percent) * 1000.0).round();
        json!({
            "count": self.count(), "p50Micros": micros(50), "p99Micros": micros(99),
            "maxMicros": micros(100),
        })
    }
}
