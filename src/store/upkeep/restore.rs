//! Makes a store from a backup, in a folder that was empty. Nothing of it is visible before all of
//! it was checked: the database is as the backup wrote it, sound and not too new; every original
//! that it names exists and has its digest; the files beside it are unchanged.

use std::path::Path;

use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::backup::{self, BackupSummary, OriginalsPlace, on_pool};
use super::backup_error::{BackupError, SUM};
use super::companion_files::CompanionFiles;
use super::file_digest;
use super::unfinished_copy::{OBJECTS, UnfinishedCopy, failed};
use crate::domain::id::Mint;
use crate::store::engine::embedded::FILE;
use crate::store::engine::location::Location;

/// Ids that are skipped. Receivers know ids that the lost store gave out since the backup: a new
/// contact with such an id would enter another contact's conversations.
const IDS_LEFT_OUT: i64 = 1_000_000;

/// Makes the store at `location`, which must be empty or missing, from the backup in `from`, whose
/// `companions` the caller has read. The store keeps the version of its schema.
pub async fn restore(
    from: &Path,
    location: &Location,
    originals: OriginalsPlace,
    companions: CompanionFiles,
    mint: &Mint,
) -> Result<BackupSummary, BackupError> {
    let folder = backup::embedded_only(location)?;
    let (file, source) = (from.join(FILE), from.join(OBJECTS));
    let (expected, sums) = sums(from)?;
    if originals == OriginalsPlace::Elsewhere && source.exists() {
        return Err(BackupError::OriginalsAside(source));
    }
    companions.check(from, &sums)?;
    let mut unfinished = UnfinishedCopy::begin(folder)?;
    let (part, original) = (unfinished.database(), file.clone());
    let copying = on_pool(move || {
        let mut part =
            std::fs::File::options().write(true).open(&part).map_err(failed("open", &part))?;
        file_digest::copy(&original, &mut part).map_err(failed("copy", &original))
    });
    let copied = copying.await?;
    if copied.digest.to_string() != expected {
        let detail = format!("the file was changed: its SHA-256 differs from the one in {SUM}");
        return Err(BackupError::Damaged { at: file, detail });
    }
    let mut database = backup::open_database(&unfinished.database(), false).await?;
    backup::check_database(&mut database, &file).await?;
    backup::check_version(&mut database, from).await?;
    let sealed = companions.sealed(&mut database).await?;
    let copier = unfinished.original_copier(&source);
    let found = backup::take_originals(&mut database, None, originals, &copier).await?;
    let messages = backup::count_messages(&mut database).await?;
    sqlx::query("UPDATE user_ids SET last = last + $1")
        .bind(IDS_LEFT_OUT)
        .execute(&mut database)
        .await?;
    if found.count > 0 && originals == OriginalsPlace::Beside {
        let owner = identity(&mut database, mint).await?;
        unfinished.set_owner(owner)?;
    }
    database.close().await?;
    on_pool(move || unfinished.put(&companions).and_then(|()| unfinished.finish())).await?;
    let octets = copied.octets + found.octets;
    Ok(BackupSummary { messages, octets, objects: found.count, sealed })
}

/// Returns the id of the database, made now if it has none. A copy keeps it and owns the originals.
async fn identity(database: &mut SqliteConnection, mint: &Mint) -> Result<Uuid, BackupError> {
    sqlx::query("INSERT INTO identity (single, id) VALUES (1, $1) ON CONFLICT (single) DO NOTHING")
        .bind(mint.uuid())
        .execute(&mut *database)
        .await?;
    let id = sqlx::query_scalar("SELECT id FROM identity WHERE single = 1");
    Ok(id.fetch_one(database).await?)
}

/// Reads the digest of the database, and all lines of [`SUM`]; fails with `NoBackup` without them.
fn sums(from: &Path) -> Result<(String, String), BackupError> {
    let no_backup = || BackupError::NoBackup(from.to_owned());
    if !from.join(FILE).is_file() || !from.join(SUM).is_file() {
        return Err(no_backup());
    }
    let path = from.join(SUM);
    let lines = std::fs::read_to_string(&path).map_err(failed("read", &path))?;
    let sum = lines.split_whitespace().next().map(ToOwned::to_owned).ok_or_else(no_backup)?;
    Ok((sum, lines))
}
