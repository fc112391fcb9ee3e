//! `policies/traces.toml`: what waits for the collector of traces, and how it is sent. The file
//! explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
use crate::domain::retry::Schedule;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRules {
    pub queue: Queue,
    pub batch: Batch,
    pub request: Request,
    pub retries: Retries,
    pub stop: Stop,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub max_waiting_spans: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    pub max_spans: usize,
    every_millis: u64,
}

impl Batch {
    durations! {
        every = millis(every_millis);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    timeout_seconds: u64,
    connect_seconds: u64,
    pub max_response_bytes: usize,
}

impl Request {
    durations! {
        timeout = seconds(timeout_seconds);
        connect = seconds(connect_seconds);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    wait_seconds: Vec<u64>,
    jitter_percent: u32,
}

impl Retries {
    /// Returns the waits before a batch is sent again.
    pub fn schedule(&self) -> Schedule {
        let waits = self.wait_seconds.iter().copied().map(Duration::from_secs).collect();
        Schedule::new(waits, self.jitter_percent)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    flush_seconds: u64,
}

impl Stop {
    durations! {
        flush = seconds(flush_seconds);
    }
}

impl TraceRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let file = "traces.toml";
        ranges!("traces.toml", queue of self.queue, {
            max_waiting_spans: 1..=1_000_000;
        })?;
        ranges!("traces.toml", batch of self.batch, {
            max_spans: 1..=100_000;
            every_millis: 10..=60_000;
        })?;
        ranges!("traces.toml", request of self.request, {
            timeout_seconds: 1..=300;
            connect_seconds: 1..=self.request.timeout_seconds;
            max_response_bytes: 1024..=1 << 20;
        })?;
        let waits = &self.retries.wait_seconds;
        within(file, "retries.wait_seconds (count)", waits.len(), 0..=20)?;
        for (index, wait) in waits.iter().enumerate() {
            within(file, format!("retries.wait_seconds[{index}]"), *wait, 1..=300)?;
        }
        ranges!("traces.toml", retries of self.retries, {
            jitter_percent: 0..=100;
        })?;
        ranges!("traces.toml", stop of self.stop, {
            flush_seconds: 0..=60;
        })
    }
}
