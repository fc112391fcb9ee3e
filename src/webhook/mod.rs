//! Brings events to their destinations: at least once, each under one stable id.
//!
//! [`dispatcher`] claims due deliveries from a queue and bounds the attempts under way ([`lanes`]:
//! per destination, and for slow ones together). [`attempt`] makes one POST of
//! `app::delivery::payload`, and [`outcome`] decides by the response. `run` starts the dispatcher
//! and gives its bell to intake. No SQL, and no connection except through `egress`. Nothing relies
//! on a lease: a lost lease costs the receiver a duplicate, never an event. There are no locks: the
//! loop owns all state.

pub mod attempt;
pub mod dispatcher;
pub mod lanes;
mod masked;
pub mod outcome;
pub mod queue;

#[cfg(test)]
pub(crate) mod sample;
