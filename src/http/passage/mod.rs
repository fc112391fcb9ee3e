//! The path of every request, the same for all operations: `observe` gives it an id and logs it, `head`
//! looks at its host and its coding, `auth` authenticates the caller, `linked` accepts a signed link,
//! `idempotency` makes creations idempotent, and `perform` runs the steps.

pub(crate) mod auth;
pub(in crate::http) mod head;
pub(in crate::http) mod idempotency;
pub(in crate::http) mod linked;
pub(crate) mod observe;
pub(in crate::http) mod perform;
