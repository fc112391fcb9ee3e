//! Accounts with their addresses, domains, keys, console sessions, members, policies and relays, and
//! the audit log.
//!
//! A change and its audit entry are one transaction (`audit.rs`). On PostgreSQL it locks in this
//! order: the queue of its kind and owner, gates of accounts, gates of domains, rows, and last the
//! row of the directory (`directory.rs`). External ids queue after the gates; a new account passes
//! gates of accounts, and closes those of its domains after its own rows. On SQLite there is one
//! writer. Deleted accounts and removed members keep their rows, so that no id is used again.

pub mod account_changes;
pub mod account_deletion;
pub mod account_lists;
pub mod accounts;
pub mod addresses;
pub mod app_rows;
pub mod audit;
pub mod console_sessions;
pub mod directory;
pub mod domains;
pub mod idempotency;
pub mod inbound_ways;
pub mod keys;
pub mod members;
pub mod policies;
pub mod relay_attempts;
pub mod relays;
pub mod sealed;
pub mod shared_reads;
pub mod tls_reports;
