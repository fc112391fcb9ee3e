//! `policies/acme.toml`: when a certificate is ordered, and bounds on the requests. The file
//! explains each number.

use serde::Deserialize;

use super::RulesError;
use super::waits::Waits;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcmeRules {
    pub renewal: Renewal,
    pub retries: Waits,
    pub attempt: Attempt,
    pub challenges: Challenges,
    pub policy_hosts: PolicyHosts,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    pub after_percent: u32,
    pub jitter_percent: u32,
    check_seconds: u64,
    ask_seconds: u64,
    ask_least_seconds: u64,
    least_age_seconds: u64,
}

impl Renewal {
    durations! {
        check = seconds(check_seconds);
        /// When the authority is asked for its window again, if it does not say when.
        ask = seconds(ask_seconds);
        ask_least = seconds(ask_least_seconds);
        least_age = seconds(least_age_seconds);
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
    durations! {
        timeout = seconds(timeout_seconds);
        patience = seconds(patience_seconds);
        request = seconds(request_seconds);
        connect = seconds(connect_seconds);
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
    durations! {
        connection = seconds(connection_seconds);
        header = seconds(header_seconds);
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyHosts {
    pub max_certificates: usize,
    pub orders_per_hour: usize,
    pub max_at_once: usize,
    look_seconds: u64,
}

impl PolicyHosts {
    durations! {
        look = seconds(look_seconds);
    }
}

impl AcmeRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("acme.toml", renewal of self.renewal, {
            after_percent: 10..=90;
            jitter_percent: 0..=10;
            check_seconds: 1..=86_400;
            ask_seconds: 60..=86_400;
            ask_least_seconds: 1..=86_400;
            least_age_seconds: 0..=604_800;
        })?;
        self.retries.validate("acme.toml", "retries", 1..=100, 1..=604_800)?;
        ranges!("acme.toml", attempt of self.attempt, {
            timeout_seconds: 10..=3600;
            patience_seconds: 1..=600;
            request_seconds: 1..=300;
            connect_seconds: 1..=self.attempt.request_seconds;
            max_response_bytes: 4096..=1 << 24;
        })?;
        ranges!("acme.toml", challenges of self.challenges, {
            max_connections: 1..=10_000;
            connection_seconds: 1..=300;
            header_seconds: 1..=self.challenges.connection_seconds;
            max_header_bytes: 8192..=1 << 20;
        })?;
        ranges!("acme.toml", policy_hosts of self.policy_hosts, {
            max_certificates: 1..=100_000;
            orders_per_hour: 1..=10_000;
            max_at_once: 1..=100;
            look_seconds: 1..=86_400;
        })
    }
}
