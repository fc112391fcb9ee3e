//! The path of every request, the same for all operations: `observe` gives it an id and logs it,
//! `auth` authenticates the caller, `linked` accepts a signed link, `once` makes creations
//! idempotent, and `perform` runs the steps.

pub(in crate::http) mod auth;
pub(in crate::http) mod linked;
pub(in crate::http) mod observe;
pub(in crate::http) mod once;
pub(in crate::http) mod perform;
