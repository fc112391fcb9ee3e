//! `policies/webhooks.toml`: schedule, timeouts, sizes. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::waits::Waits;
use super::{RulesError, wide};
use crate::domain::custom_header::HeaderBounds;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebhookRules {
    #[serde(rename = "schedule")]
    pub retries: Waits,
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
pub struct Attempt {
    timeout_seconds: u64,
    connect_timeout_seconds: u64,
    pub max_response_bytes: usize,
    pub kept_response_bytes: usize,
    pub shown_per_delivery: u32,
}

impl Attempt {
    durations! {
        timeout = seconds(timeout_seconds);
        connect_timeout = seconds(connect_timeout_seconds);
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
    durations! {
        lease = seconds(lease_seconds);
        /// An attempt that takes longer is slow.
        slow = millis(slow_millis);
        poll = millis(poll_millis);
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
    durations! {
        /// Time for which a replaced secret also signs.
        overlap = hours(overlap_hours);
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
        self.retries.validate("webhooks.toml", "schedule", 1..=100, 0..=30 * 86_400)?;
        ranges!("webhooks.toml", attempt of self.attempt, {
            timeout_seconds: 1..=300;
            connect_timeout_seconds: 1..=60;
            max_response_bytes: 0..=1 << 24;
            kept_response_bytes: 0..=65_536;
            shown_per_delivery: 1..=100;
        })?;
        ranges!("webhooks.toml", dispatcher of self.dispatcher, {
            concurrency: 1..=10_000;
            concurrency_per_destination: 1..=1000;
            slow_millis: 1..=300_000;
            concurrency_slow: 1..=10_000;
            remembered_destinations: 1..=1_000_000;
            claim_batch: 1..=1000;
            lease_seconds: self.attempt.timeout_seconds + 1..=3600;
            poll_millis: 10..=60_000;
        })?;
        self.check_breaker()?;
        ranges!("webhooks.toml", egress of self.egress, {
            max_url_bytes: 16..=65_536;
        })?;
        ranges!("webhooks.toml", headers of self.headers, {
            max_per_destination: 0..=100;
            max_name_bytes: 1..=256;
            max_value_bytes: 1..=8192;
        })?;
        ranges!("webhooks.toml", rotation of self.rotation, {
            overlap_hours: 1..=168;
            max_former: 1..=10;
        })?;
        ranges!("webhooks.toml", replays of self.replays, {
            max_per_destination: 1..=100;
        })?;
        ranges!("webhooks.toml", payload of self.payload, {
            max_text_bytes: 100..=1 << 20;
            preview_bytes: 0..=wide(self.payload.max_text_bytes);
            max_body_bytes: 4096..=1 << 24;
        })
    }

    fn check_breaker(&self) -> Result<(), RulesError> {
        let longest_wait = self.retries.longest_seconds().div_ceil(3600).max(1);
        ranges!("webhooks.toml", breaker of self.breaker, {
            failures: 1..=10_000;
            rest_seconds: 1..=3600;
            longest_rest_seconds: self.breaker.rest_seconds..=86_400;
            disable_after_hours: 1..=8760;
            // Failures must be remembered longer than the longest wait between two attempts.
            forget_failures_after_hours: longest_wait..=8760;
        })
    }
}
