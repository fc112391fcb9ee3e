//! The one durable transaction, in which all that came in together is written.

pub mod arrivals;
pub mod batch;
pub mod intake;
pub mod ready;
pub mod received;
pub mod refusals;
