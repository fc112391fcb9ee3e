//! Health of destinations, in steady times. The transaction that records attempts writes it, and
//! all gateways read it from the destination's row. Successes write nothing if it is healthy.

use std::collections::{BTreeMap, HashMap};

use crate::domain::breaker::{Breaker, BreakerState, Ending};
use crate::domain::clock::Timestamp;
use crate::domain::destination::Health;
use crate::domain::id::DestinationId;
use crate::store::engine::database::Transaction;
use crate::store::engine::error::StoreError;
use crate::store::engine::many::many;
use crate::store::engine::row::{Columns, stored};
use crate::store::engine::sql::{Row, sql};

/// Whether a destination gets more deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationStatus {
    Active,
    /// It rests, is disabled or was removed.
    Halted,
    /// It has failed for too long, since this steady time.
    GivenUp {
        since: Timestamp,
    },
}

/// Updates the health of destinations after attempts. Locks and returns, in the order of ids, only
/// those that failed now, were not healthy before, or are disabled.
pub async fn record_endings(
    tx: &mut Transaction,
    breaker: &Breaker,
    endings: impl Iterator<Item = (DestinationId, Ending)>,
) -> Result<HashMap<DestinationId, DestinationStatus>, StoreError> {
    let mut by_id: BTreeMap<DestinationId, Vec<Ending>> = BTreeMap::new();
    for (destination, ending) in endings {
        by_id.entry(destination).or_default().push(ending);
    }
    let failed = |endings: &[Ending]| endings.iter().any(|one| *one != Ending::Success);
    let found = many(
        "WITH given (destination, failed) AS ({rows})
         SELECT id, failures, failing_since, last_failure_at, rests_until,
                CAST(CASE WHEN removed_at IS NULL AND disabled_at IS NULL THEN 1 ELSE 0 END
                     AS BIGINT) AS in_use
         FROM given CROSS JOIN destinations
         WHERE id = given.destination
           AND (given.failed = 1 OR failures > 0 OR rests_until > 0 OR disabled_at IS NOT NULL)",
        by_id.iter().map(|(id, all)| vec![id.0.into(), i64::from(failed(all)).into()]).collect(),
    )
    .locking("ORDER BY id FOR NO KEY UPDATE OF destinations")
    .fetch_all(tx.on())
    .await?;
    let mut statuses = HashMap::new();
    for row in &found {
        let columns = Columns { table: "destinations", row };
        let id = DestinationId(columns.uuid("id")?);
        let endings = by_id.remove(&id).unwrap_or_default();
        let status = if columns.flag("in_use")? {
            update_health(tx, breaker, id, health(row)?, &endings).await?
        } else {
            DestinationStatus::Halted
        };
        statuses.insert(id, status);
    }
    Ok(statuses)
}

/// Writes the health after these endings. Writes nothing if the destination is to be given up.
async fn update_health(
    tx: &mut Transaction,
    breaker: &Breaker,
    id: DestinationId,
    before: Health,
    endings: &[Ending],
) -> Result<DestinationStatus, StoreError> {
    let mut health = before;
    for ending in endings {
        match breaker.judge(health, *ending) {
            BreakerState::Goes(after) => health = after,
            BreakerState::GivenUp { since } => return Ok(DestinationStatus::GivenUp { since }),
        }
    }
    if health != before {
        sql("UPDATE destinations
             SET failures = $2, failing_since = $3, last_failure_at = $4, rests_until = $5,
                 prober = 0
             WHERE id = $1")
        .bind(id.0)
        .bind(stored(health.failures))
        .bind(health.failing_since.map(Timestamp::millis))
        .bind(health.last_failure_at.map(Timestamp::millis))
        .bind(health.rests_until.map_or(0, Timestamp::millis))
        .execute(tx.on())
        .await?;
    }
    Ok(match health.rests_until {
        Some(_) => DestinationStatus::Halted,
        None => DestinationStatus::Active,
    })
}

pub fn health(row: &Row) -> Result<Health, StoreError> {
    let columns = Columns { table: "destinations", row };
    Ok(Health {
        failures: columns.count("failures")?,
        failing_since: columns.optional_time("failing_since")?,
        last_failure_at: columns.optional_time("last_failure_at")?,
        rests_until: Some(columns.time("rests_until")?).filter(|until| until.millis() > 0),
    })
}
