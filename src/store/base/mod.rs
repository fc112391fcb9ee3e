//! The ground that every subject stands on: the database with its blobs, whose they are, the pages of
//! its lists, and what a gateway keeps in memory beside it.
//!
//! Methods of the subjects are methods of [`Base`]; the `Store` is that, and the groups in which what
//! waits is written together.

pub mod company;
pub mod noting;
pub mod owner;
pub mod page;
pub mod space;
pub mod unindexed;
pub mod walked;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell};
use uuid::Uuid;

use self::company::Company;
use self::noting::Noting;
use self::space::Space;
use self::unindexed::Unindexed;
use self::walked::Walked;
use crate::domain::id::Mint;
use crate::domain::repeats::Repeats;
use crate::rules::{Deliveries, Gateways};
use crate::store::blobs::objects::Blobs;
use crate::store::engine::database::{Database, Transaction};
use crate::store::engine::embedded::Embedded;
use crate::store::engine::error::StoreError;
use crate::store::engine::sql::{Connection, Row, Statement};
use crate::store::engine::trust::Trust;

/// The database, as it is shared by callers and writers.
#[derive(Clone, Debug)]
pub struct Base {
    pub(in crate::store) database: Database,
    pub(in crate::store) blobs: Option<Blobs>,
    pub(in crate::store) space: Space,
    pub(in crate::store) mint: Mint,
    pub(in crate::store) trust: Trust,
    pub(in crate::store) repeats: Repeats,
    pub(in crate::store) identity: Arc<OnceCell<Uuid>>,
    pub(in crate::store) deliveries: Deliveries,
    pub(in crate::store) gateways: Gateways,
    /// Rings when deliveries were committed.
    pub(in crate::store) bell: Arc<Notify>,
    pub(in crate::store) walked: Walked,
    pub(in crate::store) company: Company,
    /// Records of refusals that are being written behind their replies.
    pub(in crate::store) noting: Noting,
    pub(in crate::store) unindexed: Unindexed,
    /// The replay that was worked on last.
    pub(in crate::store) replayed: Arc<Mutex<Uuid>>,
    /// As long as a statement under way may take.
    pub(in crate::store) closing: Duration,
}

impl Base {
    /// The embedded database, if it is one.
    pub(in crate::store) const fn embedded(&self) -> Option<&Embedded> {
        self.database.embedded()
    }

    /// Any connection, to read one thing.
    pub(in crate::store) fn reader(&self) -> Connection<'_> {
        self.database.reader(&self.trust)
    }

    /// A transaction that means to write: see [`Database::begin`].
    pub(in crate::store) async fn begin(&self) -> Result<Transaction, StoreError> {
        self.database.begin(&self.trust, &self.bell).await
    }

    /// Rings when this process has committed deliveries that are due, new or to be sent again.
    pub fn bell(&self) -> Arc<Notify> {
        Arc::clone(&self.bell)
    }

    /// All rows of a statement that walks many and is given up when it takes too long, by whichever
    /// database.
    pub(in crate::store) async fn fetch_in_time(
        &self,
        query: Statement,
    ) -> Result<Vec<Row>, StoreError> {
        self.database.fetch_in_time(query, &self.trust).await
    }

    /// All rows of a statement that looks for tokens.
    pub(in crate::store) async fn fetch_by_bitmaps(
        &self,
        query: Statement,
    ) -> Result<Vec<Row>, StoreError> {
        self.database.fetch_by_bitmaps(query, &self.trust).await
    }

    pub(in crate::store) const fn mint(&self) -> &Mint {
        &self.mint
    }

    pub(in crate::store) const fn cancel_at_once(&self) -> u32 {
        self.deliveries.cancel_at_once
    }

    /// Where large raw messages lie, if not in the database.
    pub(in crate::store) const fn blobs(&self) -> Option<&Blobs> {
        self.blobs.as_ref()
    }

    /// Whether nothing has happened after which the store cannot be trusted: after a write that did
    /// not reach the disk, no later one is (contract §2.4).
    pub fn check_trust(&self) -> Result<(), StoreError> {
        self.trust.check()
    }

    /// Octets that are free for this user in the file system of the embedded store, or of the
    /// folder of large originals where it has less; up to a second old. `None` where mail is in
    /// neither, and where nobody could say.
    pub async fn free_space(&self) -> Option<u64> {
        self.space.free().await
    }
}
