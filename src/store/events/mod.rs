//! The log of events: entered in the transaction that they tell of, on PostgreSQL placed after it.

pub mod announcements;
pub mod delivery;
pub mod event_log;
pub mod event_row;
pub mod told;
