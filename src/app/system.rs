//! The state of this gateway, for those who operate it: the gauges of its metrics, and the minutes
//! of the page System. Nothing of a tenant is in it.
//!
//! Gauges are read when somebody asks, at most once a second for all who ask together; a store that
//! does not answer leaves its gauges as they were. Lock: the last reading, held while the store is
//! read, within a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval};

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::repeats::{LogCause, Repeats};
use crate::metrics::{Gauges, Metrics, MetricsError};
use crate::store::{Store, StoreError};

/// How long a reading is shown.
const FRESH: Duration = Duration::from_secs(1);
/// Longest wait for the store.
const PATIENCE: Duration = Duration::from_secs(5);

/// The work of the front end for mail.
#[derive(Clone, Copy, Debug, Default)]
pub struct MailLoad {
    /// Open sessions.
    pub sessions: usize,
    /// Bytes reserved for messages under way.
    pub memory_bytes: usize,
}

/// A certificate in use: its listener, and how to read its end.
pub type CertificateEnd = (&'static str, Arc<dyn Fn() -> Timestamp + Send + Sync>);

/// Parts of the gateway that only their maker knows.
#[derive(Clone)]
pub struct Parts {
    pub load: Arc<dyn Fn() -> MailLoad + Send + Sync>,
    pub certificates: Vec<CertificateEnd>,
}

#[derive(Clone)]
pub struct System {
    pub metrics: Metrics,
    store: Store,
    clock: Clock,
    parts: Parts,
    started: Timestamp,
    last: Arc<Mutex<Option<(Timestamp, Gauges)>>>,
    repeats: Repeats,
}

impl System {
    pub fn new(metrics: Metrics, store: Store, clock: Clock, parts: Parts) -> Self {
        let started = clock.now();
        let (last, repeats) = (Arc::default(), Repeats::default());
        Self { metrics, store, clock, parts, started, last, repeats }
    }

    /// When this gateway started.
    pub const fn started(&self) -> Timestamp {
        self.started
    }

    /// Returns the gauges, read at most a second ago.
    pub async fn gauges(&self) -> Gauges {
        let mut last = self.last.lock().await;
        let now = self.clock.steady();
        if let Some((at, gauges)) = last.as_ref()
            && (*at..at.plus(FRESH)).contains(&now)
        {
            return gauges.clone();
        }
        let earlier = last.as_ref().map(|(_, gauges)| gauges.clone()).unwrap_or_default();
        let gauges = self.read(earlier).await;
        self.metrics.set(&gauges);
        *last = Some((now, gauges.clone()));
        gauges
    }

    async fn read(&self, earlier: Gauges) -> Gauges {
        let load = (self.parts.load)();
        let connections = self.store.open_connections();
        let end = |(listener, end): &CertificateEnd| (*listener, end());
        let own = Gauges {
            sessions: load.sessions,
            memory_bytes: load.memory_bytes,
            certificates: self.parts.certificates.iter().map(end).collect(),
            connections: connections.all,
            idle_connections: connections.idle,
            ..earlier
        };
        let stored = tokio::time::timeout(PATIENCE, self.read_store(own.clone())).await;
        match stored.unwrap_or(Err(StoreError::TooSlow)) {
            Ok(gauges) => gauges,
            Err(error) => {
                if let Some(left_out) = self.repeats.due(LogCause::Gauges) {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, left_out, "cannot read the gauges of the store");
                }
                own
            }
        }
    }

    async fn read_store(&self, own: Gauges) -> Result<Gauges, StoreError> {
        let backlog = self.store.backlog().await?;
        let overdue = backlog.due.map_or(0, |due| self.clock.steady().millis() - due.millis());
        Ok(Gauges {
            waiting_deliveries: u64::try_from(backlog.waiting).unwrap_or(0),
            overdue: Duration::from_millis(u64::try_from(overdue).unwrap_or(0)),
            free_bytes: self.store.free_space().await?,
            gateways: usize::try_from(self.store.living_gateways().await?).unwrap_or(0),
            ..own
        })
    }

    /// Returns all metrics as text of Prometheus.
    pub async fn text(&self) -> Result<Vec<u8>, MetricsError> {
        self.gauges().await;
        self.metrics.text()
    }

    /// Keeps the figures of each minute until `stop`.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let mut minutes = interval(Duration::from_secs(60));
        minutes.set_missed_tick_behavior(MissedTickBehavior::Skip);
        // The first tick comes at once: the history begins with the start.
        minutes.tick().await;
        let keeping = async {
            loop {
                minutes.tick().await;
                self.metrics.keep_minute(self.clock.now());
            }
        };
        tokio::select! {
            () = stop => {}
            () = keeping => {}
        }
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("System")
    }
}
