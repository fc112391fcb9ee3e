//! The way of every request, in one order for all operations: `observe` gives it an id and logs it, `auth` finds
//! who is calling, `linked` lets in who has a signed link, `once` carries out a creation once, `perform` does the
//! steps.

pub(in crate::http) mod auth;
pub(in crate::http) mod linked;
pub(in crate::http) mod observe;
pub(in crate::http) mod once;
pub(in crate::http) mod perform;
