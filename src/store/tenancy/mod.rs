//! Accounts, and all that an account is known by: addresses, domains, keys, members, policies, relays,
//! with the log of who did it.

pub mod account_changes;
pub mod account_deletion;
pub mod account_lists;
pub mod accounts;
pub mod addresses;
pub mod app_rows;
pub mod asked_together;
pub mod audit;
pub mod directory;
pub mod domains;
pub mod inbound_ways;
pub mod keys;
pub mod members;
pub mod once;
pub mod policies;
pub mod relay_attempts;
pub mod relays;
pub mod sealed;
