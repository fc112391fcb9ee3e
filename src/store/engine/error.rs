//! Errors of the store, told apart where callers can act on the difference.

use std::error::Error;
use std::sync::Arc;

use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;
use uuid::Uuid;

/// Each variant holds the context, and its `source` the cause. Never shown to a client.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full(#[source] Arc<dyn Error + Send + Sync>),
    /// A write did not reach the disk, and whether a retry would is unknown. From now on the store
    /// refuses each write, and the process must end (contract §2.4).
    #[error("a write did not reach the disk: restart the server")]
    NotDurable(#[source] Option<Arc<dyn Error + Send + Sync>>),
    /// The database file is not as SQLite wrote it: any read may be wrong. From now on the store
    /// refuses each write, and the process must end.
    #[error(
        "the database file is damaged: keep a copy of the data folder, then restore the last \
         backup (`gatepost restore`); `gatepost check-store` lists what is lost"
    )]
    Damaged(#[source] Option<Arc<dyn Error + Send + Sync>>),
    /// The transaction was aborted in favour of another one; nothing was written.
    #[error("the transaction conflicted with others too often")]
    Conflict(#[source] Option<Arc<sqlx::Error>>),
    /// The task panicked, which is logged, or ended with the runtime; whether it wrote is unknown.
    #[error("a task of the store ended without a result")]
    Ended,
    #[error("the database returned no row where one always exists")]
    NoRow,
    /// Another request already used this Idempotency-Key; nothing was written now.
    #[error("another request already used this Idempotency-Key")]
    Repeated,
    /// Nothing was written.
    #[error("the account was deleted in the meantime")]
    NoAccount,
    #[error(
        "the database is read-only: mount its disk for writing, or give the server write access \
         to the file"
    )]
    ReadOnly(#[source] Arc<sqlx::Error>),
    #[error("the database does not answer")]
    Database(#[source] Arc<sqlx::Error>),
    #[error("timed out writing to the store")]
    TooSlow,
    #[error("the file system of the store does not answer")]
    Hung,
    #[error("the blob store does not answer")]
    Objects(#[source] Arc<object_store::Error>),
    #[error("cannot use the blob store at {at}")]
    Blobs { at: String, source: Arc<object_store::Error> },
    #[error("the blob store at {at} lost an object that was just written")]
    Unkept { at: String },
    /// No object was written or removed.
    #[error(
        "the blob store at {at} belongs to another database ({owner}), not to this one \
         ({identity}): choose another place"
    )]
    Foreign { at: String, owner: String, identity: Uuid },
    /// No object was written or removed.
    #[error(
        "the blob store at {at} holds objects but names no owner: choose another place; or, if \
         the objects belong to this database, write its id {identity} into the object `owner`, \
         beside `raw`"
    )]
    Ownerless { at: String, identity: Uuid },
    /// The original of a message is missing, or is not what was stored.
    #[error("the object {name} of the blob store {detail}")]
    Lost { name: String, detail: &'static str },
    #[error("cannot read a row of {table}: {detail}")]
    Corrupt { table: &'static str, detail: String },
    #[error("cannot open the store at {at}")]
    Open { at: String, source: Arc<sqlx::Error> },
    #[error("cannot use the store at {at}: {detail}")]
    Unfit { at: String, detail: &'static str },
    #[error("there is no store at {at}: run `gatepost init` with the same settings first")]
    Missing { at: String },
    #[error(
        "the store at {at} is served by {by}: stop that server first, or give this one its own \
         store (--data DIR); several servers can share one PostgreSQL (--database-url)"
    )]
    Served { at: String, by: String },
    /// Nothing was changed.
    #[error("the store at {at} has the schema of an older gatepost")]
    Older { at: String },
    #[error("the store was made by a newer gatepost (schema {version}): run that version")]
    Newer { version: i64 },
    #[error("cannot migrate the store to this version")]
    Migrate(#[source] Arc<MigrateError>),
}

impl StoreError {
    /// Whether the content of a row is the cause, so that the same work fails again.
    pub fn is_caused_by_row(&self) -> bool {
        match self {
            Self::Corrupt { .. } => true,
            Self::Database(error) => error.as_database_error().is_some_and(is_about_rows),
            _ => false,
        }
    }

    /// Returns the cause in plain words that anybody may read: they disclose no content.
    pub fn public_cause(&self) -> &'static str {
        match self {
            Self::Full(_) => "no space",
            Self::NotDurable(_) => "a write did not reach the disk",
            Self::Damaged(_) | Self::Corrupt { .. } => "damaged",
            Self::Foreign { .. } | Self::Ownerless { .. } => "not ours",
            Self::ReadOnly(_) => "read-only",
            _ => "not working",
        }
    }

    /// Converts an error from opening the store at `at`.
    pub(in crate::store) fn opening(at: String, source: sqlx::Error) -> Self {
        // SQLITE_NOTADB: a file of another kind is not a damaged store.
        let code = source.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            Some(code) if code != "26" && is_damaged(&source) => source.into(),
            _ => Self::Open { at, source: source.into() },
        }
    }

    /// Whether one of several jobs that were done together may be the cause.
    pub(in crate::store) fn may_be_caused_by_one(&self) -> bool {
        match self {
            Self::Full(_) | Self::Conflict(_) => true,
            other => other.is_caused_by_row(),
        }
    }
}

/// Whether SQLite reports its file as damaged.
fn is_damaged(error: &sqlx::Error) -> bool {
    matches!(error.as_database_error().map(kind), Some(Kind::Damaged))
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        let kind = error.as_database_error().map(kind);
        let error = Arc::new(error);
        match kind {
            Some(Kind::Full) => Self::Full(error),
            Some(Kind::NotDurable) => Self::NotDurable(Some(error)),
            Some(Kind::Damaged) => Self::Damaged(Some(error)),
            Some(Kind::Conflict) => Self::Conflict(Some(error)),
            Some(Kind::ReadOnly) => Self::ReadOnly(error),
            Some(Kind::Other) | None => Self::Database(error),
        }
    }
}

impl From<MigrateError> for StoreError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => Self::Newer { version },
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _)
                if is_damaged(&error) =>
            {
                error.into()
            }
            error => Self::Migrate(Arc::new(error)),
        }
    }
}

/// Whether PostgreSQL says that this server cannot be written to.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    matches!(error.as_database_error().map(kind), Some(Kind::ReadOnly))
}

/// Whether the database rejects the values or their amount, or gave up on them after a time limit
/// of its own (a lock, a statement), rather than being unable to work.
fn is_about_rows(error: &dyn DatabaseError) -> bool {
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<PgDatabaseError>().is_some() {
        // Except while the server starts or stops, loses connections, or has none left.
        return !["57P", "08", "533"].iter().any(|class| code.starts_with(class));
    }
    // Except when SQLite could not use its file: busy, locked, I/O, cannot open. The low byte of an
    // extended code is the family.
    let code: u32 = code.parse().unwrap_or(0);
    ![5, 6, 10, 14].contains(&(code & 0xff))
}

enum Kind {
    Full,
    NotDurable,
    Damaged,
    Conflict,
    ReadOnly,
    Other,
}

fn kind(error: &dyn DatabaseError) -> Kind {
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<PgDatabaseError>().is_some() {
        // SQLSTATE. A PostgreSQL whose fsync fails ends by itself and recovers from its log.
        return match code.as_ref() {
            "53100" => Kind::Full,
            // Foreign key: a row that a message refers to was deleted meanwhile (retention).
            "40001" | "40P01" | "23503" => Kind::Conflict,
            // read_only_sql_transaction: a replica.
            "25006" => Kind::ReadOnly,
            _ => Kind::Other,
        };
    }
    // Extended result codes of SQLite: the low byte is the family.
    const READ_ONLY: u32 = 8;
    const CORRUPT: u32 = 11;
    // SQLITE_CORRUPT_VTAB: the search index, which can be rebuilt: no reason to end.
    const CORRUPT_INDEX: u32 = 267;
    const FULL: u32 = 13;
    const NOT_A_DATABASE: u32 = 26;
    const IO_FSYNC: u32 = 1034;
    const IO_DIR_FSYNC: u32 = 1290;
    let code = code.parse();
    let family = code.as_ref().map(|code: &u32| code & 0xff);
    if code != Ok(CORRUPT_INDEX) && matches!(family, Ok(CORRUPT | NOT_A_DATABASE)) {
        return Kind::Damaged;
    }
    if family == Ok(READ_ONLY) {
        return Kind::ReadOnly;
    }
    match code {
        Ok(FULL) => Kind::Full,
        Ok(IO_FSYNC | IO_DIR_FSYNC) => Kind::NotDurable,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, Executor as _, SqliteConnection};

    use super::*;

    /// Like a disk mounted read-only, or a file whose header is damaged.
    #[tokio::test]
    async fn a_database_that_takes_no_writes_is_not_said_to_be_silent() {
        let mut database = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        database.execute("PRAGMA query_only = 1").await.unwrap();
        let error = database.execute("CREATE TABLE one (id INTEGER)").await.unwrap_err();
        let error = StoreError::from(error);
        assert!(matches!(error, StoreError::ReadOnly(_)), "{error:?}");
        assert_eq!(error.public_cause(), "read-only");
        assert!(
            !error.is_caused_by_row() && !error.to_string().contains("does not answer"),
            "{error}"
        );
    }
}
