//! Makes a store from a backup, in a folder that was empty. Nothing of it is visible before all of
//! it was checked: the database is as the backup wrote it, sound and not too new; every original
//! that it names exists and has its digest; the files beside it are unchanged.

use std::path::Path;

use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use uuid::Uuid;

use super::backup::{self, Copied, Objects, on_pool};
use super::backup_error::{BackupError, SUM};
use super::beside::Beside;
use super::content;
use super::draft::{Draft, OBJECTS, at};
use crate::domain::id::Mint;
use crate::store::engine::embedded::FILE;
use crate::store::engine::location::Location;

/// Ids that are skipped. Receivers know ids that the lost store gave out since the backup: a new
/// contact with such an id would enter another contact's conversations.
const IDS_LEFT_OUT: i64 = 1_000_000;

/// Makes the store at `location`, which must be empty or missing, from the backup in `from`, whose
/// files of `beside` the caller has read. The store keeps the version of its schema.
pub async fn restore(
    from: &Path,
    location: &Location,
    objects: Objects,
    beside: Beside,
    mint: &Mint,
) -> Result<Copied, BackupError> {
    let folder = backup::embedded_only(location)?;
    let (file, source) = (from.join(FILE), from.join(OBJECTS));
    let (expected, sums) = sums(from)?;
    if objects == Objects::Elsewhere && source.exists() {
        return Err(BackupError::OriginalsAside(source));
    }
    beside.check(from, &sums)?;
    let mut draft = Draft::begin(folder)?;
    let (part, original) = (draft.database(), file.clone());
    let content = on_pool(move || {
        let mut part =
            std::fs::File::options().write(true).open(&part).map_err(at("open", &part))?;
        content::copy(&original, &mut part).map_err(at("copy", &original))
    });
    let content = content.await?;
    if content.digest.to_string() != expected {
        let detail = format!("the file was changed: its SHA-256 differs from the one in {SUM}");
        return Err(BackupError::Damaged { at: file, detail });
    }
    let mut database = backup::open(&draft.database(), false).await?;
    backup::check(&mut database, &file).await?;
    backup::check_version(&mut database, from).await?;
    let sealed = beside.sealed(&mut database).await?;
    let found = match objects {
        Objects::Beside => {
            backup::copy_objects(&mut database, None, &draft.carrier(&source)).await?
        }
        Objects::Elsewhere => backup::count_objects(&mut database).await?,
    };
    found.check(&source)?;
    let messages = backup::count_messages(&mut database).await?;
    sqlx::query("UPDATE user_ids SET last = last + $1")
        .bind(IDS_LEFT_OUT)
        .execute(&mut database)
        .await?;
    if found.count > 0 && objects == Objects::Beside {
        let owner = identity(&mut database, mint).await?;
        draft.set_owner(owner)?;
    }
    database.close().await?;
    on_pool(move || draft.put(&beside).and_then(|()| draft.finish())).await?;
    let octets = content.octets + found.octets;
    Ok(Copied { messages, octets, objects: found.count, sealed })
}

/// Returns the id of the database; a copy has the same one. So the originals keep their owner.
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
    let lines = std::fs::read_to_string(&path).map_err(at("read", &path))?;
    let sum = lines.split_whitespace().next().map(ToOwned::to_owned).ok_or_else(no_backup)?;
    Ok((sum, lines))
}
