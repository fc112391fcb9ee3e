//! `policies/access.toml`: bounds on the API's input. The file explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRules {
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub max_body_bytes: usize,
    pub max_query_bytes: usize,
    request_seconds: u64,
    pub max_addresses_per_call: usize,
    pub max_allowlist_entries: u64,
    pub max_destinations: u64,
    pub max_page: u32,
    pub default_page: u32,
}

impl Limits {
    pub const fn request(&self) -> Duration {
        Duration::from_secs(self.request_seconds)
    }
}

impl AccessRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("access.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let limits = &self.limits;
        check("limits.max_body_bytes", wide(limits.max_body_bytes), 1024, 1 << 26)?;
        check("limits.max_query_bytes", wide(limits.max_query_bytes), 256, 65_536)?;
        check("limits.request_seconds", limits.request_seconds, 1, 600)?;
        let per_call = wide(limits.max_addresses_per_call);
        check("limits.max_addresses_per_call", per_call, 1, 100_000)?;
        check("limits.max_allowlist_entries", limits.max_allowlist_entries, 1, 10_000_000)?;
        check("limits.max_destinations", limits.max_destinations, 1, 10_000)?;
        check("limits.max_page", limits.max_page.into(), 1, 10_000)?;
        check("limits.default_page", limits.default_page.into(), 1, limits.max_page.into())
    }
}
