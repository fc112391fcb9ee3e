//! Paths without a key: health, the description of the API, posts of providers and adapters, the policy of
//! MTA-STS, reports of senders on TLS, and metrics.

mod adapter;
pub(in crate::http) mod description;
pub(in crate::http) mod health;
pub(in crate::http) mod inbound;
pub(in crate::http) mod metrics;
pub(in crate::http) mod mta_sts;
pub(in crate::http) mod tls_reports;
