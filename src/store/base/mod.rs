//! The ground of every subject: the database and its blob store, the owner of the blob store, pages
//! of lists, and the state that a gateway keeps in memory.
//!
//! Methods of the subjects are methods of [`Base`]. The `Store` adds the groups in which waiting
//! jobs are written together. A lock in memory is held for a few instructions, and no second one is
//! taken under it; only `owner.rs` has other callers wait while it asks.

pub mod free_space;
pub mod gateway_registry;
pub mod owner;
pub mod page;
pub mod pending_records;
pub mod room_turns;
pub mod unindexed_cache;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell};
use uuid::Uuid;

use self::free_space::FreeSpace;
use self::gateway_registry::GatewayRegistry;
use self::pending_records::PendingRecords;
use self::room_turns::RoomTurns;
use self::unindexed_cache::UnindexedCache;
use crate::domain::feature::Offer;
use crate::domain::id::Mint;
use crate::domain::repeats::Repeats;
use crate::metrics::Metrics;
use crate::rules::{Deliveries, Gateways};
use crate::store::blobs::objects::Blobs;
use crate::store::engine::database::{Database, Transaction};
use crate::store::engine::embedded::Embedded;
use crate::store::engine::error::StoreError;
use crate::store::engine::lease::BEGIN_SEARCH;
use crate::store::engine::sql::{Connection, Row, Statement};
use crate::store::engine::trust::Trust;
use crate::store::engine::writer::Flush;

/// The database and the state beside it, shared by callers and writers.
#[derive(Clone, Debug)]
pub struct Base {
    pub(in crate::store) database: Database,
    pub(in crate::store) blobs: Option<Blobs>,
    pub(in crate::store) free_space: FreeSpace,
    pub(in crate::store) mint: Mint,
    pub(in crate::store) trust: Trust,
    pub(in crate::store) repeats: Repeats,
    pub(in crate::store) identity: Arc<OnceCell<Uuid>>,
    pub(in crate::store) deliveries: Deliveries,
    pub(in crate::store) gateways: Gateways,
    /// Says who has a feature.
    pub(in crate::store) offer: Arc<Offer>,
    /// Rings when deliveries were committed: see [`Self::bell`].
    pub(in crate::store) bell: Arc<Notify>,
    pub(in crate::store) room_turns: RoomTurns,
    pub(in crate::store) gateway_registry: GatewayRegistry,
    pub(in crate::store) pending_records: PendingRecords,
    pub(in crate::store) unindexed: UnindexedCache,
    /// The replay that was worked on last.
    pub(in crate::store) replayed: Arc<Mutex<Uuid>>,
    /// Set once by the gateway: see [`Self::measure_by`].
    pub(in crate::store) metrics: Arc<OnceLock<Metrics>>,
    /// Time limit of closing: as long as a statement under way may take.
    pub(in crate::store) closing: Duration,
}

impl Base {
    pub(in crate::store) const fn embedded(&self) -> Option<&Embedded> {
        self.database.embedded()
    }

    /// Returns any connection, for one read.
    pub(in crate::store) fn reader(&self) -> Connection<'_> {
        self.database.reader(&self.trust)
    }

    /// Begins a writing transaction: see [`Database::begin`].
    pub(in crate::store) async fn begin(&self) -> Result<Transaction, StoreError> {
        self.begin_flushed(Flush::Now).await
    }

    pub(in crate::store) async fn begin_flushed(
        &self,
        flush: Flush,
    ) -> Result<Transaction, StoreError> {
        self.database.begin(&self.trust, &self.bell, flush).await
    }

    /// Measures the commits of this store and of all its clones from now on.
    pub fn measure_by(&self, metrics: Metrics) {
        // A second gateway on one open store does not exist.
        let _already = self.metrics.set(metrics);
    }

    /// Returns the bell that rings when this process has committed deliveries that are due.
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// Fetches all rows of a statement that walks many, and gives up when it takes too long.
    pub(in crate::store) async fn fetch_in_time(
        &self,
        query: Statement,
    ) -> Result<Vec<Row>, StoreError> {
        match &self.database {
            Database::Sqlite(embedded) => embedded.fetch_in_time(query, &self.trust).await,
            Database::Postgres(_) => query.fetch_all(self.reader()).await,
        }
    }

    /// Fetches all rows of a token search: see [`BEGIN_SEARCH`].
    pub(in crate::store) async fn fetch_search(
        &self,
        query: Statement,
    ) -> Result<Vec<Row>, StoreError> {
        let Database::Postgres(pool) = &self.database else {
            return query.fetch_all(self.reader()).await;
        };
        let mut lease = pool.begin(BEGIN_SEARCH).await?;
        let rows = query.fetch_all(Connection::Postgres(&mut lease)).await?;
        lease.commit().await?;
        Ok(rows)
    }

    pub(in crate::store) const fn mint(&self) -> &Mint {
        &self.mint
    }

    pub(in crate::store) const fn cancel_at_once(&self) -> u32 {
        self.deliveries.cancel_at_once
    }

    /// Returns the store of large originals; None if they lie in the database.
    pub(in crate::store) const fn blobs(&self) -> Option<&Blobs> {
        self.blobs.as_ref()
    }

    /// Fails once the store cannot be trusted: after a write that did not reach the disk, no other
    /// is taken for durable (contract §2.4).
    pub fn check_trust(&self) -> Result<(), StoreError> {
        self.trust.check()
    }

    /// Returns the bytes free for this user in the file system of the embedded store, or of the
    /// blob folder if it has less; up to a second old. None if mail is in neither, or if the system
    /// does not tell. Fails with `Hung` if the file system does not answer.
    pub async fn free_space(&self) -> Result<Option<u64>, StoreError> {
        self.free_space.measure().await
    }
}
