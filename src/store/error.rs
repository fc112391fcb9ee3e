//! What can go wrong in the store, as far as callers can do something about it.

use std::path::PathBuf;

/// Context in the variant, cause by `source`; never shown to a client.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full(#[source] sqlx::Error),
    /// A write did not reach the disk, and whether a retry would is unknown: the store refuses
    /// everything from now on, and the process must end (contract §2.4).
    #[error("a write did not reach the disk; the process must be restarted")]
    NotDurable(#[source] Option<sqlx::Error>),
    #[error("the database does not answer")]
    Database(#[source] sqlx::Error),
    #[error("a row of {table} cannot be read: {detail}")]
    Corrupt { table: &'static str, detail: String },
    #[error("cannot open the store at {path}")]
    Open { path: PathBuf, source: sqlx::Error },
    #[error("there is no store at {path}: run `gatepost init --data {path}` first")]
    Missing { path: PathBuf },
    #[error("the store at {path} was made by a newer gatepost: use that one")]
    Newer { path: PathBuf },
    #[error("cannot bring the store to this version")]
    Migrate(#[source] sqlx::migrate::MigrateError),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        // Extended result codes of SQLite: the low octet is the family.
        let code = error
            .as_database_error()
            .and_then(|db| db.code())
            .and_then(|code| code.parse::<u32>().ok());
        const FULL: u32 = 13;
        const IO_FSYNC: u32 = 1034;
        const IO_DIR_FSYNC: u32 = 1290;
        match code {
            Some(FULL) => Self::Full(error),
            Some(IO_FSYNC | IO_DIR_FSYNC) => Self::NotDurable(Some(error)),
            _ => Self::Database(error),
        }
    }
}
