//! The work that waits in the store, and who does it.

use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::engine::database::Database;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::sql;

/// Most waiting deliveries that are counted.
const COUNTED: i64 = 100_000;

/// Deliveries that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Up to 100,000.
    pub waiting: i64,
    /// When the first of them is due, in steady time, perhaps in the past; None if none waits.
    pub due: Option<Timestamp>,
}

/// Open connections to the database, and those of them that are idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenConnections {
    pub all: u32,
    pub idle: u32,
}

impl Base {
    /// Returns the deliveries of all accounts that wait for an attempt of any gateway.
    pub async fn backlog(&self) -> Result<Backlog, StoreError> {
        let row = sql("SELECT COUNT(*) AS waiting, MIN(next_attempt_at) AS due FROM (
                           SELECT next_attempt_at FROM deliveries WHERE state = 'pending'
                           ORDER BY next_attempt_at LIMIT $1) AS first")
        .bind(COUNTED)
        .fetch_one(self.reader())
        .await?;
        let columns = Columns { table: "deliveries", row: &row };
        Ok(Backlog { waiting: columns.integer("waiting")?, due: columns.optional_time("due")? })
    }

    /// Returns the gateways alive on this store, as far as their beats say.
    pub async fn living_gateways(&self) -> Result<i64, StoreError> {
        let row = sql("SELECT COUNT(*) AS living FROM gateways WHERE beat >= 0")
            .fetch_one(self.reader())
            .await?;
        Columns { table: "gateways", row: &row }.integer("living")
    }

    pub fn open_connections(&self) -> OpenConnections {
        let idle = |idle: usize| u32::try_from(idle).unwrap_or(u32::MAX);
        match &self.database {
            Database::Sqlite(embedded) => OpenConnections {
                all: embedded.reader.size() + embedded.writer.size(),
                idle: idle(embedded.reader.num_idle() + embedded.writer.num_idle()),
            },
            Database::Postgres(pool) => {
                let pool = pool.connections();
                OpenConnections { all: pool.size(), idle: idle(pool.num_idle()) }
            }
        }
    }
}
