//! Writes that this gateway is alive, and watches the other gateways and the wall clock. It runs as
//! long as deliveries do. Others take a silent gateway for dead, and take over its claims.

use std::error::Error;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use crate::domain::clock::Clock;
use crate::domain::ports::Wake;
use crate::rules::Gateways;
use crate::store::{GatewayChanges, Store, StoreError};

/// Beats between two searches for rows that wait too long.
const MENDED_EVERY: u32 = 60;

pub struct Heartbeat {
    /// On a connection of its own: no load of mail delays a beat.
    beats: Store,
    store: Store,
    clock: Clock,
    rules: Gateways,
    /// Rung when claims can be taken over.
    wake: Arc<dyn Wake>,
    was_set: Notify,
}

impl Heartbeat {
    /// The gateway has joined the store. Nothing else uses `beats`.
    pub fn new(
        beats: Store,
        store: Store,
        clock: Clock,
        rules: Gateways,
        wake: Arc<dyn Wake>,
    ) -> Self {
        Self { beats, store, clock, rules, wake, was_set: Notify::new() }
    }

    /// Never ends. Safe to drop at any moment: the others then see this gateway fall silent.
    pub async fn run(&self) {
        tokio::join!(self.beat_forever(), self.mend());
    }

    /// Writes that this gateway ends and holds no claims. If that fails, the others see it fall
    /// silent.
    pub async fn leave(&self) {
        match timeout(self.rules.silence(), self.beats.leave()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(
                    error,
                    "cannot record that this gateway stops: other gateways will take it for dead"
                );
            }
            Err(_) => tracing::warn!(
                "timed out recording that this gateway stops: other gateways will take it for dead"
            ),
        }
    }

    async fn beat_forever(&self) {
        loop {
            if self.check_clock() {
                self.was_set.notify_one();
            }
            self.beat().await;
            // Counts from the end of one beat, so that none comes too early.
            sleep(self.rules.beat()).await;
        }
    }

    fn check_clock(&self) -> bool {
        let Some(step) = self.clock.look(self.rules.step()) else { return false };
        tracing::warn!(
            clock.step_ms = step,
            clock.steps = self.clock.steps(),
            "the clock of this machine was set {}: waiting times stay the same, but dates and \
             signatures follow this clock; check the time service",
            if step > 0 { "forward" } else { "back" }
        );
        true
    }

    /// Writes a beat, and calls `wake` if claims became free. A failure is only logged.
    async fn beat(&self) {
        // A beat that hangs is given up: the next one uses a connection that responds.
        let beaten = timeout(self.rules.silence(), self.beats.beat()).await;
        let GatewayChanges { died, left, was_marked_dead } =
            match beaten.unwrap_or(Err(StoreError::TooSlow)) {
                Ok(changes) => changes,
                Err(error) => {
                    let error = &error as &(dyn Error + 'static);
                    tracing::warn!(
                        error,
                        "cannot record the heartbeat of this gateway: other gateways may take over"
                    );
                    return;
                }
            };
        if was_marked_dead {
            tracing::warn!(
                "this gateway recorded no heartbeat for too long: other gateways may have taken \
                 over"
            );
        }
        if died > 0 {
            tracing::warn!(gateways.died = died, "taking over the claims of a dead gateway");
        }
        if left > 0 {
            tracing::info!(gateways.left = left, "another gateway has stopped");
        }
        if was_marked_dead || died > 0 || left > 0 {
            self.wake.wake();
        }
    }

    /// Makes rows due that wait longer than any rule allows: at intervals, and after the clock was
    /// set.
    async fn mend(&self) {
        loop {
            match self.store.shorten_waits().await {
                Ok(0) => {}
                Ok(mended) => {
                    tracing::warn!(
                        mended,
                        "work that waited longer than the rules allow is due now"
                    );
                    self.wake.wake();
                }
                Err(error) => {
                    let error = &error as &(dyn Error + 'static);
                    tracing::warn!(error, "cannot look for work that waits too long");
                }
            }
            let pause = self.rules.beat().saturating_mul(MENDED_EVERY);
            let _set_or_over = timeout(pause, self.was_set.notified()).await;
        }
    }
}
