//! Opening the store, and the two doors to it: reading and writing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::OnceCell;
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
use super::shared::{Contents, Holders, Named};
use super::space::Space;
use super::sql::{Connection, Row, Statement, sql};
use super::trust::Trust;
use crate::domain::id::Mint;
use crate::domain::repeats::Repeats;
use crate::rules::{Deliveries, Gateways, Share, StoreRules};

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
    /// Who waits to hear who holds a key, which account an id names, and what events are about.
    pub(super) holders: Group<Holders>,
    pub(super) named: Group<Named>,
    pub(super) contents: Group<Contents>,
}

/// The database, as it is shared by callers and writers.
#[derive(Clone, Debug)]
pub(super) struct Base {
    database: Database,
    blobs: Option<Blobs>,
    space: Space,
    mint: Mint,
    trust: Trust,
    pub(super) repeats: Repeats,
    pub(super) identity: Arc<OnceCell<Uuid>>,
    pub(super) deliveries: Deliveries,
    pub(super) gateways: Gateways,
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
        let patience = rules.connections.acquire();
        let store = Self::connect(&place.into(), rules, mint, (true, patience)).await?;
        store.claim_blobs().await?;
        Ok(store)
    }

    /// Opens a store that exists and brings it to this version.
    pub async fn open(
        place: impl Into<Place>,
        rules: &StoreRules,
        mint: Mint,
    ) -> Result<Self, StoreError> {
        Self::open_within(place, rules, mint, rules.connections.acquire()).await
    }

    /// The same; a PostgreSQL that cannot be reached is asked again for so long.
    pub async fn open_within(
        place: impl Into<Place>,
        rules: &StoreRules,
        mint: Mint,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        Self::connect(&place.into(), rules, mint, (false, patience)).await
    }

    async fn connect(
        place: &Place,
        rules: &StoreRules,
        mint: Mint,
        (create, patience): (bool, Duration),
    ) -> Result<Self, StoreError> {
        let connections = &rules.connections;
        let database = match &place.database {
            Location::Folder(folder) => {
                Database::Sqlite(embedded::open(folder, connections, create).await?)
            }
            Location::Postgres(url) => {
                Database::Postgres(postgres::open(url, connections, create, patience).await?)
            }
        };
        // Two writers of SQLite would only wait for each other.
        let writers = match &database {
            Database::Sqlite(_) => 1,
            Database::Postgres(_) => rules.commit.writers,
        };
        let trust = Trust::default();
        let open = |blobs| Blobs::open(blobs, rules.objects, mint.clone(), trust.clone());
        let blobs = place.blobs.as_ref().map(open).transpose()?;
        let base = Base {
            database,
            blobs,
            space: Space::of(place),
            mint,
            trust,
            repeats: Repeats::default(),
            identity: Arc::default(),
            deliveries: rules.deliveries,
            gateways: rules.gateways,
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
        let holders = Group::start(Holders::new(base.clone()), rules.commit, 1);
        let named = Group::start(Named::new(base.clone()), rules.commit, 1);
        let contents = Group::start(Contents::new(base.clone()), rules.commit, 1);
        Ok(Self { base, intakes, attempts, refusals, versions, holders, named, contents })
    }

    /// The same store, read by connections of its own (on PostgreSQL written, too): whoever has it
    /// waits for none of those that others use, nor they for these. What waits to be written
    /// together is one queue for all.
    pub async fn apart(&self, rules: &StoreRules, share: Share) -> Result<Self, StoreError> {
        let (readers, connections) = rules.connections.of(share);
        let database = match &self.base.database {
            Database::Sqlite(embedded) => Database::Sqlite(embedded.apart(readers).await?),
            Database::Postgres(pool) => Database::Postgres(pool.apart(connections).await?),
        };
        let base = Base { database, ..self.base.clone() };
        let holders = Group::start(Holders::new(base.clone()), rules.commit, 1);
        let named = Group::start(Named::new(base.clone()), rules.commit, 1);
        let contents = Group::start(Contents::new(base.clone()), rules.commit, 1);
        Ok(Self { base, holders, named, contents, ..self.clone() })
    }

    /// Resolves when the store can no longer be trusted, with the reason and what to do.
    pub async fn broken(&self) -> StoreError {
        self.base.trust.lost().await
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
                blobs.probe().await
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
            Database::Sqlite(embedded) => embedded.fetch_in_time(query, &self.base.trust).await,
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
}

impl Base {
    /// The embedded database, if it is one.
    pub(super) const fn embedded(&self) -> Option<&Embedded> {
        match &self.database {
            Database::Sqlite(embedded) => Some(embedded),
            Database::Postgres(_) => None,
        }
    }

    /// Any connection, to read one thing.
    pub(super) fn reader(&self) -> Connection<'_> {
        match &self.database {
            Database::Sqlite(database) => Connection::SqlitePool(&database.reader, &self.trust),
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
                let begun = database.writer.begin_with("BEGIN IMMEDIATE").await;
                Inner::Sqlite(begun.map_err(|error| self.trust.noting(error))?)
            }
            Database::Postgres(pool) => Inner::Postgres(pool.begin().await?),
        };
        // Whoever had the connection before may have found out while this one waited for it.
        self.check_trust()?;
        Ok(Transaction { inner, trust: self.trust.clone() })
    }

    /// After a write that did not reach the disk, no later one is trusted (contract §2.4).
    pub(super) fn check_trust(&self) -> Result<(), StoreError> {
        self.trust.check()
    }
}

/// A writing transaction; dropped without `commit`, it leaves nothing.
pub(super) struct Transaction {
    inner: Inner,
    trust: Trust,
}

enum Inner {
    Sqlite(sqlx::Transaction<'static, sqlx::Sqlite>),
    Postgres(Lease),
}

impl Transaction {
    /// Durable once this returned Ok. Goes on when its future is dropped, because a write that does
    /// not reach the disk must be noticed even if nobody waits for it any more.
    pub(super) async fn commit(self) -> Result<(), StoreError> {
        let Self { inner, trust } = self;
        trust.check()?;
        let committing = tokio::spawn(async move {
            let result = match inner {
                Inner::Sqlite(inner) => inner.commit().await,
                Inner::Postgres(inner) => inner.commit().await,
            };
            result.map_err(|error| trust.noting(error))
        });
        committing.await.unwrap_or_else(|_| Err(sqlx::Error::WorkerCrashed.into()))
    }

    /// The connection to run statements on.
    pub(super) fn on(&mut self) -> Connection<'_> {
        match &mut self.inner {
            Inner::Sqlite(inner) => Connection::Sqlite(inner, &self.trust),
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
        store.base.trust.noting(StoreError::NotDurable(None));
        assert!(matches!(begun_before.commit().await, Err(StoreError::NotDurable(None))));
        assert!(matches!(store.begin().await.err(), Some(StoreError::NotDurable(None))));
        assert!(matches!(store.ping().await, Err(StoreError::NotDurable(None))));
        assert!(matches!(store.broken().await, StoreError::NotDurable(None)));
    }
}
