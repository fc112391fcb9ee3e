//! The path of every request, the same for all operations: `observe` gives it an id and logs it,
//! `auth` authenticates the caller, `linked` accepts a signed link, `idempotency` makes creations
//! idempotent, and `perform` runs the steps.

pub(in crate::http) mod auth;
pub(in crate::http) mod idempotency;
pub(in crate::http) mod linked;
pub(in crate::http) mod observe;
pub(in crate::http) mod perform;
