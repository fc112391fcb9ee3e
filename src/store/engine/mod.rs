//! The databases: statements of both, transactions, connections that are lent, schema, locks, errors.
//! Nothing here knows a table of a subject.

pub mod checkpoints;
pub mod database;
pub mod deadline;
pub mod embedded;
pub mod error;
pub mod gates;
pub mod group;
pub mod lease;
pub mod location;
pub mod many;
pub mod packing;
pub mod postgres;
pub mod row;
pub mod schema;
pub mod serving;
pub mod sql;
pub mod trust;
