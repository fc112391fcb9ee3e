//! Reads a request strictly: `query`, `body`, `target`; `call` is the authorised result for a
//! handler.

pub(crate) mod body;
pub mod call;
pub(in crate::http) mod octets;
pub(in crate::http) mod query;
pub(in crate::http) mod target;
