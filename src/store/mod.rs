//! Everything SQL. One method, one transaction; one file per noun.
//!
//! `app` calls in here and nobody else. Callers see domain types; rows, columns and the database
//! stay inside. Every list of a tenant's rows takes a `Scope`, so that whose rows they are is
//! decided in one place. No transaction is ever open while the program waits for the network.
//!
//! SQLite in one folder, or PostgreSQL shared by any number of gateways: the same methods, and where
//! it can be the same SQL (`sql.rs`). What differs is who else writes at the same moment: nobody in
//! SQLite; on PostgreSQL anybody, so that whatever a transaction decides by is locked by it first.

mod accounts;
mod addresses;
mod arrivals;
mod backup;
mod commit;
mod contacts;
mod db;
mod deliveries;
mod destinations;
mod domains;
mod draft;
mod embedded;
mod error;
mod files;
mod gates;
mod intake_records;
mod keys;
mod lease;
mod location;
mod mail_row;
mod messages;
mod page;
mod policies;
mod postgres;
mod restore;
mod row;
mod schema;
mod sql;

pub use accounts::{Created, NewAccount};
pub use addresses::{Claimed, Standing};
pub use backup::{BackupError, Copied, Objects, back_up};
pub use commit::{Accepted, Commit, Committed, Intake, NewMessage};
pub use db::Store;
pub use destinations::NewDestination;
pub use error::StoreError;
pub use intake_records::IntakeFilter;
pub use location::{Location, LocationError, PostgresUrl};
pub use page::{Cursor, Direction, Page};
pub use restore::restore;
