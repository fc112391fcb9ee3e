//! `[tls_reports]` of `policies/access.toml`: bounds on reports of senders. The file explains each
//! number.

use serde::{Deserialize, Serialize};

use super::{RulesError, wide};

/// Bounds on reports of senders (RFC 8460), which anybody may hand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TlsReportRules {
    pub max_bytes: usize,
    pub max_unpacked_bytes: usize,
    pub max_policies: usize,
    pub max_failures: usize,
    pub max_coming: usize,
    pub max_at_once: usize,
    pub max_per_day: u64,
}

impl TlsReportRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("access.toml", tls_reports of self, {
            max_bytes: 1024..=1 << 20;
            max_unpacked_bytes: wide(self.max_bytes)..=1 << 24;
            max_policies: 1..=100;
            max_failures: 1..=100;
            max_coming: 1..=10_000;
            max_at_once: 1..=100;
            max_per_day: 1..=10_000;
        })
    }
}
