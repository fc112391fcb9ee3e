//! Destinations, and the outgoing work that waits for them.
//!
//! `http` keeps destinations through [`Destinations`], and sees and mends their deliveries; the
//! dispatcher in `webhook` takes its work through [`Outbox`]; who pulls events instead reads
//! [`EventLog`]. How an event looks, to receivers and to readers, is said in [`payload`]. Events and
//! deliveries are made in the transaction of what they announce, never here.

mod advice;
pub mod catalog;
mod deliveries;
mod destinations;
mod error;
mod heartbeat;
mod log;
mod outbox;
pub mod payload;
pub mod webhook_record;

pub use advice::explanation;
pub use destinations::{Added, Destinations};
pub use error::DestinationError;
pub use heartbeat::Heartbeat;
pub use log::{Begin, Begun, EventLog, Full, Part, Shown, Waiting};
pub use outbox::Outbox;
