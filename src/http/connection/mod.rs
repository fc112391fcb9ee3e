//! Connections of clients: accepted within their bounds (`serve`), ended where they stall, and what browsers may
//! read (`cors`).

pub(in crate::http) mod cors;
pub(in crate::http) mod serve;
pub(in crate::http) mod stalled;
