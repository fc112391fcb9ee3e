//! `policies/store.toml`: groups of commits, deliveries, connections, the blob store. The file
//! explains each number.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::RulesError;
use crate::domain::breaker::Breaker;
use crate::domain::feature::Offer;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreRules {
    pub commit: Grouping,
    pub deliveries: Deliveries,
    pub gateways: Gateways,
    pub connections: Connections,
    pub objects: Objects,
    /// From `apps.toml`.
    #[serde(skip)]
    pub offer: Arc<Offer>,
}

/// Bounds on one transaction that writes a group of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grouping {
    pub max_messages: usize,
    pub max_bytes: usize,
    pub writers: usize,
    pub one_organization: bool,
    refusal_millis: u64,
    refusal_mib: usize,
    patience_seconds: u64,
}

impl Grouping {
    durations! {
        /// Time for which the record of a refusal waits for others.
        refusal = millis(refusal_millis);
    }

    /// Bytes of refusals' records that may wait.
    pub const fn refusals(&self) -> usize {
        self.refusal_mib.saturating_mul(1 << 20)
    }

    durations! {
        patience = seconds(patience_seconds);
    }
}

/// Bounds and pace of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deliveries {
    pub cancel_at_once: u32,
    pub replay_at_once: u32,
    pub rooms_at_once: u32,
    /// From `[breaker]` of `webhooks.toml`, where operators look for it.
    #[serde(skip)]
    pub breaker: Breaker,
    /// From `dispatcher.lease_seconds`, and the longest wait of `[schedule]` with its jitter.
    #[serde(skip)]
    pub lease: Duration,
    #[serde(skip)]
    pub longest_wait: Duration,
}

/// How gateways notice that others died, and that a clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateways {
    beat_millis: u64,
    pub silent_beats: u32,
    step_seconds: u64,
}

impl Gateways {
    durations! {
        beat = millis(beat_millis);
    }

    /// A gateway that is silent for this long may be taken for dead.
    pub fn silence(&self) -> Duration {
        self.beat().saturating_mul(self.silent_beats)
    }

    durations! {
        /// No clock moves by this much unless it is set.
        step = seconds(step_seconds);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    pub embedded_readers: u32,
    pub embedded_api_readers: u32,
    pub embedded_stream_readers: u32,
    pub embedded_cache_mib: u32,
    pub embedded_checkpoint_pages: u32,
    pub postgres: u32,
    pub postgres_api: u32,
    pub postgres_streams: u32,
    acquire_seconds: u64,
    probe_seconds: u64,
    statement_seconds: u64,
    lock_seconds: u64,
    silence_seconds: u64,
    deadline_seconds: u64,
}

/// Users of the store with connections of their own, beside mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Requests of the API.
    Api,
    /// Streams of events.
    Streams,
    /// Heartbeats of the gateway, one statement at a time.
    Beats,
}

impl Connections {
    /// The number of connections to the embedded store, and to PostgreSQL.
    pub const fn of(&self, share: Share) -> (u32, u32) {
        match share {
            Share::Api => (self.embedded_api_readers, self.postgres_api),
            Share::Streams => (self.embedded_stream_readers, self.postgres_streams),
            Share::Beats => (1, 1),
        }
    }

    durations! {
        acquire = seconds(acquire_seconds);
        probe = seconds(probe_seconds);
        statement = seconds(statement_seconds);
        lock = seconds(lock_seconds);
        silence = seconds(silence_seconds);
        deadline = seconds(deadline_seconds);
    }
}

/// The blob store, for originals above a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objects {
    /// From `raw.object_above_bytes` of `intake.toml`, where operators look for it.
    #[serde(skip)]
    pub above_bytes: usize,
    pub max_puts: usize,
    put_seconds: u64,
    read_seconds: u64,
    orphan_hours: u64,
    sweep_hours: u64,
}

impl Objects {
    durations! {
        put = seconds(put_seconds);
        read = seconds(read_seconds);
        orphaned = hours(orphan_hours);
        sweep = hours(sweep_hours);
    }
}

impl StoreRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        ranges!("store.toml", commit of self.commit, {
            max_messages: 1..=1000;
            max_bytes: 65_536..=1 << 30;
            refusal_millis: 0..=500;
            refusal_mib: 1..=1024;
            writers: 1..=16;
            // A caller must get the result of its commit, not a timeout.
            patience_seconds: self.connections.acquire_seconds..=120;
        })?;
        ranges!("store.toml", deliveries of self.deliveries, {
            cancel_at_once: 1..=10_000;
            replay_at_once: 1..=10_000;
            rooms_at_once: 1..=10_000;
        })?;
        ranges!("store.toml", gateways of self.gateways, {
            beat_millis: 100..=10_000;
            silent_beats: 2..=100;
            step_seconds: 1..=3600;
        })?;
        ranges!("store.toml", connections of self.connections, {
            embedded_readers: 1..=64;
            embedded_api_readers: 1..=64;
            embedded_stream_readers: 1..=64;
            embedded_cache_mib: 2..=4096;
            embedded_checkpoint_pages: 100..=1 << 20;
            postgres: 4..=500;
            postgres_api: 1..=500;
            postgres_streams: 1..=500;
            acquire_seconds: 1..=60;
            probe_seconds: 1..=self.connections.acquire_seconds;
            statement_seconds: 1..=60;
            lock_seconds: 1..=60;
            silence_seconds: 1..=60;
            deadline_seconds: self.connections.statement_seconds.saturating_add(1)..=120;
        })?;
        ranges!("store.toml", objects of self.objects, {
            max_puts: 1..=256;
            put_seconds: 1..=300;
            read_seconds: 1..=300;
            orphan_hours: 1..=8760;
            sweep_hours: 1..=720;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    /// As threats K15 and `docs/availability.md` say.
    #[test]
    fn a_dead_gateway_is_found_within_five_seconds() {
        let rules = Rules::defaults().unwrap().store.gateways;
        // Another gateway sees the last beat up to a beat late, and then that it stands still.
        let found = rules.silence() + rules.beat();
        assert!(found < Duration::from_secs(5), "{found:?}");
    }
}
