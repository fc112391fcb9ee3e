//! `policies/inbound.toml`: bounds on posts of providers. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
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
    ahead_seconds: u64,
    pub tokens: usize,
    pub certificates: usize,
}

impl Proofs {
    /// The greatest age of a signature that covers the message.
    pub const fn covering(&self) -> Duration {
        Duration::from_secs(self.covering_seconds)
    }

    /// The greatest age of a signature that does not cover the message.
    pub const fn bare(&self) -> Duration {
        Duration::from_secs(self.bare_seconds)
    }

    /// How far a provider's clock may be ahead.
    pub const fn ahead(&self) -> Duration {
        Duration::from_secs(self.ahead_seconds)
    }
}

impl InboundRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("inbound.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let (requests, proofs) = (&self.requests, &self.proofs);
        check("requests.max_at_once", wide(requests.max_at_once), 1, 10_000)?;
        check("requests.max_large", wide(requests.max_large), 1, 1000)?;
        check("requests.message_times", wide(requests.message_times), 1, 10)?;
        check("requests.max_recipients", wide(requests.max_recipients), 1, 1000)?;
        let application = &self.application;
        check("application.wait_seconds", application.wait_seconds, 1, 60)?;
        check("application.ses_wait_seconds", application.ses_wait_seconds, 1, 14)?;
        check("application.passes", wide(application.passes), 1, 10_000_000)?;
        check("proofs.covering_seconds", proofs.covering_seconds, 60, 604_800)?;
        check("proofs.bare_seconds", proofs.bare_seconds, 60, 604_800)?;
        check("proofs.ahead_seconds", proofs.ahead_seconds, 0, 3600)?;
        check("proofs.tokens", wide(proofs.tokens), 1, 10_000_000)?;
        check("proofs.certificates", wide(proofs.certificates), 1, 1000)
    }
}
