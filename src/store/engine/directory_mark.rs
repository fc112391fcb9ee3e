//! Whether the directory of the embedded store may have changed, told by a file: each RCPT asks, and
//! a question to SQLite would wake its thread twice.
//!
//! A transaction that changes the directory, in whichever process, locks the file with others, writes
//! a new mark into it, and unlocks it behind its commit or rollback; so does the end of its process.
//! Where a reader can lock the file alone, and finds the mark that it read a version with, no change
//! was committed since. If somebody removes or replaces the file, the readers that have the former one
//! open are told nothing any more, and ask the database until they start anew.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const FILE: &str = "gatepost.directory";

/// The version of the last change, committed or not; 0 before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark([u8; 8]);

#[derive(Debug)]
pub struct DirectoryMark {
    path: PathBuf,
    database: PathBuf,
    /// One lock for all threads: the lock of a file is not held by a thread, but by the open file.
    reader: Mutex<Reader>,
}

#[derive(Debug)]
struct Reader {
    file: File,
    known: Option<(Mark, i64)>,
}

/// The lock of a transaction that changes the directory, until it is dropped.
#[derive(Debug)]
pub struct Changing {
    _locked: File,
}

impl DirectoryMark {
    /// Opens the mark beside this file of the database.
    pub fn open(database: &Path) -> io::Result<Self> {
        let (path, database) = (database.with_file_name(FILE), database.to_owned());
        let reader = Reader { file: open(&path, &database)?, known: None };
        Ok(Self { path, database, reader: Mutex::new(reader) })
    }

    /// Returns the mark; None while a transaction changes the directory, if the file cannot be
    /// locked, or if it is not the one that a change would be written to.
    pub fn read(&self) -> Option<Mark> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.file.try_lock().ok()?;
        let mut mark = [0; 8];
        let read = reader.file.read_at(&mut mark, 0);
        reader.file.unlock().ok()?;
        let (mine, named) = (reader.file.metadata().ok()?, fs::metadata(&self.path).ok()?);
        if (mine.dev(), mine.ino()) != (named.dev(), named.ino()) {
            return None;
        }
        // Shorter only before the first change.
        read.ok().map(|_| Mark(mark))
    }

    /// Returns the version that was read behind this mark.
    pub fn version_at(&self, mark: Mark) -> Option<i64> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.known.filter(|(known, _)| *known == mark).map(|(_, version)| version)
    }

    /// Remembers a version that was read from the database after the mark.
    pub fn remember(&self, mark: Mark, version: i64) {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.known = Some((mark, version));
    }

    /// Announces a change to this version, which the caller's transaction has written, but not
    /// committed. Waits for readers, who hold the lock for some microseconds.
    pub fn change(&self, version: i64) -> io::Result<Changing> {
        // A lock of its own, which a reader of this process sees, too.
        let file = open(&self.path, &self.database)?;
        file.lock_shared()?;
        file.write_all_at(&version.to_be_bytes(), 0)?;
        Ok(Changing { _locked: file })
    }
}

/// Opens the file. One that is made here gets the mode of the database and, where that is allowed,
/// its owner, as SQLite does with its other files: else a command of root would shut the server out.
fn open(path: &Path, database: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        Ok(file) => {
            if let Ok(like) = fs::metadata(database) {
                // Only root may give a file away, and only root needs to.
                let _allowed = fchown(&file, Some(like.uid()), Some(like.gid()));
                file.set_permissions(like.permissions())?;
            }
            Ok(file)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_version_is_remembered_until_a_change_is_announced_in_this_process_or_another() {
        let folder = tempfile::tempdir().unwrap();
        let (server, command) = (
            DirectoryMark::open(&folder.path().join("database")).unwrap(),
            DirectoryMark::open(&folder.path().join("database")).unwrap(),
        );
        let mark = server.read().unwrap();
        assert_eq!(server.version_at(mark), None);
        server.remember(mark, 1);
        assert_eq!(server.version_at(server.read().unwrap()), Some(1));
        for (changer, version) in [(&server, 7), (&command, 8)] {
            let changing = changer.change(version).unwrap();
            assert_eq!(server.read(), None, "a transaction is under way");
            drop(changing);
            let mark = server.read().unwrap();
            assert_eq!(server.version_at(mark), None, "it may have committed");
            server.remember(mark, version);
            assert_eq!(server.version_at(server.read().unwrap()), Some(version));
        }
    }

    /// A version read while a change is under way counts for no later mark.
    #[test]
    fn a_version_is_not_remembered_for_a_later_mark() {
        let folder = tempfile::tempdir().unwrap();
        let directory = DirectoryMark::open(&folder.path().join("database")).unwrap();
        let before = directory.read().unwrap();
        let changing = directory.change(5).unwrap();
        directory.remember(before, 4);
        drop(changing);
        let after = directory.read().unwrap();
        assert_ne!(before, after);
        assert_eq!(directory.version_at(after), None);
    }

    /// A change behind it would be written to another file.
    #[test]
    fn a_file_that_was_removed_or_replaced_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("database");
        let server = DirectoryMark::open(&database).unwrap();
        server.remember(server.read().unwrap(), 1);
        fs::remove_file(&server.path).unwrap();
        assert_eq!(server.read(), None, "removed");
        let command = DirectoryMark::open(&database).unwrap();
        assert_eq!(server.read(), None, "replaced");
        drop(command.change(2).unwrap());
        assert_eq!(server.read(), None);
        drop(server.change(3).unwrap());
        assert_eq!(command.read(), Some(Mark(3_i64.to_be_bytes())));
    }

    #[test]
    fn the_file_is_for_those_who_have_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("database");
        let file = File::create(&database).unwrap();
        // As root: a server of another user.
        let _allowed = fchown(&file, Some(4711), Some(4712));
        file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
        let mark = DirectoryMark::open(&database).unwrap();
        let facts = |path: &Path| {
            let facts = fs::metadata(path).unwrap();
            (facts.mode() & 0o777, facts.uid(), facts.gid())
        };
        assert_eq!(facts(&mark.path), facts(&database));
        assert_eq!(facts(&mark.path).0, 0o640);
    }
}
