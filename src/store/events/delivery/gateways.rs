//! Gateways that serve one store: the live ones, their steady time, and the claims of dead ones.
//!
//! A gateway lives as long as its beat moves. Each gateway checks the beats of the others at its
//! own pace, so no clocks are compared. A claim names its holder (`claims.rs`), and any claim takes
//! over those of dead holders: nobody has to search for them.
//!
//! The row of a dead gateway is marked, and only then are its claims free. If it was only silent,
//! it finds the mark at its next beat, and continues under another id; for deliveries that were
//! claimed again meanwhile, the fence rejects its results. While its beat is too old it begins none
//! of its claimed deliveries ([`Base::holder`]): it stops before another gateway may mark it.

use std::sync::atomic::Ordering;

use super::claims::UNREADABLE_PAUSE;
use crate::domain::clock::Timestamp;
use crate::store::base::Base;
use crate::store::base::gateway_registry::{DEAD_BEAT, Gateway, GatewayChanges, LEFT_BEAT};
use crate::store::engine::database::{Transaction, retry_conflicts, transact};
use crate::store::engine::error::StoreError;
use crate::store::engine::row::Columns;
use crate::store::engine::sql::{Connection, Statement, sql};

const SHORTENED_AT_ONCE: i64 = 1000;

impl Base {
    /// Adopts the steady time of the store: the latest beat of any gateway, plus the wall time
    /// since then (on PostgreSQL, the database's). A wall clock that went back adds nothing, so no
    /// wait begins anew.
    pub(in crate::store) async fn adopt_steady_time(&self) -> Result<(), StoreError> {
        let rows = gateways(self.reader()).await?;
        let wall = match self.own_wall() {
            Some(wall) => wall,
            None => {
                let wall =
                    sql("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)
                                AS wall");
                let row = wall.fetch_one(self.reader()).await?;
                Columns { table: "gateways", row: &row }.integer("wall")?
            }
        };
        let steady_now = |row: &Gateway| {
            let since = wall.saturating_sub(row.wall.millis()).max(0);
            row.steady.millis().saturating_add(since)
        };
        if let Some(latest) = rows.iter().map(steady_now).max() {
            self.mint().clock().align(Timestamp::from_millis(latest));
        }
        Ok(())
    }

    /// Records which gateways are gone; on the embedded store, all others are.
    fn record_gone(&self, rows: &[Gateway]) -> GatewayChanges {
        self.gateway_registry.record_dead(rows, !self.reader().is_postgres())
    }

    /// Returns the wall clock to store (`$3`); None on PostgreSQL, whose own clock serves all
    /// gateways.
    fn own_wall(&self) -> Option<i64> {
        let embedded = !self.reader().is_postgres();
        embedded.then(|| self.mint().clock().now().millis())
    }

    /// Makes a statement of this text, in which `{wall}` is the wall clock to store.
    fn with_wall(&self, text: &str) -> Statement {
        let wall = match self.reader().is_postgres() {
            true => "COALESCE($3, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT))",
            false => "$3",
        };
        Statement::of(text.replace("{wall}", wall).into())
    }

    /// Writes `beat`, or the next beat if None. Returns false if the gateway was marked dead.
    async fn write_beat(
        &self,
        tx: &mut Transaction,
        beat: Option<i64>,
    ) -> Result<bool, StoreError> {
        let text = "UPDATE gateways SET beat = COALESCE($4, beat + 1), steady = $2, wall = {wall}
                    WHERE id = $1 AND beat >= 0";
        let written = self
            .with_wall(text)
            .bind(self.gateway_registry.own())
            .bind(self.mint().clock().steady())
            .bind(self.own_wall())
            .bind(beat)
            .execute(tx.on())
            .await?;
        Ok(written > 0)
    }

    /// Enters this gateway among those of its store, and adopts their steady time. On the embedded
    /// store it is alone: claims of earlier gateways are free at once.
    pub async fn join(&self) -> Result<(), StoreError> {
        retry_conflicts!(self.try_join())
    }

    /// Joins under a random id. Fails with `Conflict` if another gateway has it: the next try draws
    /// another one.
    async fn try_join(&self) -> Result<(), StoreError> {
        let clock = self.mint().clock();
        self.adopt_steady_time().await?;
        let [a, b, c, d, ..] = self.mint().secret();
        let id = i64::from(u32::from_be_bytes([a, b, c, d]) >> 1) + 1;
        let mut tx = self.begin().await?;
        let steady = clock.steady();
        let text = "INSERT INTO gateways (id, beat, steady, wall, version)
                    VALUES ($1, 0, $2, {wall}, $4)
                    ON CONFLICT (id) DO NOTHING";
        let insert = self.with_wall(text).bind(id).bind(steady).bind(self.own_wall());
        let insert = insert.bind(env!("CARGO_PKG_VERSION"));
        if insert.execute(tx.on()).await? == 0 {
            return Err(StoreError::Conflict(None));
        }
        clock.align(steady);
        let rows = gateways(tx.on()).await?;
        tx.commit().await?;
        let seen = &self.gateway_registry.0;
        seen.own.store(id, Ordering::SeqCst);
        // After the id, which `holder` reads last: no claim of the former id is begun now.
        seen.heard.store(steady.millis(), Ordering::SeqCst);
        self.record_gone(&rows);
        Ok(())
    }

    /// Returns the id under which this gateway claims. None while its last beat is so old that
    /// others may mark it dead: they may take over its claims, so it must begin none of them.
    /// Claims under a former id are not its own any more.
    pub fn holder(&self) -> Option<i64> {
        let registry = &self.gateway_registry;
        // Before the id: see `join`.
        let heard = Timestamp::from_millis(registry.0.heard.load(Ordering::SeqCst));
        let (own, now) = (registry.own(), self.mint().clock().steady());
        let is_alone = own == 0 || !self.reader().is_postgres();
        (is_alone || now < heard.plus(self.gateways.silence())).then_some(own)
    }

    /// Writes the beat of this gateway, and checks the others: a gateway whose beat stood still for
    /// `silent_beats` checks is dead, and its claims are free. Checks must be at least one beat
    /// apart. The embedded store writes only some beats.
    pub async fn beat(&self) -> Result<GatewayChanges, StoreError> {
        let is_postgres = self.reader().is_postgres();
        if !is_postgres && !self.gateway_registry.must_write_beat(self.mint().clock().steps()) {
            return Ok(GatewayChanges::default());
        }
        let (mut rows, lives) = retry_conflicts!(self.try_beat())?;
        if is_postgres {
            let silent = self.gateway_registry.find_silent(&rows, self.gateways.silent_beats);
            if !silent.is_empty() {
                rows.retain(|row| silent.contains(&(row.id, row.beat)));
                rows = self.mark_dead(&rows).await?;
            }
        }
        Ok(GatewayChanges { was_marked_dead: !lives, ..self.record_gone(&rows) })
    }

    /// Returns all gateways, and whether this one was still alive. If it was marked dead, joins
    /// anew.
    async fn try_beat(&self) -> Result<(Vec<Gateway>, bool), StoreError> {
        let clock = self.mint().clock();
        let began = clock.steady();
        let mut tx = self.begin().await?;
        let lives = self.write_beat(&mut tx, None).await?;
        let rows = gateways(tx.on()).await?;
        // Gateways this old have no running lease left.
        let gone = clock.steady().minus(self.deliveries.lease.saturating_mul(2));
        if rows.iter().any(|row| row.steady < gone) {
            sql("DELETE FROM gateways WHERE steady < $1").bind(gone).execute(tx.on()).await?;
        }
        tx.commit().await?;
        // Catches up with the latest beat, however far behind.
        let latest = rows.iter().map(|row| row.steady).max();
        if let Some(latest) = latest.filter(|latest| *latest > clock.steady()) {
            clock.align(latest);
        }
        if lives {
            self.gateway_registry.0.heard.store(began.millis(), Ordering::SeqCst);
        } else {
            self.join().await?;
        }
        Ok((rows, lives))
    }

    /// Marks the gateways whose beats have not moved since the check; returns all gateways. Skips a
    /// gateway that is writing its beat: it lives. On PostgreSQL only.
    async fn mark_dead(&self, silent: &[Gateway]) -> Result<Vec<Gateway>, StoreError> {
        transact!(self, async |tx| {
            for gateway in silent {
                sql("UPDATE gateways SET beat = $3 WHERE id IN (
                         SELECT id FROM gateways WHERE id = $1 AND beat = $2
                         FOR UPDATE SKIP LOCKED)")
                .bind(gateway.id)
                .bind(gateway.beat)
                .bind(DEAD_BEAT)
                .execute(tx.on())
                .await?;
            }
            let rows = gateways(tx.on()).await?;
            tx.commit().await?;
            Ok(rows)
        })
    }

    /// Ends this gateway: its claims are free, and it does not count as died. Its row stays for a
    /// while, so that steady time continues from it.
    pub async fn leave(&self) -> Result<(), StoreError> {
        transact!(self, async |tx| {
            self.write_beat(&mut tx, Some(LEFT_BEAT)).await?;
            tx.commit().await
        })
    }

    /// Shortens waits that are longer than the rules allow: a wrong clock wrote them. Such
    /// deliveries and rests become due now. Returns how many rows changed.
    pub async fn shorten_waits(&self) -> Result<u64, StoreError> {
        transact!(self, async |tx| {
            let rules = &self.deliveries;
            let now = self.mint().clock().steady();
            let latest = now.plus(rules.longest_wait.max(rules.lease).max(UNREADABLE_PAUSE));
            let longest_rest = now.plus(rules.breaker.longest_rest.max(rules.lease));
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
            .bind(SHORTENED_AT_ONCE)
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
        })
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
