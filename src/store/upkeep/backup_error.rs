//! Reasons why a store is not copied, or not restored.

use std::io;
use std::path::PathBuf;

use crate::store::engine::embedded::FILE;
use crate::store::engine::error::StoreError;

/// Holds the digests of the database and of `tls`, as `sha256sum -c` reads them.
pub const SUM: &str = "gatepost.db.sha256";

/// Why there is no copy. Nothing was overwritten, and the unfinished copy was removed; only
/// `Unflushed` leaves a whole one.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "{at} is a PostgreSQL database: back it up with PostgreSQL's own tools (pg_dump, or base \
         backups and the archived log), together with the originals kept outside the database, \
         gatepost.toml and the policies folder"
    )]
    Shared { at: String },
    #[error(
        "{} is not empty{}: name a folder that is empty or does not exist yet",
        folder.display(),
        if *broken_off { " (holds an unfinished backup or restore: remove that)" } else { "" }
    )]
    Occupied { folder: PathBuf, broken_off: bool },
    #[error("cannot {doing} {}", path.display())]
    File { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{} holds a whole copy, but it may not survive a power failure: remove it and try again",
        folder.display()
    )]
    Unflushed { folder: PathBuf, source: io::Error },
    #[error(
        "{count} originals of the store are missing or damaged below {}: {first}, …",
        folder.display()
    )]
    Lost { folder: PathBuf, count: u64, first: String },
    #[error("mail is being erased faster than it can be copied: try again later")]
    Restless,
    #[error("there is no finished backup in {}: {SUM} or {FILE} is missing", .0.display())]
    NoBackup(PathBuf),
    #[error(
        "{} holds large originals, but the settings name another place for them: restore without \
         `blobs`",
        .0.display()
    )]
    OriginalsAside(PathBuf),
    #[error("{} is damaged: {detail}", at.display())]
    Damaged { at: PathBuf, detail: String },
    #[error(
        "{} opens none of the secrets in the store ({listed}): replace the file with the one that \
         holds their keys, or continue without the file",
        path.display()
    )]
    OtherKeys { path: PathBuf, listed: String },
}

impl From<sqlx::Error> for BackupError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
