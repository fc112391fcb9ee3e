//! `policies/store.toml`: groups of commits, deliveries, connections, the blob store. The file
//! explains each number.

use std::time::Duration;

use serde::Deserialize;

use super::{RulesError, within};
use crate::domain::breaker::Breaker;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreRules {
    pub commit: Grouping,
    pub deliveries: Deliveries,
    pub gateways: Gateways,
    pub connections: Connections,
    pub objects: Objects,
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
    /// Time for which the record of a refusal waits for others.
    pub const fn refusal(&self) -> Duration {
        Duration::from_millis(self.refusal_millis)
    }

    /// Bytes of refusals' records that may wait.
    pub const fn refusals(&self) -> usize {
        self.refusal_mib.saturating_mul(1 << 20)
    }

    pub const fn patience(&self) -> Duration {
        Duration::from_secs(self.patience_seconds)
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
    pub const fn beat(&self) -> Duration {
        Duration::from_millis(self.beat_millis)
    }

    /// A gateway that is silent for this long may be taken for dead.
    pub fn silence(&self) -> Duration {
        self.beat().saturating_mul(self.silent_beats)
    }

    /// No clock moves by this much unless it is set.
    pub const fn step(&self) -> Duration {
        Duration::from_secs(self.step_seconds)
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

    pub const fn acquire(&self) -> Duration {
        Duration::from_secs(self.acquire_seconds)
    }

    pub const fn probe(&self) -> Duration {
        Duration::from_secs(self.probe_seconds)
    }

    pub const fn statement(&self) -> Duration {
        Duration::from_secs(self.statement_seconds)
    }

    pub const fn lock(&self) -> Duration {
        Duration::from_secs(self.lock_seconds)
    }

    pub const fn silence(&self) -> Duration {
        Duration::from_secs(self.silence_seconds)
    }

    pub const fn deadline(&self) -> Duration {
        Duration::from_secs(self.deadline_seconds)
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
    pub const fn put(&self) -> Duration {
        Duration::from_secs(self.put_seconds)
    }

    pub const fn read(&self) -> Duration {
        Duration::from_secs(self.read_seconds)
    }

    pub const fn orphaned(&self) -> Duration {
        Duration::from_secs(self.orphan_hours * 3600)
    }

    pub const fn sweep(&self) -> Duration {
        Duration::from_secs(self.sweep_hours * 3600)
    }
}

impl StoreRules {
    pub(super) fn validate(&self) -> Result<(), RulesError> {
        let check = |key, value, low, high| within("store.toml", key, value, low, high);
        let wide = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let Self { commit, deliveries, gateways, connections, objects } = self;
        check("commit.max_messages", wide(commit.max_messages), 1, 1000)?;
        check("commit.max_bytes", wide(commit.max_bytes), 65_536, 1 << 30)?;
        check("commit.refusal_millis", commit.refusal_millis, 0, 500)?;
        check("commit.refusal_mib", wide(commit.refusal_mib), 1, 1024)?;
        check("commit.writers", wide(commit.writers), 1, 16)?;
        // A caller must get the result of its commit, not a timeout.
        let shortest = connections.acquire_seconds;
        check("commit.patience_seconds", commit.patience_seconds, shortest, 120)?;
        check("deliveries.cancel_at_once", deliveries.cancel_at_once.into(), 1, 10_000)?;
        check("deliveries.replay_at_once", deliveries.replay_at_once.into(), 1, 10_000)?;
        check("deliveries.rooms_at_once", deliveries.rooms_at_once.into(), 1, 10_000)?;
        check("gateways.beat_millis", gateways.beat_millis, 100, 10_000)?;
        check("gateways.silent_beats", gateways.silent_beats.into(), 2, 100)?;
        check("gateways.step_seconds", gateways.step_seconds, 1, 3600)?;
        check("connections.embedded_readers", connections.embedded_readers.into(), 1, 64)?;
        let of_api = connections.embedded_api_readers.into();
        check("connections.embedded_api_readers", of_api, 1, 64)?;
        let of_streams = connections.embedded_stream_readers.into();
        check("connections.embedded_stream_readers", of_streams, 1, 64)?;
        check("connections.embedded_cache_mib", connections.embedded_cache_mib.into(), 2, 4096)?;
        let pages = connections.embedded_checkpoint_pages.into();
        check("connections.embedded_checkpoint_pages", pages, 100, 1 << 20)?;
        check("connections.postgres", connections.postgres.into(), 4, 500)?;
        check("connections.postgres_api", connections.postgres_api.into(), 1, 500)?;
        check("connections.postgres_streams", connections.postgres_streams.into(), 1, 500)?;
        check("connections.acquire_seconds", connections.acquire_seconds, 1, 60)?;
        check(
            "connections.probe_seconds",
            connections.probe_seconds,
            1,
            connections.acquire_seconds,
        )?;
        check("connections.statement_seconds", connections.statement_seconds, 1, 60)?;
        check("connections.lock_seconds", connections.lock_seconds, 1, 60)?;
        check("connections.silence_seconds", connections.silence_seconds, 1, 60)?;
        check("objects.max_puts", wide(objects.max_puts), 1, 256)?;
        check("objects.put_seconds", objects.put_seconds, 1, 300)?;
        check("objects.read_seconds", objects.read_seconds, 1, 300)?;
        check("objects.orphan_hours", objects.orphan_hours, 1, 8760)?;
        check("objects.sweep_hours", objects.sweep_hours, 1, 720)?;
        let longer = connections.statement_seconds + 1;
        check("connections.deadline_seconds", connections.deadline_seconds, longer, 120)
    }
}
