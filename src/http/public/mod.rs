//! Paths without a key: health, the description of the API, posts of providers, the policy of
//! MTA-STS, and metrics.

pub(in crate::http) mod description;
pub(in crate::http) mod health;
pub(in crate::http) mod inbound;
pub(in crate::http) mod metrics;
pub(in crate::http) mod mta_sts;
