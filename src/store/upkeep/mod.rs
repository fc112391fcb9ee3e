//! Keeps a store in order: retention, erasure, sweeping, checks, backup and restore.
//!
//! Retention and erasure find rows by reading; short transactions then delete a few each. One
//! gateway at a time does so (`gates::try_alone`), the others skip their turn. Deletions of messages
//! lock contents, then contacts, then rooms. A gateway that dies leaves its work to the next pass.
//! A backup or a restored store is visible only when it is whole (`draft.rs`).

pub mod backup;
pub mod backup_error;
pub mod beside;
pub mod checks;
pub mod content;
pub mod deleted_account_cleanup;
pub mod draft;
pub mod erasure;
pub mod erasure_redaction;
pub mod restore;
pub mod retention;
pub mod survey;
pub mod sweep;
