//! What a mailbox shows: messages as records.

pub mod record;
