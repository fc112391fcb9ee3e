//! Destinations, and the deliveries that wait for them.
//!
//! `http` manages destinations and deliveries through [`Destinations`]. The dispatcher in `webhook`
//! claims and finishes deliveries. Clients that pull events read [`EventLog`].
//! [`payload`] makes the bodies for all of them. The transaction that an event announces makes the
//! event and its deliveries, never this room.
//!
//! A claim names its gateway and ends with its lease, or when [`Heartbeat`] finds the gateway dead.
//! Only `log` has locks in memory.

mod advice;
pub mod catalog;
mod deliveries;
mod destinations;
mod error;
mod heartbeat;
mod log;
pub mod payload;
pub mod webhook_record;

pub use advice::explanation;
pub use destinations::{Added, DestinationDraft, Destinations};
pub use error::DestinationError;
pub use heartbeat::Heartbeat;
pub use log::{
    Begin, Beginning, EventLog, EventLogBounds, EventLogPage, RenderedEvent, TooManyReaders,
    Waiting,
};
