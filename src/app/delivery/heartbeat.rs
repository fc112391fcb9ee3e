//! Says, again and again, that this gateway lives, and looks at others and at the wall clock. It goes
//! on as long as deliveries do: whoever stops saying so is taken for dead, and what it has claimed is
//! taken over.

use std::error::Error;
use std::sync::Arc;

use tokio::time::{MissedTickBehavior, interval};

use crate::domain::clock::Clock;
use crate::domain::ports::Wake;
use crate::rules::Gateways;
use crate::store::Store;

/// Beats from one look for what waits longer than anything may to the next.
const MENDED_EVERY: u64 = 60;

/// The beat of one gateway.
pub struct Heartbeat {
    store: Store,
    clock: Clock,
    rules: Gateways,
    /// Rung when there is something to take over.
    wake: Arc<dyn Wake>,
}

impl Heartbeat {
    /// The beat of the gateway that joined this store.
    pub fn new(store: Store, clock: Clock, rules: Gateways, wake: Arc<dyn Wake>) -> Self {
        Self { store, clock, rules, wake }
    }

    /// Never ends. Dropped at any moment, it leaves nothing: the others find the beat silent.
    pub async fn run(self) {
        let mut beats = interval(self.rules.beat());
        // After a pause of ours the others need as many looks as ever to be seen again.
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut count: u64 = 0;
        loop {
            beats.tick().await;
            let was_set = self.look_at_the_clock();
            self.beat().await;
            if was_set || count.is_multiple_of(MENDED_EVERY) {
                self.mend().await;
            }
            count = count.wrapping_add(1);
        }
    }

    fn look_at_the_clock(&self) -> bool {
        let Some(step) = self.clock.look(self.rules.step()) else { return false };
        tracing::warn!(
            clock.step_ms = step,
            clock.steps = self.clock.steps(),
            "the clock of this machine was set {}: nothing waits longer or shorter for it, but dates \
             and signatures are by that clock; check its time service",
            if step > 0 { "forward" } else { "back" }
        );
        true
    }

    async fn beat(&self) {
        match self.store.beat(self.rules.silent_beats).await {
            Ok(0) => {}
            Ok(died) => {
                tracing::warn!(gateways.died = died, "taking over what a dead gateway had claimed");
                self.wake.wake();
            }
            Err(error) => {
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(error, "cannot say that this gateway lives: others may take over");
            }
        }
    }

    async fn mend(&self) {
        match self.store.mend_waits().await {
            Ok(0) => {}
            Ok(mended) => {
                tracing::warn!(mended, "what waited longer than the rules allow is due now");
                self.wake.wake();
            }
            Err(error) => {
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(error, "cannot look for what waits too long");
            }
        }
    }
}
