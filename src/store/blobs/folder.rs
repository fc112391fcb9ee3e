//! Large raw messages in a folder. `object_store` writes, flushes and renames files; this file
//! makes folders, sets modes, interprets errors and removes unfinished files.

use std::fs::{self, DirEntry, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, ObjectStore};

use crate::disk;
use crate::domain::clock::Timestamp;
use crate::domain::repeats::{LogCause, Repeats};
use crate::store::engine::error::StoreError;

/// All objects lie below this folder.
pub const RAW: &str = "raw";

#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Opens the folder, and makes it if it is missing.
    ///
    /// `with_fsync` flushes a file before it gets its name, and the folder after. It does not wait
    /// for the flush of a folder that another put is making at this moment. So all folders are made
    /// here, before the first file, for this user only.
    pub(in crate::store) fn open(root: &FilePath) -> Result<(Self, Arc<dyn ObjectStore>), Error> {
        let generic = |error: io::Error| Error::Generic { store: "blobs", source: error.into() };
        let root = std::path::absolute(root).map_err(generic)?;
        let raw = root.join(RAW);
        disk::make_folder(&raw).map_err(generic)?;
        let shards = (0..=u8::MAX).map(|shard| shard_of(&raw, shard));
        disk::make_folders(&raw, shards).map_err(generic)?;
        let objects = LocalFileSystem::new_with_prefix(&root)?.with_fsync(true);
        Ok((Self(root), Arc::new(objects)))
    }

    /// Interprets the error of a failed put. `object_store` does not say which step failed, so the
    /// worst case is assumed (contract §2.4). An I/O error of the device counts as a failed flush.
    /// If the file has its name, the flush of its folder failed: other files may have got their
    /// names in it at this moment, and the next flush would report success. A file without its name
    /// breaks nothing: it was for this message alone, and its name is never used again.
    pub(in crate::store) fn fault_of_put(&self, path: &Path, error: Error) -> StoreError {
        let published = !matches!(self.file(path).try_exists(), Ok(false));
        let Some(cause) = io_error(&error) else { return StoreError::Objects(error.into()) };
        match fault(cause, published) {
            Fault::NotDurable => StoreError::NotDurable(Some(Arc::new(error))),
            Fault::Full => StoreError::Full(Arc::new(error)),
            Fault::Other => StoreError::Objects(error.into()),
        }
    }

    /// Gives the file a mode for this user only. Its folder is private: failures are only logged.
    pub(in crate::store) fn make_private(&self, path: &Path, repeats: &Repeats) {
        let private = Permissions::from_mode(0o600);
        if let Err(error) = fs::set_permissions(self.file(path), private)
            && let Some(left_out) = repeats.due(LogCause::Mode)
        {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, left_out, "cannot make a blob file private");
        }
    }

    /// Removes files older than `before` that killed puts left; returns how many. `object_store`
    /// writes into `NAME#1` before it renames, and lists no such file.
    pub(in crate::store) fn remove_unfinished(&self, before: Timestamp) -> io::Result<u64> {
        let mut removed = 0;
        for shard in 0..=u8::MAX {
            for entry in fs::read_dir(shard_of(&self.0.join(RAW), shard))? {
                let entry = entry?;
                let is_unfinished = entry.file_name().as_encoded_bytes().contains(&b'#');
                if is_unfinished && written(&entry)? < i128::from(before.millis()) {
                    fs::remove_file(entry.path())?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    fn file(&self, path: &Path) -> PathBuf {
        self.0.join(path.as_ref())
    }
}

/// Returns the time of the last change, in milliseconds since the Unix epoch.
fn written(entry: &DirEntry) -> io::Result<i128> {
    let since = entry.metadata()?.modified()?.duration_since(UNIX_EPOCH);
    Ok(since.map_or(0, |since| i128::try_from(since.as_millis()).unwrap_or(i128::MAX)))
}

fn shard_of(raw: &FilePath, shard: u8) -> PathBuf {
    raw.join(format!("{shard:02x}"))
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    NotDurable,
    Full,
    Other,
}

fn fault(error: &io::Error, published: bool) -> Fault {
    // errno(3), the same on Linux, macOS and the BSDs.
    const EIO: i32 = 5;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EIO) => Fault::NotDurable,
        // Too many files are open: this one was not even opened for its flush.
        Some(ENFILE | EMFILE) => Fault::Other,
        _ => match error.kind() {
            // Errors of opening a file, never of flushing it.
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory => Fault::Other,
            _ if published => Fault::NotDurable,
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Fault::Full,
            _ => Fault::Other,
        },
    }
}

/// Returns the system's error inside an error of `object_store`.
fn io_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e io::Error> {
    let mut error = Some(error);
    while let Some(one) = error {
        if let Some(found) = one.downcast_ref() {
            return Some(found);
        }
        error = one.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_failed_flush_is_taken_for_one() {
        const ENOSPC: i32 = 28;
        for (errno, published, expected) in [
            (5, false, Fault::NotDurable),
            (5, true, Fault::NotDurable),
            (ENOSPC, true, Fault::NotDurable),
            (ENOSPC, false, Fault::Full),
            (27, false, Fault::Full),
            (13, false, Fault::Other),
            (20, true, Fault::Other),
            (24, true, Fault::Other),
        ] {
            let error = io::Error::from_raw_os_error(errno);
            assert_eq!(fault(&error, published), expected, "{errno} {published}");
        }
    }

    #[test]
    fn the_error_of_the_system_is_found_and_a_put_without_a_name_breaks_nothing() {
        let root = tempfile::tempdir().unwrap();
        let (folder, _) = Folder::open(root.path()).unwrap();
        let full = io::Error::from_raw_os_error(28);
        let wrapped = || Error::Generic {
            store: "x",
            source: Box::new(io::Error::new(full.kind(), io::Error::from_raw_os_error(28))),
        };
        let path = Path::from("raw/00/x");
        assert!(matches!(folder.fault_of_put(&path, wrapped()), StoreError::Full(_)));
        fs::write(root.path().join("raw/00/x"), "").unwrap();
        assert!(matches!(folder.fault_of_put(&path, wrapped()), StoreError::NotDurable(_)));
    }
}
