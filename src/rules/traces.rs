//! `policies/traces.toml`: what waits for the collector of traces, and how it is sent. The file
//! explains each number.

use serde::Deserialize;

use super::RulesError;
use super::waits::Waits;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRules {
    pub queue: Queue,
    pub batch: Batch,
    pub request: Request,
    pub retries: Waits,
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
        self.retries.validate("traces.toml", "retries", 0..=20, 1..=300)?;
        ranges!("traces.toml", stop of self.stop, {
            flush_seconds: 0..=60;
        })
    }
}
