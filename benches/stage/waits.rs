//! How long something took, many times.

use std::time::Duration;

use serde_json::{Value, json};

/// Sorted.
pub struct Waits(Vec<Duration>);

impl Waits {
    /// Takes at least one.
    pub fn new(mut waits: Vec<Duration>) -> Self {
        assert!(!waits.is_empty(), "nothing was measured");
        waits.sort_unstable();
        Self(waits)
    }

    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// As long as so many percent of them took at most, in milliseconds.
    pub fn millis(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100].as_secs_f64() * 1000.0
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let micros = |percent| (self.millis(percent) * 1000.0).round();
        json!({
            "count": self.count(), "p50Micros": micros(50), "p99Micros": micros(99),
            "maxMicros": micros(100),
        })
    }
}
