//! Brings events to their destinations: at least once, each under one stable id.
//!
//! [`dispatcher`] takes due deliveries from a queue and bounds how many are under way ([`lanes`]:
//! per destination, and for slow ones together); [`attempt`] makes one POST of one delivery from
//! `app::delivery::payload` and reads the [`outcome`] off its answer. `run` starts the dispatcher and hands its
//! bell to intake. What never happens here: SQL, a connection past `egress`, or a decision that
//! relies on a lease: a lost lease costs the receiver a duplicate, never an event.

pub mod attempt;
pub mod dispatcher;
pub mod lanes;
mod masked;
pub mod outcome;
mod queue;

#[cfg(test)]
pub(crate) mod sample;
