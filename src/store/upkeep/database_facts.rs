//! Facts of the database server, for `gatepost doctor` and the log: nothing of a customer.

use std::fmt;

use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::engine::database::Database;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseFacts {
    /// The embedded store, by the version of SQLite.
    Embedded {
        version: String,
    },
    Postgres(PostgresFacts),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresFacts {
    pub version: String,
    pub encoding: String,
    /// The isolation level of our transactions.
    pub isolation: String,
    /// `on` or `off`: whether a commit is flushed to disk.
    pub fsync: String,
    /// `on` or `off`: whether a page is whole after a crash.
    pub full_page_writes: String,
    /// How far a commit waits: `on`, or less.
    pub synchronous_commit: String,
    /// Commits wait for replicas.
    pub has_synchronous_standbys: bool,
    /// A standby, which cannot be written to.
    pub is_standby: bool,
    /// The role may make tables, as migrations do.
    pub may_migrate: bool,
    /// Tables that the role may not read and write.
    pub tables_without_rights: i64,
    /// Connections of all programs together.
    pub max_connections: i64,
    /// Connections among these that only others may have.
    pub reserved_connections: i64,
    /// The wall clock of the server.
    pub clock: Timestamp,
}

impl fmt::Display for DatabaseFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded { version } => write!(f, "SQLite {version}"),
            Self::Postgres(PostgresFacts { version, .. }) => write!(f, "PostgreSQL {version}"),
        }
    }
}

const SERVER: &str = "SELECT current_setting('server_version') AS version,
        current_setting('server_encoding') AS encoding,
        current_setting('transaction_isolation') AS isolation,
        current_setting('fsync') AS fsync,
        current_setting('full_page_writes') AS full_page_writes,
        current_setting('synchronous_commit') AS synchronous_commit,
        CAST(current_setting('synchronous_standby_names') <> '' AS INT)::BIGINT AS standbys,
        CAST(pg_is_in_recovery() AS INT)::BIGINT AS standby,
        CAST(has_schema_privilege(current_schema(), 'CREATE') AS INT)::BIGINT AS may_migrate,
        current_setting('max_connections')::BIGINT AS connections,
        current_setting('superuser_reserved_connections')::BIGINT
            + COALESCE(current_setting('reserved_connections', true), '0')::BIGINT AS reserved,
        CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS clock,
        (SELECT COUNT(*) FROM pg_catalog.pg_class AS ours
         WHERE ours.relnamespace = current_schema()::text::regnamespace AND ours.relkind IN ('r', 'p')
           AND NOT (has_table_privilege(ours.oid, 'SELECT')
                AND has_table_privilege(ours.oid, 'INSERT')
                AND has_table_privilege(ours.oid, 'UPDATE')
                AND has_table_privilege(ours.oid, 'DELETE'))) AS closed";

impl Base {
    /// Asks the database about itself; on PostgreSQL in a transaction like those that write.
    pub async fn database_facts(&self) -> Result<DatabaseFacts, StoreError> {
        if matches!(self.database, Database::Sqlite(_)) {
            let row = sql("SELECT sqlite_version() AS version").fetch_one(self.reader()).await?;
            let version = Columns { table: "sqlite", row: &row }.text("version")?;
            return Ok(DatabaseFacts::Embedded { version });
        }
        let mut tx = self.begin().await?;
        let row = sql(SERVER).fetch_one(tx.on()).await?;
        let columns = Columns { table: "pg_settings", row: &row };
        Ok(DatabaseFacts::Postgres(PostgresFacts {
            version: columns.text("version")?,
            encoding: columns.text("encoding")?,
            isolation: columns.text("isolation")?,
            fsync: columns.text("fsync")?,
            full_page_writes: columns.text("full_page_writes")?,
            synchronous_commit: columns.text("synchronous_commit")?,
            has_synchronous_standbys: columns.flag("standbys")?,
            is_standby: columns.flag("standby")?,
            may_migrate: columns.flag("may_migrate")?,
            tables_without_rights: columns.integer("closed")?,
            max_connections: columns.integer("connections")?,
            reserved_connections: columns.integer("reserved")?,
            clock: columns.time("clock")?,
        }))
    }
}
