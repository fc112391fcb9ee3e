//! Gateways that serve one store: which of them live, what time they have in common, and whose claims
//! are free because they died.
//!
//! A gateway lives as long as its beat moves, as seen by another one that looks at its own pace: no
//! clock is compared. Its claims name it (`claims.rs`), so that they need not be looked for: whoever
//! claims passes those of the dead over no more.
//!
//! The dead are buried: their row says so, and only then are their claims free. One that was only
//! silent finds its row like that by its next beat, and goes on under another name; the fence takes
//! nothing from it. Until that beat is written it begins nothing of what it had claimed
//! ([`Base::holder`]), because nobody buries before that.

use std::sync::atomic::Ordering;

use super::claims::UNREADABLE_PAUSE;
use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::base::company::{BURIED, Census, Gateway, LEFT};
use crate::store::engine::database::{Transaction, settled};
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

    /// Notes who is no more: on the embedded store whoever else there was.
    fn note(&self, rows: &[Gateway]) -> Census {
        self.company.note(rows, !self.reader().is_postgres())
    }

    /// Writes the beat of this gateway, the next one if none is given, unless it was buried.
    async fn write_beat(
        &self,
        tx: &mut Transaction,
        beat: Option<i64>,
    ) -> Result<bool, StoreError> {
        let written =
            sql("UPDATE gateways SET beat = COALESCE($4, beat + 1), steady = $2, wall = $3
                           WHERE id = $1 AND beat >= 0")
            .on_postgres(
                "UPDATE gateways SET beat = COALESCE($4, beat + 1), steady = $2,
                 wall = COALESCE($3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000
                                          AS BIGINT))
             WHERE id = $1 AND beat >= 0",
            )
            .bind(self.company.own())
            .bind(self.mint().clock().steady())
            .bind(self.own_wall())
            .bind(beat)
            .execute(tx.on())
            .await?;
        Ok(written > 0)
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
        let mut joined = None;
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
                clock.align(steady);
                joined = Some((name, steady));
                break;
            }
        }
        let rows = gateways(tx.on()).await?;
        tx.commit().await?;
        let seen = &base.company.0;
        if let Some((name, steady)) = joined {
            seen.own.store(name, Ordering::SeqCst);
            // After its name: nothing that was claimed under the former one is begun now.
            seen.heard.store(steady.millis(), Ordering::SeqCst);
        }
        base.note(&rows);
        Ok(())
    }

    /// The name under which this gateway claims deliveries. None while its last beat is as old as
    /// those by which others bury: what it has claimed may be theirs, and it begins none of it. What
    /// was claimed under another name is not its own any more.
    pub fn holder(&self) -> Option<i64> {
        let company = &self.company;
        // Before its name: see `join`.
        let heard = Timestamp::from_millis(company.0.heard.load(Ordering::SeqCst));
        let (own, now) = (company.own(), self.mint().clock().steady());
        let is_alone = own == 0 || !self.reader().is_postgres();
        (is_alone || now < heard.plus(self.gateways.silence())).then_some(own)
    }

    /// Says that this gateway lives, and looks at the others: one whose beat stood still for as many
    /// looks as the rules say is dead, and what it had claimed is free. Two looks must be apart by a
    /// beat at least.
    pub async fn beat(&self) -> Result<Census, StoreError> {
        let (base, clock) = (self, self.mint().clock());
        let is_postgres = base.reader().is_postgres();
        if !is_postgres && !base.company.is_written(clock.steps()) {
            return Ok(Census::default());
        }
        let (mut rows, lives) = settled!(self.try_beat())?;
        if is_postgres {
            let silent = base.company.look(&rows, base.gateways.silent_beats);
            if !silent.is_empty() {
                rows = settled!(self.try_bury(&silent))?;
            }
        }
        Ok(Census { buried: !lives, ..base.note(&rows) })
    }

    /// The gateways, and whether this one was not buried.
    async fn try_beat(&self) -> Result<(Vec<Gateway>, bool), StoreError> {
        let (base, clock) = (self, self.mint().clock());
        let began = clock.steady();
        let mut tx = self.begin().await?;
        let lives = base.write_beat(&mut tx, None).await?;
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
        if lives {
            base.company.0.heard.store(began.millis(), Ordering::SeqCst);
        } else {
            self.join().await?;
        }
        Ok((rows, lives))
    }

    /// Buries those that still are where they were seen; answers all gateways. One that is just
    /// writing its beat lives.
    async fn try_bury(&self, silent: &[(i64, i64)]) -> Result<Vec<Gateway>, StoreError> {
        let mut tx = self.begin().await?;
        for (id, beat) in silent {
            sql("UPDATE gateways SET beat = $3 WHERE id = $1 AND beat = $2")
                .on_postgres(
                    "UPDATE gateways SET beat = $3 WHERE id IN (
                         SELECT id FROM gateways WHERE id = $1 AND beat = $2
                         FOR UPDATE SKIP LOCKED)",
                )
                .bind(*id)
                .bind(*beat)
                .bind(BURIED)
                .execute(tx.on())
                .await?;
        }
        let rows = gateways(tx.on()).await?;
        tx.commit().await?;
        Ok(rows)
    }

    /// Says that this gateway ends: what it still had claimed is free, and nobody takes it for dead.
    /// Its row stays for a while: steady time goes on from there.
    pub async fn leave(&self) -> Result<(), StoreError> {
        settled!(self.try_leave())
    }

    async fn try_leave(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        self.write_beat(&mut tx, Some(LEFT)).await?;
        tx.commit().await
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
