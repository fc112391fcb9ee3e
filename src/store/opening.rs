//! Opening the store, and closing it.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::base::Base;
use super::base::free_space::FreeSpace;
use super::base::gateway_registry::GatewayRegistry;
use super::base::pending_records::PendingRecords;
use super::base::room_turns::RoomTurns;
use super::base::unindexed_cache::UnindexedCache;
use super::blobs::objects::Blobs;
use super::blobs::place::StorePlace;
use super::commit::batch::CommitWriter;
use super::commit::refusals::{RecentRefusals, RefusalWriter};
use super::engine::database::Database;
use super::engine::error::StoreError;
use super::engine::group::{Group, Linger};
use super::engine::location::Location;
use super::engine::schema::Opening;
use super::engine::sql::sql;
use super::engine::trust::Trust;
use super::events::delivery::attempt_results::AttemptWriter;
use super::events::delivery::current_contents::ContentReader;
use super::tenancy::directory::VersionReader;
use super::tenancy::shared_reads::{AccountReader, KeyHolderReader, StandingReader};
use super::upkeep::backup::{BackupSummary, OriginalsPlace};
use super::upkeep::backup_error::BackupError;
use super::upkeep::companion_files::CompanionFiles;
use super::upkeep::restore;
use crate::domain::id::Mint;
use crate::domain::repeats::Repeats;
use crate::rules::{Share, StoreRules};

/// The store of one gateway: the methods of the `Base`, and those done together. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(super) base: Base,
    /// Messages waiting to be committed.
    pub(super) commits: Group<CommitWriter>,
    /// Records of refusals, for which no caller waits.
    pub(super) refusal_records: Group<CommitWriter>,
    /// Attempts waiting to be recorded.
    pub(super) attempts: Group<AttemptWriter>,
    /// Refusals waiting to be counted.
    pub(super) refusals: Group<RefusalWriter>,
    pub(super) recent_refusals: RecentRefusals,
    /// Callers waiting for the directory's version.
    pub(super) versions: Group<VersionReader>,
    /// Callers waiting for the standing that a decision rests on.
    pub(super) recipients: Group<StandingReader>,
    /// Callers waiting for the holder of a key, the account of an id, and the contents of events.
    pub(super) holders: Group<KeyHolderReader>,
    pub(super) named: Group<AccountReader>,
    pub(super) contents: Group<ContentReader>,
}

/// Tasks that read the directory, and standings: a silent connection holds up one of them.
const READERS: usize = 3;

impl Deref for Store {
    type Target = Base;

    fn deref(&self) -> &Base {
        &self.base
    }
}

impl Store {
    /// Creates the store if there is none, migrates and opens it. Fails if another database owns
    /// its blob store.
    pub async fn create(
        place: impl Into<StorePlace>,
        rules: &StoreRules,
        mint: Mint,
    ) -> Result<Self, StoreError> {
        let patience = rules.connections.acquire();
        let store = Self::connect(&place.into(), rules, mint, Opening::Create, patience).await?;
        store.claim_blobs().await?;
        Ok(store)
    }

    /// Opens an existing store and migrates it to this version.
    pub async fn open(
        place: impl Into<StorePlace>,
        rules: &StoreRules,
        mint: Mint,
    ) -> Result<Self, StoreError> {
        Self::open_within(place, rules, mint, rules.connections.acquire()).await
    }

    /// Opens an existing store. Retries for `patience` while PostgreSQL cannot be reached.
    pub async fn open_within(
        place: impl Into<StorePlace>,
        rules: &StoreRules,
        mint: Mint,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        Self::connect(&place.into(), rules, mint, Opening::Migrate, patience).await
    }

    /// Opens an existing store, and changes nothing in it. Fails with `Older` if it would have to be
    /// migrated.
    pub async fn open_as_is(
        place: impl Into<StorePlace>,
        rules: &StoreRules,
        mint: Mint,
    ) -> Result<Self, StoreError> {
        let patience = rules.connections.acquire();
        Self::connect(&place.into(), rules, mint, Opening::AsIs, patience).await
    }

    async fn connect(
        place: &StorePlace,
        rules: &StoreRules,
        mint: Mint,
        opening: Opening,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let connections = &rules.connections;
        let database = Database::open(&place.database, connections, opening, patience).await?;
        // Two writers of SQLite would only wait for each other, and its file does not fall silent.
        let (writers, readers) = match &database {
            Database::Sqlite(_) => (1, 1),
            Database::Postgres(_) => (rules.commit.writers, READERS),
        };
        let trust = Trust::default();
        let open = |blobs| Blobs::open(blobs, rules.objects, mint.clone(), trust.clone());
        let blobs = place.blobs.as_ref().map(open).transpose()?;
        let base = Base {
            database,
            blobs,
            free_space: FreeSpace::of(place),
            mint,
            trust,
            repeats: Repeats::default(),
            identity: Arc::default(),
            deliveries: rules.deliveries,
            gateways: rules.gateways,
            offer: Arc::clone(&rules.offer),
            bell: Arc::default(),
            room_turns: RoomTurns::default(),
            gateway_registry: GatewayRegistry::default(),
            unindexed: UnindexedCache::default(),
            pending_records: PendingRecords::new(
                rules.commit.refusals(),
                rules.commit.max_messages,
            ),
            replayed: Arc::default(),
            metrics: Arc::default(),
            closing: connections.deadline(),
        };
        base.adopt_steady_time().await?;
        let commits = Group::start(CommitWriter::new(base.clone()), rules.commit, writers);
        let linger = Linger { pause: rules.commit.refusal(), hurry: base.pending_records.hurry() };
        let refusal_records =
            Group::lingering(CommitWriter::new(base.clone()), rules.commit, 1, Some(linger));
        let attempts = Group::start(AttemptWriter { base: base.clone() }, rules.commit, writers);
        let refusals = Group::start(RefusalWriter::new(base.clone()), rules.commit, 1);
        let versions = Group::start(VersionReader(base.clone()), rules.commit, readers);
        let recipients = Group::start(StandingReader(base.clone()), rules.commit, readers);
        let holders = Group::start(KeyHolderReader(base.clone()), rules.commit, 1);
        let named = Group::start(AccountReader(base.clone()), rules.commit, 1);
        let contents = Group::start(ContentReader { base: base.clone() }, rules.commit, 1);
        Ok(Self {
            base,
            commits,
            refusal_records,
            attempts,
            refusals,
            recent_refusals: RecentRefusals::new(),
            versions,
            recipients,
            holders,
            named,
            contents,
        })
    }

    /// Returns this store with connections of its own: to read, and on PostgreSQL to write. Both
    /// share the groups of writes, the reads of standings and of the directory's version, and the
    /// writing connection of SQLite, which is closed with the first store.
    pub async fn apart(&self, rules: &StoreRules, share: Share) -> Result<Self, StoreError> {
        let (readers, connections) = rules.connections.of(share);
        let database = self.database.apart(readers, connections).await?;
        let base = Base { database, ..self.base.clone() };
        let holders = Group::start(KeyHolderReader(base.clone()), rules.commit, 1);
        let named = Group::start(AccountReader(base.clone()), rules.commit, 1);
        let contents = Group::start(ContentReader { base: base.clone() }, rules.commit, 1);
        Ok(Self { base, holders, named, contents, ..self.clone() })
    }

    /// Resolves when the store can no longer be trusted, with the reason and what to do.
    pub async fn broken(&self) -> StoreError {
        self.trust.lost().await
    }

    /// Fails if the database does not answer, or the store cannot be trusted.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.check_trust()?;
        let last = sql("SELECT last FROM user_ids").on_postgres("SELECT last_value FROM user_ids");
        last.fetch_one(self.reader()).await.map(drop)
    }

    /// Fails if the store cannot be written to, as a server must know before it takes in mail.
    pub async fn check_writable(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        // SQLite notices with the first row that it changes; without a commit the row stays as it
        // was. PostgreSQL fails at `begin` if it is a standby, which cannot be written to.
        sql("UPDATE user_ids SET last = last")
            .on_postgres("SELECT last_value FROM user_ids")
            .execute(tx.on())
            .await?;
        drop(tx);
        match self.blobs() {
            Some(blobs) => {
                // Claimed again even if it has been: a server is starting.
                self.claim_blobs().await?;
                blobs.probe().await
            }
            None => Ok(()),
        }
    }

    /// Waits, for a second at most, for records of refusals; then closes all connections after the
    /// work under way. Does not wait for a server that has fallen silent.
    pub async fn close(&self) {
        self.pending_records.wait_until_written().await;
        let closing = self.database.close();
        if tokio::time::timeout(self.closing, closing).await.is_err() {
            tracing::warn!("timed out closing database connections");
        }
    }
}

/// Makes the store at `location` (empty or missing) from the backup in `from`, and migrates it.
pub async fn restore(
    from: &Path,
    location: &Location,
    originals: OriginalsPlace,
    companions: CompanionFiles,
    rules: &StoreRules,
    mint: Mint,
) -> Result<BackupSummary, BackupError> {
    let copied = restore::restore(from, location, originals, companions, &mint).await?;
    Store::open(location, rules, mint).await?.close().await;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::clock::{Clock, Timestamp};
    use crate::store::engine::writer::Flush;

    async fn store_in(folder: &Path) -> Store {
        let clock = Clock::new(|| Timestamp::from_millis(1));
        let mint = Mint::new(clock, Arc::new(|octets: &mut [u8]| octets.fill(7)));
        let location = Location::Folder(folder.to_owned());
        let rules = crate::rules::Rules::defaults().unwrap().store;
        Store::create(&location, &rules, mint).await.unwrap()
    }

    #[tokio::test]
    async fn nothing_is_written_after_a_write_that_did_not_reach_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(folder.path()).await;
        let begun_before = store.begin().await.unwrap();
        store.base.trust.record_loss(StoreError::NotDurable(None));
        assert!(matches!(begun_before.commit().await, Err(StoreError::NotDurable(None))));
        assert!(matches!(store.begin().await.err(), Some(StoreError::NotDurable(None))));
        assert!(matches!(store.ping().await, Err(StoreError::NotDurable(None))));
        assert!(matches!(store.broken().await, StoreError::NotDurable(None)));
    }

    /// All transactions share one connection: none may be begun as the one before was.
    #[tokio::test]
    async fn a_commit_waits_for_the_disk_but_where_it_says_that_it_need_not() {
        let folder = tempfile::tempdir().unwrap();
        let store = store_in(folder.path()).await;
        let (full, normal) = (2, 1);
        for (flush, expected) in
            [(Flush::Later, normal), (Flush::Now, full), (Flush::Later, normal), (Flush::Now, full)]
        {
            let mut tx = store.begin_flushed(flush).await.unwrap();
            let row = sql("PRAGMA synchronous").fetch_one(tx.on()).await.unwrap();
            assert_eq!(row.get::<i64>("synchronous").unwrap(), expected, "{flush:?}");
            tx.commit().await.unwrap();
        }
        let mut tx = store.begin().await.unwrap();
        let row = sql("PRAGMA synchronous").fetch_one(tx.on()).await.unwrap();
        assert_eq!(row.get::<i64>("synchronous").unwrap(), full);
    }
}
