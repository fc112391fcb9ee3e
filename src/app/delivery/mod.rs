//! Destinations, and the outgoing work that waits for them.
//!
//! `http` keeps destinations through [`Destinations`]; the dispatcher in `webhook` takes its work
//! through [`Outbox`]. Events and deliveries are made in the transaction of what they announce,
//! never here.

mod destinations;
mod outbox;

pub use destinations::{Added, DestinationError, Destinations};
pub use outbox::Outbox;
