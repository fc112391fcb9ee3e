//! The log of events: entered in the transaction that they tell of, numbered after it.

pub mod announcements;
pub mod delivery;
pub mod event_log;
