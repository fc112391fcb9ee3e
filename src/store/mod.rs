//! Everything SQL. One method, one transaction; one file per noun.
//!
//! `app` calls in here and nobody else. Callers see domain types; rows, columns and the database
//! stay inside. Every list of a tenant's rows takes a `Scope`, so that whose rows they are is
//! decided in one place. No transaction is ever open while the program waits for the network.
//!
//! Today's database is SQLite in one folder: one writing connection (several would only wait for
//! each other) and a few reading ones, WAL with `synchronous=FULL`, so that a commit that returned
//! is on the disk.

mod accounts;
mod addresses;
mod commit;
mod db;
mod deliveries;
mod destinations;
mod domains;
mod error;
mod intake_records;
mod keys;
mod mail_row;
mod messages;
mod page;
mod policies;
mod row;

pub use accounts::{Created, NewAccount};
pub use addresses::{Claimed, Standing};
pub use commit::{Accepted, Commit, Committed, Intake, NewMessage};
pub use db::{Location, Store};
pub use destinations::NewDestination;
pub use error::StoreError;
pub use intake_records::IntakeFilter;
pub use page::{Cursor, Direction, Page};
