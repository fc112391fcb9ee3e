//! Keeps a store in order: retention, erasure, sweeping, checks, backup and restore.
//!
//! Retention and erasure find rows by reading; short transactions then delete a few each. One
//! gateway at a time does so (`gates::try_alone`), the others skip their turn; only the erasure of
//! one message takes no turns. Deletions of messages lock contents, then contacts, then rooms. A
//! gateway that dies leaves its work to the next pass.
//! A backup or a restored store is visible only when it is whole (`unfinished_copy.rs`).

pub mod backup;
pub mod backup_error;
pub mod companion_files;
pub mod database_facts;
pub mod deleted_account_cleanup;
pub mod erasure;
pub mod erasure_redaction;
pub mod file_digest;
pub mod integrity_check;
pub mod readiness_checks;
pub mod restore;
pub mod retention;
pub mod sweep;
pub mod unfinished_copy;
pub mod workload;
