//! What keeps a store in order: retention, erasure, sweeping, checks, backup and restore.

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
