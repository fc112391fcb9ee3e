//! The log of events, and their deliveries.
//!
//! An event is written in the transaction of the change that it announces, with a delivery for each
//! destination that wants it (`announcements.rs`). That transaction has passed the gates of the
//! event's accounts, so a removal or a disabling of a destination waits for it, and gives up these
//! deliveries too. Readers page by position, which PostgreSQL gives after the commit
//! (`event_log.rs`).

pub mod announcements;
pub mod delivery;
pub mod event_data;
pub mod event_log;
pub mod event_row;
