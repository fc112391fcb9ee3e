//! Files in responses, and requests for parts of them.

pub(in crate::http) mod file;
pub(in crate::http) mod range;
