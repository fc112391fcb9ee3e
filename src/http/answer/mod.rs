//! Files on their way out, and which part of one is asked for.

pub(in crate::http) mod file;
pub(in crate::http) mod range;
