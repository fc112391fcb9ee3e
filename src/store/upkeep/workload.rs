//! The work that waits in the store, and who does it.

use crate::domain::clock::Timestamp;
use crate::domain::ports::PoolLoad;
use crate::store::base::Base;
use crate::store::engine::database::Database;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Statement, sql};

/// Most waiting deliveries that are counted, and most destinations that are looked at.
const COUNTED: i64 = 10_000;

/// Steps from destination to destination as claims do, so that those that rest cost one step each,
/// however much waits for them.
fn backlog(database: &Database) -> String {
    let (first, by_index, order) = match database {
        Database::Sqlite(_) => ("MIN(destination_id)", "INDEXED BY deliveries_waiting", ""),
        // It knows no least UUID.
        Database::Postgres(_) => ("destination_id", "", "ORDER BY destination_id LIMIT 1"),
    };
    format!(
        "
    WITH RECURSIVE waiting (destination, place) AS (
        SELECT (SELECT {first} FROM deliveries {by_index}
                WHERE state = 'pending' AND room IS NULL {order}), 1
        UNION ALL
        SELECT (SELECT {first} FROM deliveries {by_index}
                WHERE state = 'pending' AND room IS NULL AND destination_id > destination
                {order}), place + 1
        FROM waiting WHERE destination IS NOT NULL AND place < $1),
    first (due, rests_until) AS (
        SELECT (SELECT next_attempt_at FROM deliveries {by_index}
                WHERE state = 'pending' AND room IS NULL AND destination_id = destination
                ORDER BY next_attempt_at, id LIMIT 1), rests_until
        FROM waiting JOIN destinations ON destinations.id = destination
        WHERE rests_until <= $2 AND ordered = 0 AND draining = 0 AND disabled_at IS NULL)
    SELECT (SELECT MIN(CASE WHEN due < rests_until THEN rests_until ELSE due END) FROM first) AS due,
           (SELECT COUNT(*) FROM (
               SELECT id FROM deliveries AS first_of_all WHERE state = 'pending'
               ORDER BY next_attempt_at, id LIMIT $1) AS first_of_all) AS waiting"
    )
}

/// Deliveries that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Up to 10,000.
    pub waiting: i64,
    /// When the first of them is due that a gateway may take, in steady time, perhaps in the past.
    /// None if there is none, as far as the first 10,000 destinations tell. Those for a destination
    /// that rests or is disabled wait for it, from whose rest's end they are due, and those of an
    /// ordered one for each other.
    pub due: Option<Timestamp>,
}

/// Gateways of one version; it is empty for those that do not say which they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayVersion {
    pub version: String,
    pub gateways: u64,
}

impl Base {
    /// Returns the deliveries of all accounts that wait for an attempt of any gateway.
    pub async fn backlog(&self) -> Result<Backlog, StoreError> {
        let counting = Statement::of(backlog(&self.database).into())
            .bind(COUNTED)
            .bind(self.mint().clock().steady());
        let row = counting.fetch_one(self.reader()).await?;
        let columns = Columns { table: "deliveries", row: &row };
        Ok(Backlog { waiting: columns.integer("waiting")?, due: columns.optional_time("due")? })
    }

    /// Returns the gateways alive on this store, as far as their beats say, by their versions.
    pub async fn living_gateways(&self) -> Result<Vec<GatewayVersion>, StoreError> {
        let text = "SELECT version, COUNT(*) AS living FROM gateways WHERE beat >= 0
                    GROUP BY version ORDER BY version";
        let rows = sql(text).fetch_all(self.reader()).await?;
        let version = |row| {
            let columns = Columns { table: "gateways", row };
            Ok(GatewayVersion {
                version: columns.text("version")?,
                gateways: columns.count("living")?,
            })
        };
        rows.iter().map(version).collect()
    }

    /// Returns the connections of this handle; of the embedded store its readers, because all
    /// handles share the one writer.
    pub fn pool_load(&self) -> PoolLoad {
        fn of<D: sqlx::Database>(pool: &sqlx::Pool<D>) -> PoolLoad {
            let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
            PoolLoad { open: pool.size(), idle, most: pool.options().get_max_connections() }
        }
        match &self.database {
            Database::Sqlite(embedded) => of(&embedded.reader),
            Database::Postgres(pool) => of(pool.connections()),
        }
    }
}
