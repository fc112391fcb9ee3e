//! Gateways that serve one store: which of them live, what time they have in common, and whose claims
//! are free because they died.
//!
//! A gateway lives as long as its beat moves, as seen by another one that looks at its own pace: no
//! clock is compared. Its claims name it (`claims.rs`), so that they need not be looked for: whoever
//! claims passes those of the dead over no more. One that was only silent, and comes back, finds its
//! claims taken over, and the fence takes nothing from it.

use std::sync::atomic::Ordering;

use super::claims::UNREADABLE_PAUSE;
use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::base::company::Gateway;
use crate::store::engine::database::settled;
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};

/// Who is not the only one gives itself another name so often, at most: they are random.
const NAMES: i64 = 16;

/// Rows mended in one statement.
const MENDED_AT_ONCE: i64 = 1000;

impl Base {
    /// Takes up the steady time of this store where it stands: after the latest beat of any gateway,
    /// by as much as the wall clock (the database's, where it has one) has gone on since. A wall
    /// clock that has gone back since moves nothing back, so that nothing that waits waits anew.
    pub(in crate::store) async fn take_up_time(&self) -> Result<(), StoreError> {
        let rows = gateways(self.reader()).await?;
        let wall = match self.own_wall() {
            Some(wall) => wall,
            None => self.wall_of_database().await?,
        };
        let stands = |row: &Gateway| {
            let since = wall.saturating_sub(row.wall.millis()).max(0);
            row.steady.millis().saturating_add(since)
        };
        if let Some(stands) = rows.iter().map(stands).max() {
            self.mint().clock().align(Timestamp::from_millis(stands));
        }
        Ok(())
    }

    /// The wall clock that is written down; none where the database has one, which is the same for
    /// all gateways.
    fn own_wall(&self) -> Option<i64> {
        let embedded = !self.reader().is_postgres();
        embedded.then(|| self.mint().clock().now().millis())
    }

    async fn wall_of_database(&self) -> Result<i64, StoreError> {
        let row =
            sql("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS wall")
                .fetch_one(self.reader())
                .await?;
        Columns { table: "gateways", row: &row }.integer("wall")
    }

    /// Notes who is there; answers how many died since the last look.
    fn note(&self, rows: &[Gateway], silent: u32) -> usize {
        if self.reader().is_postgres() {
            return self.company.look(rows, silent).len();
        }
        self.bury_others(rows);
        0
    }

    /// On the embedded store whoever else there was is dead.
    fn bury_others(&self, rows: &[Gateway]) {
        let own = self.company.own();
        let others = rows.iter().map(|row| row.id).filter(|id| *id != own);
        self.company.bury(others.collect());
    }
}

impl Base {
    /// Makes this a gateway among those of its store, and takes up the time that they have in common.
    /// On the embedded store there is no other one: whatever those before had claimed is free at once.
    pub async fn join(&self) -> Result<(), StoreError> {
        settled!(self.try_join())
    }

    async fn try_join(&self) -> Result<(), StoreError> {
        let (base, clock) = (self, self.mint().clock());
        base.take_up_time().await?;
        let [a, b, c, d, ..] = self.mint().secret();
        let random = i64::from(u32::from_be_bytes([a, b, c, d]) >> 1);
        let mut tx = self.begin().await?;
        for name in (1..=NAMES).map(|more| random + more) {
            let steady = clock.steady();
            let done = sql("INSERT INTO gateways (id, beat, steady, wall) VALUES ($1, 0, $2, $3)
                            ON CONFLICT (id) DO NOTHING")
            .on_postgres(
                "INSERT INTO gateways (id, beat, steady, wall)
                 VALUES ($1, 0, $2, COALESCE($3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000
                                                      AS BIGINT)))
                 ON CONFLICT (id) DO NOTHING",
            )
            .bind(name)
            .bind(steady)
            .bind(base.own_wall())
            .execute(tx.on())
            .await?;
            if done > 0 {
                base.company.0.own.store(name, Ordering::SeqCst);
                clock.align(steady);
                break;
            }
        }
        let rows = gateways(tx.on()).await?;
        tx.commit().await?;
        if !base.reader().is_postgres() {
            base.bury_others(&rows);
        }
        Ok(())
    }

    /// Says that this gateway lives, and looks at the others: a gateway whose beat stood still for
    /// `silent` looks is dead, and what it had claimed is free. Answers how many died with this look.
    /// Two looks must be apart by about a beat, whatever clocks say.
    pub async fn beat(&self, silent: u32) -> Result<usize, StoreError> {
        let (base, clock) = (self, self.mint().clock());
        if !base.reader().is_postgres() && !base.company.is_written(clock.steps()) {
            return Ok(0);
        }
        settled!(self.try_beat(silent))
    }

    async fn try_beat(&self, silent: u32) -> Result<usize, StoreError> {
        let (base, clock) = (self, self.mint().clock());
        let mut tx = self.begin().await?;
        let alive =
            sql("UPDATE gateways SET beat = beat + 1, steady = $2, wall = $3 WHERE id = $1")
                .on_postgres(
                    "UPDATE gateways SET beat = beat + 1, steady = $2,
                     wall = COALESCE($3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000
                                              AS BIGINT))
                 WHERE id = $1",
                )
                .bind(base.company.own())
                .bind(clock.steady())
                .bind(base.own_wall())
                .execute(tx.on())
                .await?;
        let rows = gateways(tx.on()).await?;
        // Of these no claim is left.
        let gone = clock.steady().minus(base.deliveries.lease.saturating_mul(2));
        if rows.iter().any(|row| row.steady < gone) {
            sql("DELETE FROM gateways WHERE steady < $1").bind(gone).execute(tx.on()).await?;
        }
        tx.commit().await?;
        // However much behind the others it was.
        let latest = rows.iter().map(|row| row.steady).max();
        if let Some(latest) = latest.filter(|latest| *latest > clock.steady()) {
            clock.align(latest);
        }
        if alive == 0 {
            // It was silent for so long that the others have taken its row away.
            self.join().await?;
        }
        Ok(base.note(&rows, silent))
    }

    /// Bounds what waits by what the rules let anything wait: what is due later than that, or rests
    /// longer, was written by a clock that was wrong, and is due now. Answers how much was mended.
    pub async fn mend_waits(&self) -> Result<u64, StoreError> {
        settled!(self.try_mend_waits())
    }

    async fn try_mend_waits(&self) -> Result<u64, StoreError> {
        let rules = &self.deliveries;
        let now = self.mint().clock().steady();
        let latest = now.plus(rules.longest_wait.max(rules.lease).max(UNREADABLE_PAUSE));
        let longest_rest = now.plus(rules.breaker.longest_rest.max(rules.lease));
        let mut tx = self.begin().await?;
        let due = sql("UPDATE deliveries SET next_attempt_at = $1 WHERE rowid IN (
                 SELECT rowid FROM deliveries INDEXED BY deliveries_due
                 WHERE state = 'pending' AND next_attempt_at > $2 LIMIT $3)")
        .on_postgres(
            "UPDATE deliveries SET next_attempt_at = $1 WHERE id IN (
                 SELECT id FROM deliveries WHERE state = 'pending' AND next_attempt_at > $2
                 ORDER BY next_attempt_at, id LIMIT $3 FOR UPDATE SKIP LOCKED)",
        )
        .bind(now)
        .bind(latest)
        .bind(MENDED_AT_ONCE)
        .execute(tx.on())
        .await?;
        let rested = sql("UPDATE destinations SET rests_until = $1
                          WHERE rests_until > 0 AND rests_until > $2")
        .on_postgres(
            "UPDATE destinations SET rests_until = $1 WHERE id IN (
                 SELECT id FROM destinations WHERE rests_until > 0 AND rests_until > $2
                 ORDER BY id FOR NO KEY UPDATE SKIP LOCKED)",
        )
        .bind(now)
        .bind(longest_rest)
        .execute(tx.on())
        .await?;
        tx.commit().await?;
        Ok(due + rested)
    }
}

async fn gateways(on: Connection<'_>) -> Result<Vec<Gateway>, StoreError> {
    let rows = sql("SELECT id, beat, steady, wall FROM gateways").fetch_all(on).await?;
    let gateway = |row| {
        let columns = Columns { table: "gateways", row };
        Ok(Gateway {
            id: columns.integer("id")?,
            beat: columns.integer("beat")?,
            steady: columns.time("steady")?,
            wall: columns.time("wall")?,
        })
    };
    rows.iter().map(gateway).collect()
}
