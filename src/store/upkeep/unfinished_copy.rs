//! An unfinished copy of a store, in a folder that was empty. It becomes a store or a backup when
//! its database gets its name, which comes last. If an error ends it before, it is removed.

use std::io;
use std::path::{Component, Path, PathBuf};

use uuid::Uuid;

use super::backup_error::{BackupError, SUM};
use super::companion_files::{CompanionFiles, SECRETS_KEY, TLS};
use super::file_digest::{self, FileDigest};
use crate::disk;
use crate::store::base::owner::OWNER;
use crate::store::engine::embedded::FILE;

/// The folder of originals outside of the database.
pub const OBJECTS: &str = "blobs";

/// The database until it is whole.
pub const PART: &str = "gatepost.db.part";
/// Originals that an earlier snapshot of the same backup named.
const BEFORE: &str = "blobs.before";

pub struct UnfinishedCopy {
    folder: PathBuf,
    made_folder: bool,
    /// This copy put the keys of the vault here, and may remove them.
    made_keys: bool,
    finished: bool,
}

impl UnfinishedCopy {
    /// Begins in `folder`, which must be empty or missing. The second of two in one folder fails.
    pub(in crate::store) fn begin(folder: &Path) -> Result<Self, BackupError> {
        // An absolute path, because SQLite would read a name like `file:…` as a URI.
        let folder = std::path::absolute(folder).map_err(failed("find", folder))?;
        if !disk::is_vacant(&folder).map_err(failed("look into", &folder))? {
            let broken_off = folder.join(PART).exists();
            return Err(BackupError::Occupied { folder, broken_off });
        }
        let made_folder = disk::make_folder(&folder).map_err(failed("make", &folder))?;
        // Making this file claims the folder.
        let database = folder.join(PART);
        disk::make_file(&database).map_err(failed("make", &database))?;
        Ok(Self { folder, made_folder, made_keys: false, finished: false })
    }

    /// Returns the path of the database, which exists.
    pub(in crate::store) fn database(&self) -> PathBuf {
        self.folder.join(PART)
    }

    /// Empties the database, and sets the originals aside that are here already, for the copier.
    pub(in crate::store) fn begin_again(self) -> Result<Self, BackupError> {
        let database = self.database();
        // Never removed, so that no other copy begins here.
        let emptying = std::fs::File::options().write(true).truncate(true).open(&database);
        emptying.map_err(failed("empty", &database))?;
        let (now, before) = (self.folder.join(OBJECTS), self.folder.join(BEFORE));
        if now.exists() {
            remove_folder(&before)?;
            std::fs::rename(&now, &before).map_err(failed("rename", &now))?;
        }
        Ok(self)
    }

    /// Returns a copier of originals from the folder `from`.
    pub(in crate::store) fn original_copier(&self, from: &Path) -> OriginalCopier {
        OriginalCopier {
            from: from.to_owned(),
            before: self.folder.join(BEFORE),
            to: self.folder.join(OBJECTS),
        }
    }

    /// Writes the owner of the originals beside them.
    pub(in crate::store) fn set_owner(&self, identity: Uuid) -> Result<(), BackupError> {
        let path = self.folder.join(OBJECTS).join(OWNER);
        disk::write_new(&path, format!("{identity}\n").as_bytes()).map_err(failed("write", &path))
    }

    /// Writes the files that are copied along; none of them may exist.
    pub(in crate::store) fn put(&mut self, companions: &CompanionFiles) -> Result<(), BackupError> {
        for (name, text) in companions.files() {
            let path = self.folder.join(name);
            if let Some(above) = path.parent() {
                disk::make_folder(above).map_err(failed("make", above))?;
            }
            disk::write_new(&path, text.expose()).map_err(failed("write", &path))?;
            self.made_keys |= path.ends_with(SECRETS_KEY);
        }
        Ok(())
    }

    /// Writes the digests of the database and of `tls`. Returns the bytes of the database.
    pub(in crate::store) fn seal(&self, companions: &CompanionFiles) -> Result<u64, BackupError> {
        let (path, sum) = (self.database(), self.folder.join(SUM));
        let database = file_digest::digest_of(&path).map_err(failed("read", &path))?;
        let lines = format!("{}  {FILE}\n{}", database.digest, companions.sums());
        disk::write_new(&sum, lines.as_bytes()).map_err(failed("write", &sum))?;
        Ok(database.octets)
    }

    /// Flushes all files, then gives the database its name: from now on this is a store, also if
    /// this fails with `Unflushed`. Removes originals set aside and not taken.
    pub(in crate::store) fn finish(mut self) -> Result<(), BackupError> {
        remove_folder(&self.folder.join(BEFORE))?;
        for folder in [OBJECTS, TLS].map(|name| self.folder.join(name)) {
            if folder.exists() {
                disk::sync_tree(&folder).map_err(failed("write", &folder))?;
            }
        }
        let (part, whole) = (self.database(), self.folder.join(FILE));
        let syncing = std::fs::File::open(&part).and_then(|file| file.sync_all());
        syncing.map_err(failed("write", &part))?;
        disk::sync_folder(&self.folder).map_err(failed("write", &self.folder))?;
        if whole.exists() {
            return Err(BackupError::Occupied { folder: self.folder.clone(), broken_off: false });
        }
        std::fs::rename(&part, &whole).map_err(failed("rename", &part))?;
        // Stays, whatever comes: somebody may use it already.
        self.finished = true;
        let unflushed = |source| BackupError::Unflushed { folder: self.folder.clone(), source };
        disk::sync_folder(&self.folder).map_err(unflushed)
    }
}

impl Drop for UnfinishedCopy {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        for name in [PART, "gatepost.db.part-journal", SUM] {
            let _not_there = std::fs::remove_file(self.folder.join(name));
        }
        if self.folder.join(FILE).exists() {
            // Another process made a store here meanwhile, to which the files beside it may belong.
            return;
        }
        if self.made_keys {
            let _not_there = std::fs::remove_file(self.folder.join(SECRETS_KEY));
        }
        for name in [OBJECTS, BEFORE, TLS] {
            let _not_there = std::fs::remove_dir_all(self.folder.join(name));
        }
        if self.made_folder {
            let _not_empty = std::fs::remove_dir(&self.folder);
        }
    }
}

/// Copies originals, one by one.
#[derive(Clone, Debug)]
pub struct OriginalCopier {
    pub from: PathBuf,
    before: PathBuf,
    to: PathBuf,
}

impl OriginalCopier {
    /// Copies the original of this name, or moves the one set aside. Returns its length and digest,
    /// or None if it is missing.
    pub(in crate::store) fn take(&self, name: &str) -> Result<Option<FileDigest>, BackupError> {
        let Some(name) = relative(name) else { return Ok(None) };
        let (from, to) = (self.from.join(name), self.to.join(name));
        // The source is looked up first: a NotFound of the copy must not pass for a missing
        // original.
        let before = self.before.join(name);
        let is_set_aside = before.exists();
        match std::fs::metadata(&from) {
            _ if is_set_aside => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            looked => looked.map(drop).map_err(failed("read", &from))?,
        }
        if let Some(above) = to.parent() {
            disk::make_folder(above).map_err(failed("make", above))?;
        }
        if is_set_aside {
            std::fs::rename(&before, &to).map_err(failed("rename", &before))?;
            return file_digest::digest_of(&to).map(Some).map_err(failed("read", &to));
        }
        let mut file = disk::make_file(&to).map_err(failed("make", &to))?;
        match file_digest::copy(&from, &mut file) {
            // Erased between the look-up and the copy.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::remove_file(&to).map_err(failed("remove", &to))?;
                Ok(None)
            }
            copied => copied.map(Some).map_err(failed("copy", &from)),
        }
    }
}

/// Returns a name as a path below its folder; None for any other, as from a damaged database.
fn relative(name: &str) -> Option<&Path> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    (plain && !name.is_empty()).then_some(path)
}

/// Removes a folder, if it exists.
fn remove_folder(path: &Path) -> Result<(), BackupError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes an error that says which step failed, and where.
pub fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::File { doing, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The path of the folder leads through the former name of its database, which is a folder
    /// here: only the last flush fails.
    #[test]
    fn a_whole_copy_is_not_said_to_be_none() -> io::Result<()> {
        let place = tempfile::tempdir()?;
        let part = place.path().join(PART);
        std::fs::create_dir(&part)?;
        let folder = part.join("..");
        let copy = UnfinishedCopy { folder, made_folder: false, made_keys: false, finished: false };
        let ended = copy.finish();
        assert!(matches!(ended, Err(BackupError::Unflushed { .. })), "{ended:?}");
        assert!(place.path().join(FILE).exists());
        Ok(())
    }
}
