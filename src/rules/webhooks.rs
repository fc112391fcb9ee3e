//! `policies/webhooks.toml`: schedule, timeouts, sizes. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
use crate::domain::custom_header::HeaderBounds;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookRules {
    pub schedule: Schedule,
    pub attempt: Attempt,
    pub dispatcher: Dispatcher,
    pub breaker: Breaker,
    pub payload: Payload,
    pub egress: Egress,
    headers: Headers,
    pub rotation: Rotation,
    pub replays: Replays,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    wait_seconds: Vec<u64>,
    jitter_percent: u32,
}

impl Schedule {
    /// Returns the schedule of retries.
    pub fn retries(&self) -> crate::domain::retry::Schedule {
        let waits = self.wait_seconds.iter().copied().map(Duration::from_secs).collect();
        crate::domain::retry::Schedule::new(waits, self.jitter_percent)
    }

    /// The longest wait of a delivery for its next attempt.
    pub fn longest_wait(&self) -> Duration {
        Duration::from_secs(self.longest_wait_seconds())
    }

    fn longest_wait_seconds(&self) -> u64 {
        let longest = self.wait_seconds.iter().copied().max().unwrap_or_default();
        longest.saturating_mul(u64::from(self.jitter_percent) + 100).div_ceil(100)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    timeout_seconds: u64,
    connect_timeout_seconds: u64,
    pub max_response_bytes: usize,
    pub kept_response_bytes: usize,
    pub shown_per_delivery: u32,
}

impl Attempt {
    pub const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    pub const fn connect_timeout(&self) -> Duration {
        Duration::from_secs(self.connect_timeout_seconds)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dispatcher {
    pub concurrency: usize,
    pub concurrency_per_destination: usize,
    slow_millis: u64,
    pub concurrency_slow: usize,
    pub remembered_destinations: usize,
    pub claim_batch: usize,
    lease_seconds: u64,
    poll_millis: u64,
}

impl Dispatcher {
    pub const fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_seconds)
    }

    /// An attempt that takes longer is slow.
    pub const fn slow(&self) -> Duration {
        Duration::from_millis(self.slow_millis)
    }

    pub const fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_millis)
    }
}

/// When deliveries to a failing destination pause.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    failures: u64,
    rest_seconds: u64,
    longest_rest_seconds: u64,
    disable_after_hours: u64,
    forget_failures_after_hours: u64,
}

impl Breaker {
    pub const fn numbers(&self) -> crate::domain::breaker::Breaker {
        crate::domain::breaker::Breaker {
            failures: self.failures,
            rest: Duration::from_secs(self.rest_seconds),
            longest_rest: Duration::from_secs(self.longest_rest_seconds),
            disable_after: Duration::from_secs(self.disable_after_hours * 3600),
            forget_after: Duration::from_secs(self.forget_failures_after_hours * 3600),
        }
    }
}

/// Bounds on bodies of events and their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    pub max_text_bytes: usize,
    pub preview_bytes: usize,
    pub max_body_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    pub max_url_bytes: usize,
    pub ports: Vec<u16>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Headers {
    max_per_destination: usize,
    max_name_bytes: usize,
    max_value_bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    overlap_hours: u64,
    pub max_former: usize,
}

impl Rotation {
    /// Time for which a replaced secret also signs.
    pub const fn overlap(&self) -> Duration {
        Duration::from_secs(self.overlap_hours * 3600)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replays {
    pub max_per_destination: u64,
}

impl WebhookRules {
    /// Bounds on the header fields that a customer may add.
    pub const fn header_bounds(&self) -> HeaderBounds {
        let Headers { max_per_destination, max_name_bytes, max_value_bytes } = self.headers;
        let (name, value) = (max_name_bytes, max_value_bytes);
        HeaderBounds { count: max_per_destination, name, value, authorization: false }
    }

    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("webhooks.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (attempt, dispatcher) = (&self.attempt, &self.dispatcher);
        check("schedule.wait_seconds (count)", wide(self.schedule.wait_seconds.len()), 1, 100)?;
        for wait in &self.schedule.wait_seconds {
            check("schedule.wait_seconds", *wait, 0, 30 * 86_400)?;
        }
        check("schedule.jitter_percent", self.schedule.jitter_percent.into(), 0, 100)?;
        check("attempt.timeout_seconds", attempt.timeout_seconds, 1, 300)?;
        check("attempt.connect_timeout_seconds", attempt.connect_timeout_seconds, 1, 60)?;
        check("attempt.max_response_bytes", wide(attempt.max_response_bytes), 0, 1 << 24)?;
        check("attempt.kept_response_bytes", wide(attempt.kept_response_bytes), 0, 65_536)?;
        check("dispatcher.concurrency", wide(dispatcher.concurrency), 1, 10_000)?;
        let per_destination = wide(dispatcher.concurrency_per_destination);
        check("dispatcher.concurrency_per_destination", per_destination, 1, 1000)?;
        check("dispatcher.slow_millis", dispatcher.slow_millis, 1, 300_000)?;
        check("dispatcher.concurrency_slow", wide(dispatcher.concurrency_slow), 1, 10_000)?;
        let remembered = wide(dispatcher.remembered_destinations);
        check("dispatcher.remembered_destinations", remembered, 1, 1_000_000)?;
        check("dispatcher.claim_batch", wide(dispatcher.claim_batch), 1, 1000)?;
        let lease = dispatcher.lease_seconds;
        check("dispatcher.lease_seconds", lease, attempt.timeout_seconds + 1, 3600)?;
        check("dispatcher.poll_millis", dispatcher.poll_millis, 10, 60_000)?;
        self.check_breaker()?;
        check("egress.max_url_bytes", wide(self.egress.max_url_bytes), 16, 65_536)?;
        let (headers, rotation) = (&self.headers, &self.rotation);
        check("attempt.shown_per_delivery", attempt.shown_per_delivery.into(), 1, 100)?;
        check("headers.max_per_destination", wide(headers.max_per_destination), 0, 100)?;
        check("headers.max_name_bytes", wide(headers.max_name_bytes), 1, 256)?;
        check("headers.max_value_bytes", wide(headers.max_value_bytes), 1, 8192)?;
        check("rotation.overlap_hours", rotation.overlap_hours, 1, 168)?;
        check("rotation.max_former", wide(rotation.max_former), 1, 10)?;
        check("replays.max_per_destination", self.replays.max_per_destination, 1, 100)?;
        let payload = &self.payload;
        check("payload.max_text_bytes", wide(payload.max_text_bytes), 100, 1 << 20)?;
        let preview = wide(payload.preview_bytes);
        check("payload.preview_bytes", preview, 0, wide(payload.max_text_bytes))?;
        check("payload.max_body_bytes", wide(payload.max_body_bytes), 4096, 1 << 24)
    }

    fn check_breaker(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("webhooks.toml", key, value, low, high);
        let Breaker { failures, rest_seconds, longest_rest_seconds, .. } = self.breaker;
        check("breaker.failures", failures, 1, 10_000)?;
        check("breaker.rest_seconds", rest_seconds, 1, 3600)?;
        check("breaker.longest_rest_seconds", longest_rest_seconds, rest_seconds, 86_400)?;
        check("breaker.disable_after_hours", self.breaker.disable_after_hours, 1, 8760)?;
        // Failures must be remembered longer than the longest wait between two attempts.
        let longest = self.schedule.longest_wait_seconds().div_ceil(3600).max(1);
        let forget = self.breaker.forget_failures_after_hours;
        check("breaker.forget_failures_after_hours", forget, longest, 8760)
    }
}
