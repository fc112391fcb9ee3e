//! `policies/inbound.toml`: bounds on posts of providers. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::RulesError;
use crate::domain::relay::RelayType;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InboundRules {
    pub requests: Requests,
    pub application: Application,
    pub proofs: Proofs,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    pub max_at_once: usize,
    pub max_large: usize,
    pub message_times: usize,
    pub max_recipients: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    wait_seconds: u64,
    ses_wait_seconds: u64,
    pub passes: usize,
}

impl Application {
    /// Time for the response to a post of this provider.
    pub const fn patience(&self, kind: RelayType) -> Duration {
        match kind {
            RelayType::Ses => Duration::from_secs(self.ses_wait_seconds),
            _ => Duration::from_secs(self.wait_seconds),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proofs {
    covering_seconds: u64,
    bare_seconds: u64,
    signed_seconds: u64,
    ahead_seconds: u64,
    pub tokens: usize,
    pub certificates: usize,
}

impl Proofs {
    durations! {
        /// The greatest age of a signature that covers the message.
        covering = seconds(covering_seconds);
        /// The greatest age of a signature that does not cover the message.
        bare = seconds(bare_seconds);
        /// The greatest age of an adapter's signature.
        signed = seconds(signed_seconds);
        /// How far a provider's clock may be ahead.
        ahead = seconds(ahead_seconds);
    }
}

impl InboundRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("inbound.toml", requests of self.requests, {
            max_at_once: 1..=10_000;
            max_large: 1..=1000;
            message_times: 1..=10;
            max_recipients: 1..=1000;
        })?;
        ranges!("inbound.toml", application of self.application, {
            wait_seconds: 1..=60;
            ses_wait_seconds: 1..=14;
            passes: 1..=10_000_000;
        })?;
        ranges!("inbound.toml", proofs of self.proofs, {
            covering_seconds: 60..=604_800;
            bare_seconds: 60..=604_800;
            signed_seconds: 60..=3600;
            ahead_seconds: 0..=3600;
            tokens: 1..=10_000_000;
            certificates: 1..=1000;
        })
    }
}
