//! Copies the embedded store while servers run on it.
//!
//! The database comes first: one snapshot (`VACUUM INTO`, over a connection that only reads), which
//! holds all that was acknowledged before the backup began. Then come the originals that it names
//! and that lie outside of it. A missing one was erased after the snapshot, or is lost: the live
//! store knows which. Erased mail must not come back with a restore, so another snapshot is taken,
//! and copied originals are used again. Lost mail is an error.

use std::io;
use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Connection as _, Row as _};

use super::backup_error::BackupError;
use super::companion_files::{CompanionFiles, SealedSecrets};
use super::unfinished_copy::{OBJECTS, OriginalCopier, UnfinishedCopy, failed};
use crate::store::blobs::place::{BlobPlace, StorePlace};
use crate::store::engine::embedded::{self, FILE};
use crate::store::engine::error::StoreError;
use crate::store::engine::location::Location;
use crate::store::engine::schema;

/// Most snapshots of one backup. The second finds nearly all originals copied, so that hardly any
/// can be erased before it is done.
const SNAPSHOTS: u32 = 3;
/// Names of originals in memory at a time.
const PAGE: i64 = 500;

/// Where originals lie that are too large for the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginalsPlace {
    /// In the folder beside the database: part of the copy.
    Beside,
    /// In a store that the operator backs up separately.
    Elsewhere,
}

impl OriginalsPlace {
    /// Returns where this store has them. Compares canonical paths.
    pub fn of(place: &StorePlace) -> Self {
        let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
        let beside = match (&place.database, &place.blobs) {
            (Location::Folder(data), Some(BlobPlace::Folder(blobs))) => {
                let own = data.join(OBJECTS);
                *blobs == own || whole(blobs).is_some_and(|blobs| Some(blobs) == whole(&own))
            }
            _ => false,
        };
        if beside { Self::Beside } else { Self::Elsewhere }
    }
}

/// The contents of a finished copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    pub messages: u64,
    /// Bytes of its database and its originals.
    pub octets: u64,
    /// Originals that its database names.
    pub objects: u64,
    /// Secrets in its database.
    pub sealed: Vec<SealedSecrets>,
}

/// Copies the store at `location`, with the files beside it, into the folder `to`, which must be
/// empty or missing. Fails with `Restless` if mail is erased during each of `SNAPSHOTS` tries.
pub async fn back_up(
    location: &Location,
    to: &Path,
    originals: OriginalsPlace,
    companions: CompanionFiles,
) -> Result<BackupSummary, BackupError> {
    let folder = embedded_only(location)?;
    let file = folder.join(FILE);
    if !file.try_exists().map_err(failed("look for", &file))? {
        return Err(StoreError::Missing { at: folder.display().to_string() }.into());
    }
    let mut live = open_database(&file, true).await?;
    check_version(&mut live, folder).await?;
    let mut unfinished = UnfinishedCopy::begin(to)?;
    let source = folder.join(OBJECTS);
    for _ in 0..SNAPSHOTS {
        unfinished = on_pool(move || unfinished.begin_again()).await?;
        let mut copy = take_snapshot(&mut live, &unfinished.database()).await?;
        check_database(&mut copy, &file).await?;
        let sealed = companions.sealed(&mut copy).await?;
        let copier = unfinished.original_copier(&source);
        let found = take_originals(&mut copy, Some(&mut live), originals, &copier).await?;
        if found.erased > 0 {
            continue;
        }
        let messages = count_messages(&mut copy).await?;
        copy.close().await?;
        let octets = on_pool(move || {
            unfinished.put(&companions)?;
            let octets = unfinished.seal(&companions)?;
            unfinished.finish().map(|()| octets)
        });
        let octets = octets.await? + found.octets;
        return Ok(BackupSummary { messages, octets, objects: found.count, sealed });
    }
    Err(BackupError::Restless)
}

/// Returns the folder of an embedded store; fails with `Shared` on PostgreSQL.
pub fn embedded_only(location: &Location) -> Result<&Path, BackupError> {
    match location {
        Location::Folder(folder) => Ok(folder),
        Location::Postgres(url) => Err(BackupError::Shared { at: url.to_string() }),
    }
}

/// Opens a connection of its own to a database file.
pub async fn open_database(file: &Path, read_only: bool) -> Result<SqliteConnection, BackupError> {
    let options = SqliteConnectOptions::new().filename(file).read_only(read_only);
    let opening = options.foreign_keys(true).connect().await;
    opening.map_err(|source| {
        StoreError::Open { at: file.display().to_string(), source: source.into() }.into()
    })
}

/// Fails if the file holds no store, or one of a newer version.
pub async fn check_version(
    database: &mut SqliteConnection,
    folder: &Path,
) -> Result<(), BackupError> {
    let table = sqlx::query("SELECT 1 FROM sqlite_schema WHERE name = $1")
        .bind(schema::TABLE)
        .fetch_optional(&mut *database)
        .await?;
    if table.is_none() {
        return Err(StoreError::Missing { at: folder.display().to_string() }.into());
    }
    let names = sqlx::query_as(schema::NAMES).fetch_all(&mut *database).await?;
    schema::is_current(database, &embedded::migrations(), &names).await?;
    Ok(())
}

/// Fails if the database is damaged: a backup that cannot be restored is none.
pub async fn check_database(
    database: &mut SqliteConnection,
    file: &Path,
) -> Result<(), BackupError> {
    let damaged = |detail| BackupError::Damaged { at: file.to_owned(), detail };
    let line = sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(&mut *database).await;
    let line: String = line.map_err(|error| damaged(error.to_string()))?;
    if line != "ok" {
        return Err(damaged(line));
    }
    let orphan = sqlx::query("PRAGMA foreign_key_check").fetch_optional(database).await;
    match orphan.map_err(|error| damaged(error.to_string()))? {
        None => Ok(()),
        Some(row) => {
            let (table, parent): (String, String) = (row.try_get(0)?, row.try_get(2)?);
            Err(damaged(format!("a row of {table} refers to a missing row of {parent}")))
        }
    }
}

pub async fn count_messages(database: &mut SqliteConnection) -> Result<u64, BackupError> {
    let count: i64 =
        sqlx::query_scalar("SELECT COUNT(*) FROM messages").fetch_one(database).await?;
    Ok(u64::try_from(count).unwrap_or_default())
}

async fn take_snapshot(
    live: &mut SqliteConnection,
    to: &Path,
) -> Result<SqliteConnection, BackupError> {
    let name = to.to_str().ok_or_else(|| {
        failed("write", to)(io::Error::new(io::ErrorKind::InvalidFilename, "its name is not UTF-8"))
    })?;
    // Writes into the existing file, which keeps its mode.
    sqlx::query("VACUUM INTO $1").bind(name).execute(live).await?;
    open_database(to, true).await
}

/// Counts of the originals that a database names.
#[derive(Debug, Default)]
pub struct OriginalCounts {
    pub count: u64,
    pub octets: u64,
    /// Missing, and no longer named by the live store: erased since the snapshot.
    erased: u64,
    /// Still named, and missing or with another digest.
    lost: u64,
    first_lost: String,
}

/// Copies the originals that the database names, or counts those that lie elsewhere. Asks `live`
/// whether a missing one was erased; fails with `Lost` if one was not, or without `live`.
pub async fn take_originals(
    database: &mut SqliteConnection,
    live: Option<&mut SqliteConnection>,
    place: OriginalsPlace,
    copier: &OriginalCopier,
) -> Result<OriginalCounts, BackupError> {
    if place == OriginalsPlace::Elsewhere {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(DISTINCT object) FROM contents")
            .fetch_one(database)
            .await?;
        let count = u64::try_from(count).unwrap_or_default();
        return Ok(OriginalCounts { count, ..OriginalCounts::default() });
    }
    let found = copy_originals(database, live, copier).await?;
    if found.lost > 0 {
        let (folder, first) = (copier.from.clone(), found.first_lost);
        return Err(BackupError::Lost { folder, count: found.lost, first });
    }
    Ok(found)
}

async fn copy_originals(
    database: &mut SqliteConnection,
    mut live: Option<&mut SqliteConnection>,
    copier: &OriginalCopier,
) -> Result<OriginalCounts, BackupError> {
    let mut found = OriginalCounts::default();
    let mut after = NamedOriginal::default();
    loop {
        let page = named_originals(database, &after).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after.clone_from(last);
        let copier = copier.clone();
        let copied = on_pool(move || {
            let take = |named: NamedOriginal| Ok((copier.take(&named.object)?, named));
            page.into_iter().map(take).collect::<Result<Vec<_>, BackupError>>()
        });
        for (copied, named) in copied.await? {
            found.count += 1;
            match copied {
                Some(file) if file.digest.0 == *named.digest => found.octets += file.octets,
                _ if is_erased(live.as_deref_mut(), &named).await? => found.erased += 1,
                _ => {
                    if found.lost == 0 {
                        found.first_lost = named.object;
                    }
                    found.lost += 1;
                }
            }
        }
    }
}

/// Runs work that waits for the disk on a thread for it, to its end even if the future is dropped.
pub async fn on_pool<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|_| Err(StoreError::Ended.into()))
}

/// An original outside of the database.
#[derive(Clone, Default)]
struct NamedOriginal {
    digest: Vec<u8>,
    object: String,
}

/// Returns the next page of originals behind `after`; messages with the same one count once.
async fn named_originals(
    database: &mut SqliteConnection,
    after: &NamedOriginal,
) -> Result<Vec<NamedOriginal>, BackupError> {
    let page = "SELECT DISTINCT object_digest, object FROM contents
                WHERE object IS NOT NULL AND (object_digest, object) > ($1, $2)
                ORDER BY object_digest, object LIMIT $3";
    let page = sqlx::query(page).bind(after.digest.as_slice()).bind(after.object.as_str());
    let rows = page.bind(PAGE).fetch_all(database).await?;
    let named = rows.iter().map(|row| {
        Ok(NamedOriginal { digest: row.try_get("object_digest")?, object: row.try_get("object")? })
    });
    named.collect()
}

async fn is_erased(
    live: Option<&mut SqliteConnection>,
    named: &NamedOriginal,
) -> Result<bool, BackupError> {
    let Some(live) = live else { return Ok(false) };
    let still = "SELECT 1 FROM contents WHERE object_digest = $1 AND object = $2";
    let still = sqlx::query(still).bind(named.digest.as_slice()).bind(named.object.as_str());
    Ok(still.fetch_optional(live).await?.is_none())
}
