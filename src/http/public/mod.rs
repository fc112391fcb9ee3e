//! Paths that need no key: health, the description of the API, the ways in of providers.

pub(in crate::http) mod description;
pub(in crate::http) mod health;
pub(in crate::http) mod inbound;
