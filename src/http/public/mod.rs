//! Paths without a key: health, the description of the API, and posts of providers.

pub(in crate::http) mod description;
pub(in crate::http) mod health;
pub(in crate::http) mod inbound;
