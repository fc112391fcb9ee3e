//! Gateways that serve one store: which of them live, what time they have in common, and whose claims
//! are free because they died.
//!
//! A gateway lives as long as its beat moves, as seen by another one that looks at its own pace: no
//! clock is compared. Its claims name it (`claims.rs`), so that they need not be looked for: whoever
//! claims passes those of the dead over no more. One that was only silent, and comes back, finds its
//! claims taken over, and the fence takes nothing from it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;

use super::claims::UNREADABLE_PAUSE;
use crate::domain::clock::Timestamp;
use crate::store::db::{Base, Store, settled};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, sql};

/// Who is not the only one gives itself another name so often, at most: they are random.
const NAMES: i64 = 16;

/// On the embedded store, where a beat is for nobody but the next start, every so many is written.
const WRITTEN_ALONE: u64 = 10;

/// Rows mended in one statement.
const MENDED_AT_ONCE: i64 = 1000;

/// This gateway among the others.
#[derive(Clone, Debug, Default)]
pub struct Company(Arc<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// This gateway; 0 for who only opened the store.
    own: AtomicI64,
    /// Since the start.
    beats: AtomicU64,
    /// Steps of the clock when the beat was last written.
    steps: AtomicU64,
    /// Something has begun to wait since then.
    stirred: AtomicBool,
    others: Mutex<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// The beats, and for how many looks they stood still.
    seen: HashMap<i64, (i64, u32)>,
    dead: Vec<i64>,
}

/// A row of `gateways`.
struct Gateway {
    id: i64,
    beat: i64,
    steady: Timestamp,
    wall: Timestamp,
}

impl Company {
    /// Whom a claim is for; 0 before the gateway joined.
    pub(in crate::store) fn own(&self) -> i64 {
        self.0.own.load(Ordering::SeqCst)
    }

    /// Those whose claims are free, as a JSON array.
    pub(in crate::store) fn dead(&self) -> String {
        let others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        Json::from(others.dead.as_slice()).to_string()
    }

    /// Something begins to wait for steady time: the next beat is to be kept.
    pub(in crate::store) fn stir(&self) {
        self.0.stirred.store(true, Ordering::SeqCst);
    }

    fn bury(&self, dead: Vec<i64>) {
        self.0.others.lock().unwrap_or_else(PoisonError::into_inner).dead = dead;
    }

    /// Notes the beats of the others as they are now; answers those that died with this look.
    fn look(&self, rows: &[Gateway], silent: u32) -> Vec<i64> {
        let mut others = self.0.others.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = HashMap::with_capacity(rows.len());
        for row in rows.iter().filter(|row| row.id != self.own()) {
            let still = match others.seen.get(&row.id) {
                Some((beat, still)) if *beat == row.beat => still.saturating_add(1),
                _ => 0,
            };
            seen.insert(row.id, (row.beat, still));
        }
        let dead = seen.iter().filter(|(_, (_, still))| *still >= silent).map(|(id, _)| *id);
        let dead: Vec<i64> = dead.collect();
        let died = dead.iter().copied().filter(|id| !others.dead.contains(id)).collect();
        *others = Others { seen, dead };
        died
    }

    /// Whether the embedded store is to keep this beat.
    fn is_written(&self, steps: u64) -> bool {
        let seen = &self.0;
        let due = seen.beats.fetch_add(1, Ordering::SeqCst).is_multiple_of(WRITTEN_ALONE);
        let stepped = seen.steps.swap(steps, Ordering::SeqCst) != steps;
        seen.stirred.swap(false, Ordering::SeqCst) || due || stepped
    }
}

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

impl Store {
    /// Makes this a gateway among those of its store, and takes up the time that they have in common.
    /// On the embedded store there is no other one: whatever those before had claimed is free at once.
    pub async fn join(&self) -> Result<(), StoreError> {
        settled!(self.try_join())
    }

    async fn try_join(&self) -> Result<(), StoreError> {
        let (base, clock) = (&self.base, self.mint().clock());
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
        let (base, clock) = (&self.base, self.mint().clock());
        if !base.reader().is_postgres() && !base.company.is_written(clock.steps()) {
            return Ok(0);
        }
        settled!(self.try_beat(silent))
    }

    async fn try_beat(&self, silent: u32) -> Result<usize, StoreError> {
        let (base, clock) = (&self.base, self.mint().clock());
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
        let rules = &self.base.deliveries;
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
