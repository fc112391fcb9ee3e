//! Opening the store, and the two doors to it: reading and writing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::batch::Intakes;
use super::blobs::Blobs;
use super::directory::Versions;
use super::embedded::{self, Embedded};
use super::error::StoreError;
use super::finish::Attempts;
use super::gateways::Company;
use super::group::Group;
use super::heads::Walked;
use super::lease::{Lease, Pool};
use super::location::{Location, Place};
use super::postgres;
use super::refusals::Refusals;
use super::space::Space;
use super::sql::{Connection, Row, Statement, sql};
use crate::domain::id::Mint;
use crate::rules::{Deliveries, StoreRules};

/// The store of one gateway. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) base: Base,
    /// Messages that wait to be committed.
    pub(super) intakes: Group<Intakes>,
    /// Attempts that wait to be recorded.
    pub(super) attempts: Group<Attempts>,
    /// Refusals that wait to be counted.
    pub(super) refusals: Group<Refusals>,
    /// Who waits for the directory's version.
    pub(super) versions: Group<Versions>,
}

/// The database, as it is shared by callers and writers.
#[derive(Clone, Debug)]
pub(super) struct Base {
    database: Database,
    blobs: Option<Blobs>,
    space: Space,
    mint: Mint,
    broken: CancellationToken,
    pub(super) identity: Arc<OnceCell<Uuid>>,
    pub(super) deliveries: Deliveries,
    pub(super) walked: Walked,
    pub(super) company: Company,
    /// The replay that was worked on last.
    pub(super) replayed: Arc<Mutex<Uuid>>,
    /// As long as a statement under way may take.
    closing: Duration,
}

#[derive(Clone, Debug)]
enum Database {
    Sqlite(Embedded),
    Postgres(Pool),
}

/// Readers of the directory's version: a connection that falls silent holds up one of them.
const READERS_OF_VERSIONS: usize = 3;

/// How often a transaction is tried that the database gives up for another one.
pub(super) const TRIES: u32 = 8;

/// Does work that is one transaction, and does it again while the database gives it up for another
/// one (a deadlock, a failed serialisation): nothing of it was written then.
macro_rules! settled {
    ($work:expr) => {{
        let mut tries = 1;
        loop {
            match $work.await {
                Err(StoreError::Conflict(_)) if tries < crate::store::db::TRIES => tries += 1,
                settled => break settled,
            }
        }
    }};
}
pub(super) use settled;

impl Store {
    /// Creates the store where there is none, brings it to this version, and opens it; its blob
    /// store must be nobody else's.
    pub async fn create(
        place: impl Into<Place>,
        rules: &StoreRules,
        mint: Mint,
    ) -> Result<Self, StoreError> {
        let store = Self::connect(&place.into(), rules, mint, true).await?;
        store.claim_blobs().await?;
        Ok(store)
    }

    /// Opens a store that exists and brings it to this version.
    pub async fn open(
        place: impl Into<Place>,
        rules: &StoreRules,
        mint: Mint,
    ) -> Result<Self, StoreError> {
        Self::connect(&place.into(), rules, mint, false).await
    }

    async fn connect(
        place: &Place,
        rules: &StoreRules,
        mint: Mint,
        create: bool,
    ) -> Result<Self, StoreError> {
        let connections = &rules.connections;
        let database = match &place.database {
            Location::Folder(folder) => {
                Database::Sqlite(embedded::open(folder, connections, create).await?)
            }
            Location::Postgres(url) => {
                Database::Postgres(postgres::open(url, connections, create).await?)
            }
        };
        // Two writers of SQLite would only wait for each other.
        let writers = match &database {
            Database::Sqlite(_) => 1,
            Database::Postgres(_) => rules.commit.writers,
        };
        let broken = CancellationToken::new();
        let open = |blobs| Blobs::open(blobs, rules.objects, mint.clone(), broken.clone());
        let blobs = place.blobs.as_ref().map(open).transpose()?;
        let base = Base {
            database,
            blobs,
            space: Space::of(place),
            mint,
            broken,
            identity: Arc::default(),
            deliveries: rules.deliveries,
            walked: Walked::default(),
            company: Company::default(),
            replayed: Arc::default(),
            closing: connections.deadline(),
        };
        base.take_up_time().await?;
        let intakes = Group::start(Intakes::new(base.clone()), rules.commit, writers);
        let attempts = Group::start(Attempts::new(base.clone()), rules.commit, writers);
        let refusals = Group::start(Refusals::new(base.clone()), rules.commit, 1);
        let versions = Group::start(Versions::new(base.clone()), rules.commit, READERS_OF_VERSIONS);
        Ok(Self { base, intakes, attempts, refusals, versions })
    }

    /// Resolves when a write has failed in a way that no later write can be trusted after.
    pub async fn broken(&self) {
        self.base.broken.cancelled().await;
    }

    /// Whether the store answers.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.base.check_trust()?;
        let last = sql("SELECT last FROM user_ids").on_postgres("SELECT last_value FROM user_ids");
        last.fetch_one(self.reader()).await.map(drop)
    }

    /// Whether the store can be written to, as a server must know before it takes mail in.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        // SQLite finds out with the first row that it changes; without a commit it stays as it was.
        // PostgreSQL says at `begin` that it is a standby, which cannot be written to.
        sql("UPDATE user_ids SET last = last")
            .on_postgres("SELECT last_value FROM user_ids")
            .execute(tx.on())
            .await?;
        drop(tx);
        match self.blobs() {
            Some(blobs) => {
                // Asked again even if it has been: this is the start of a server.
                self.claim_blobs().await?;
                blobs.check_writable(self.identity().await?).await
            }
            None => Ok(()),
        }
    }

    /// Ends all connections after the work under way; a server that has fallen silent is not waited
    /// for.
    pub async fn close(&self) {
        let closing = async {
            match &self.base.database {
                Database::Sqlite(Embedded { reader, writer, .. }) => {
                    reader.close().await;
                    writer.close().await;
                }
                Database::Postgres(pool) => pool.close().await,
            }
        };
        if tokio::time::timeout(self.base.closing, closing).await.is_err() {
            tracing::warn!("the database did not let go of its connections in time");
        }
    }

    pub(super) fn reader(&self) -> Connection<'_> {
        self.base.reader()
    }

    /// All rows of a statement that walks many and is given up when it takes too long, by whichever
    /// database.
    pub(super) async fn fetch_in_time(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        match &self.base.database {
            Database::Sqlite(embedded) => embedded.fetch_in_time(query).await,
            Database::Postgres(_) => query.fetch_all(self.reader()).await,
        }
    }

    /// All rows of a statement that looks for tokens: see [`Pool::begin_search`].
    pub(super) async fn fetch_by_bitmaps(&self, query: Statement) -> Result<Vec<Row>, StoreError> {
        let Database::Postgres(pool) = &self.base.database else {
            return query.fetch_all(self.reader()).await;
        };
        let mut lease = pool.begin_search().await?;
        let rows = query.fetch_all(Connection::Postgres(&mut lease)).await?;
        lease.commit().await?;
        Ok(rows)
    }

    pub(super) fn mint(&self) -> &Mint {
        &self.base.mint
    }

    pub(super) const fn cancel_at_once(&self) -> u32 {
        self.base.deliveries.cancel_at_once
    }

    pub(super) async fn begin(&self) -> Result<Transaction, StoreError> {
        self.base.begin().await
    }

    /// Which database this is; a copy is the same one.
    pub async fn identity(&self) -> Result<Uuid, StoreError> {
        self.base.identity().await
    }

    /// Where large raw messages lie, if not in the database.
    pub(super) const fn blobs(&self) -> Option<&Blobs> {
        self.base.blobs.as_ref()
    }

    pub(super) const fn space(&self) -> &Space {
        &self.base.space
    }

    pub(super) fn check_trust(&self) -> Result<(), StoreError> {
        self.base.check_trust()
    }
}

impl Base {
    /// Any connection, to read one thing.
    pub(super) fn reader(&self) -> Connection<'_> {
        match &self.database {
            Database::Sqlite(database) => Connection::SqlitePool(&database.reader),
            Database::Postgres(pool) => Connection::PostgresPool(pool),
        }
    }

    pub(super) fn mint(&self) -> &Mint {
        &self.mint
    }

    /// A transaction that means to write. On SQLite it is the only one from its first statement on
    /// (`BEGIN IMMEDIATE`), so that what it reads cannot change before it commits; on PostgreSQL
    /// others run beside it, and it locks what must not change.
    pub(super) async fn begin(&self) -> Result<Transaction, StoreError> {
        self.check_trust()?;
        let inner = match &self.database {
            Database::Sqlite(database) => {
                Inner::Sqlite(database.writer.begin_with("BEGIN IMMEDIATE").await?)
            }
            Database::Postgres(pool) => Inner::Postgres(pool.begin().await?),
        };
        // Whoever had the connection before may have found out while this one waited for it.
        self.check_trust()?;
        Ok(Transaction { inner, broken: self.broken.clone() })
    }

    /// After a write that did not reach the disk, no later one is trusted (contract §2.4).
    pub(super) fn check_trust(&self) -> Result<(), StoreError> {
        if self.broken.is_cancelled() { Err(StoreError::NotDurable(None)) } else { Ok(()) }
    }
}

/// A writing transaction; dropped without `commit`, it leaves nothing.
pub(super) struct Transaction {
    inner: Inner,
    broken: CancellationToken,
}

enum Inner {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    Postgres(Lease),
}

impl Transaction {
    /// Durable once this returned Ok. Goes on when its future is dropped, because a write that does
    /// not reach the disk must be noticed even if nobody waits for it any more.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let Self { inner, broken } = self;
        if broken.is_cancelled() {
            return Err(StoreError::NotDurable(None));
        }
        let committing = tokio::spawn(async move {
            let result = match inner {
                Inner::Sqlite(inner) => inner.commit().await,
                Inner::Postgres(inner) => inner.commit().await,
            };
            let result = result.map_err(StoreError::from);
            if let Err(StoreError::NotDurable(_)) = &result {
                broken.cancel();
            }
            result
        });
        committing.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed.into()))
    }

    /// The connection to run statements on.
    pub(super) fn on(&mut self) -> Connection<'_> {
        match &mut self.inner {
            Inner::Sqlite(inner) => Connection::Sqlite(inner, &self.broken),
            Inner::Postgres(inner) => Connection::Postgres(inner),
        }
    }

    /// Whether other transactions may write beside this one.
    pub(super) fn has_company(&self) -> bool {
        matches!(self.inner, Inner::Postgres(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::{Clock, Timestamp};

    #[tokio::test]
    async fn nothing_is_written_after_a_write_that_did_not_reach_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::new(|| Timestamp::from_millis(1));
        let mint = Mint::new(clock, Arc::new(|octets: &mut [u8]| octets.fill(7)));
        let location = Location::Folder(folder.path().to_owned());
        let store = Store::create(&location, &crate::rules::Rules::defaults().unwrap().store, mint)
            .await
            .unwrap();
        let begun_before = store.begin().await.unwrap();
        store.base.broken.cancel();
        assert!(matches!(begun_before.commit().await, Err(StoreError::NotDurable(None))));
        assert!(matches!(store.begin().await.err(), Some(StoreError::NotDurable(None))));
        assert!(matches!(store.ping().await, Err(StoreError::NotDurable(None))));
        store.broken().await;
    }
}
