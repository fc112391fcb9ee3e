//! The one durable transaction, in which all waiting messages are written together.
//!
//! A caller prepares its rows (`prepared.rs`), hands them to a group (`engine/group.rs`) and waits.
//! The writer (`batch.rs`) reads each standing again: if it has changed, nothing of that commit is
//! written, and the caller decides anew. Locks on PostgreSQL, in this order, and by key within
//! each: gates of accounts, gates of domains, contents of large originals, Idempotency-Keys,
//! arrivals, contacts, rooms. Only rows of a lost original that was put again are locked at the
//! end: a circle there is a conflict, after which the group is tried again. Refusals are counted by
//! transactions of their own (`refusals.rs`).

pub mod arrivals;
pub mod batch;
pub mod intake;
pub mod prepared;
pub mod received;
pub mod refusals;
