//! Client connections: `serve` accepts them within limits, `write_timeout` ends those that stall,
//! `cors` lets browsers read responses, `endless` makes streams of events.

pub(in crate::http) mod cors;
pub(crate) mod endless;
pub(in crate::http) mod serve;
pub(in crate::http) mod write_timeout;
