//! `policies/acme.toml`: when a certificate is ordered, and bounds on the requests. The file
//! explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcmeRules {
    pub renewal: Renewal,
    pub retries: Retries,
    pub attempt: Attempt,
    pub challenges: Challenges,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    pub after_percent: u32,
    pub jitter_percent: u32,
    check_seconds: u64,
}

impl Renewal {
    pub const fn check(&self) -> Duration {
        Duration::from_secs(self.check_seconds)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retries {
    wait_seconds: Vec<u64>,
    jitter_percent: u32,
}

impl Retries {
    /// Returns the waits after failures as a schedule, and their number.
    pub fn schedule(&self) -> (crate::domain::retry::Schedule, u32) {
        let waits: Vec<_> = self.wait_seconds.iter().copied().map(Duration::from_secs).collect();
        let number = u32::try_from(waits.len()).unwrap_or(u32::MAX);
        (crate::domain::retry::Schedule::new(waits, self.jitter_percent), number)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    timeout_seconds: u64,
    patience_seconds: u64,
    request_seconds: u64,
    connect_seconds: u64,
    pub max_response_bytes: usize,
}

impl Attempt {
    pub const fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }

    pub const fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds)
    }

    pub const fn request(&self) -> Duration {
        Duration::from_secs(self.request_seconds)
    }

    pub const fn connect(&self) -> Duration {
        Duration::from_secs(self.connect_seconds)
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenges {
    pub max_connections: usize,
    connection_seconds: u64,
    header_seconds: u64,
    pub max_header_bytes: usize,
}

impl Challenges {
    pub const fn connection(&self) -> Duration {
        Duration::from_secs(self.connection_seconds)
    }

    pub const fn header(&self) -> Duration {
        Duration::from_secs(self.header_seconds)
    }
}

impl AcmeRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let file = "acme.toml";
        let check = |key, value, low, high| within(file, key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let renewal = &self.renewal;
        check("renewal.after_percent", renewal.after_percent.into(), 10, 90)?;
        check("renewal.jitter_percent", renewal.jitter_percent.into(), 0, 10)?;
        check("renewal.check_seconds", renewal.check_seconds, 1, 86_400)?;
        let waits = &self.retries.wait_seconds;
        check("retries.wait_seconds (count)", wide(waits.len()), 1, 100)?;
        for (index, wait) in waits.iter().enumerate() {
            within(file, format!("retries.wait_seconds[{index}]"), *wait, 1, 604_800)?;
        }
        check("retries.jitter_percent", self.retries.jitter_percent.into(), 0, 100)?;
        let attempt = &self.attempt;
        check("attempt.timeout_seconds", attempt.timeout_seconds, 10, 3600)?;
        check("attempt.patience_seconds", attempt.patience_seconds, 1, 600)?;
        check("attempt.request_seconds", attempt.request_seconds, 1, 300)?;
        check("attempt.connect_seconds", attempt.connect_seconds, 1, attempt.request_seconds)?;
        let response = wide(attempt.max_response_bytes);
        check("attempt.max_response_bytes", response, 4096, 1 << 24)?;
        let challenges = &self.challenges;
        check("challenges.max_connections", wide(challenges.max_connections), 1, 10_000)?;
        check("challenges.connection_seconds", challenges.connection_seconds, 1, 300)?;
        let longest = challenges.connection_seconds;
        check("challenges.header_seconds", challenges.header_seconds, 1, longest)?;
        check("challenges.max_header_bytes", wide(challenges.max_header_bytes), 8192, 1 << 20)
    }
}
