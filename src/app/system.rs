//! The state of this gateway, for those who operate it: the gauges of its metrics, and the minutes
//! of the page System. Nothing of a tenant is in it.
//!
//! Gauges are read when somebody asks, at most once a second for all who ask together. Lock: the last
//! reading, held while the store is read, within a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::domain::clock::{Clock, Timestamp};
use crate::domain::evidence::count;
use crate::domain::ports::MailLoad;
use crate::domain::repeats::{LogCause, Repeats};
use crate::metrics::{Gauges, Metrics, MetricsError};
use crate::store::{GatewayVersion, Store, StoreError};

/// How long a reading is shown.
const FRESH: Duration = Duration::from_secs(1);
/// Longest wait for the store.
const PATIENCE: Duration = Duration::from_secs(3);

/// Certificates in use: their listener, and how to read when the first of them ends; None while there
/// is none.
pub type CertificateEnd = (&'static str, Arc<dyn Fn() -> Option<Timestamp> + Send + Sync>);

/// Parts of the gateway that only their maker knows.
#[derive(Clone)]
pub struct Parts {
    pub load: Arc<dyn Fn() -> MailLoad + Send + Sync>,
    /// Each pool of connections to the database, by its name.
    pub pools: Vec<(&'static str, Store)>,
    pub certificates: Vec<CertificateEnd>,
}

#[derive(Clone)]
pub struct System {
    pub metrics: Metrics,
    store: Store,
    clock: Clock,
    parts: Parts,
    last: Arc<Mutex<Option<(Timestamp, Gauges)>>>,
    repeats: Repeats,
}

impl System {
    pub fn new(metrics: Metrics, store: Store, clock: Clock, parts: Parts) -> Self {
        let (last, repeats) = (Arc::default(), Repeats::default());
        Self { metrics, store, clock, parts, last, repeats }
    }

    /// Returns the gauges, read at most a second ago. A figure that the store does not tell in time
    /// is None.
    pub async fn gauges(&self) -> Gauges {
        let mut last = self.last.lock().await;
        let now = self.clock.steady();
        if let Some((at, gauges)) = last.as_ref()
            && (*at..at.plus(FRESH)).contains(&now)
        {
            return gauges.clone();
        }
        let gauges = self.read().await;
        self.metrics.set(&gauges);
        // As of the end: those who waited for a slow store need not ask it again, one by one.
        *last = Some((self.clock.steady(), gauges.clone()));
        gauges
    }

    async fn read(&self) -> Gauges {
        let load = (self.parts.load)();
        let pool = |(name, store): &(&'static str, Store)| (*name, store.pool_load());
        let (backlog, free, gateways) = tokio::join!(
            self.in_time(self.store.backlog()),
            self.in_time(self.store.free_space()),
            self.in_time(self.store.living_gateways()),
        );
        let overdue = backlog.map(|backlog| {
            let overdue = backlog.due.map(|due| self.clock.steady().millis() - due.millis());
            Duration::from_millis(u64::try_from(overdue.unwrap_or(0)).unwrap_or(0))
        });
        let pair = |GatewayVersion { version, gateways }| (version, gateways);
        let end = |(listener, end): &CertificateEnd| Some((*listener, end()?));
        Gauges {
            sessions: load.sessions.map(count),
            memory_bytes: load.memory_bytes.map(count),
            waiting_deliveries: backlog.and_then(|found| u64::try_from(found.waiting).ok()),
            overdue,
            free_bytes: free.flatten(),
            certificates: self.parts.certificates.iter().filter_map(end).collect(),
            gateways: gateways.map(|found| found.into_iter().map(pair).collect()),
            connections: self.parts.pools.iter().map(pool).collect(),
        }
    }

    /// Waits for a reading of the store; None if it fails, or takes too long.
    async fn in_time<T>(&self, reading: impl Future<Output = Result<T, StoreError>>) -> Option<T> {
        let read = timeout(PATIENCE, reading).await.unwrap_or(Err(StoreError::TooSlow));
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        if let Some(left_out) = self.repeats.due(LogCause::Gauges) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, left_out, "cannot read the gauges of the store");
        }
        None
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
