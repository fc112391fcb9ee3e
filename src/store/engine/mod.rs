//! The two databases: statements of both, transactions, connections, schema, locks and errors. No
//! table of a subject is known here.
//!
//! SQLite has one writing connection: under a transaction nothing changes, and no lock is needed.
//! On PostgreSQL (READ COMMITTED) any gateway writes at the same time, so a transaction locks
//! before it decides: first gates (`gates.rs`), then rows in the order of their keys. A transaction
//! that the database aborts for another one wrote nothing and is run again (`database.rs`). One
//! whose future is dropped is rolled back, unless its commit has begun. Only a connection lost
//! during the commit leaves open whether it wrote. Each wait for a connection or for PostgreSQL,
//! but for a migration, ends at a limit of `policies/store.toml`. After a failed fsync, or damage,
//! no transaction begins or commits (`trust.rs`).

pub mod checkpoints;
pub mod database;
pub mod deadline;
pub mod directory_mark;
pub mod embedded;
pub mod error;
pub mod gates;
pub mod group;
pub mod lease;
pub mod location;
pub mod many;
pub mod packing;
pub mod postgres;
pub mod postgres_url;
pub mod row;
pub mod schema;
pub mod servers;
pub mod serving;
pub mod sql;
pub mod trust;
pub mod writer;
