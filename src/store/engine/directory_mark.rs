//! Whether the directory of the embedded store may have changed, told by a file: each RCPT asks, and
//! a question to SQLite would wake its thread twice.
//!
//! A transaction that changes the directory, in whichever process, locks the file with others, writes
//! a new mark into it, and unlocks it behind its commit or rollback; so does the end of its process.
//! Where a reader can lock the file alone, and finds the mark that it read a version with, no change
//! was committed since.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

const FILE: &str = "gatepost.directory";

/// The version of the last change, committed or not; 0 before the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark([u8; 8]);

#[derive(Clone, Debug)]
pub struct DirectoryMark {
    path: PathBuf,
    /// One lock for all threads: the lock of a file is not held by a thread, but by the open file.
    reader: Arc<Mutex<Reader>>,
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
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(FILE);
        let reader = Reader { file: open(&path)?, known: None };
        Ok(Self { path, reader: Arc::new(Mutex::new(reader)) })
    }

    /// Returns the mark; None while a transaction changes the directory, or if the file cannot be
    /// locked.
    pub fn read(&self) -> Option<Mark> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        reader.file.try_lock().ok()?;
        let mut mark = [0; 8];
        let read = reader.file.read_at(&mut mark, 0);
        reader.file.unlock().ok()?;
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
        let file = open(&self.path)?;
        file.lock_shared()?;
        file.write_all_at(&version.to_be_bytes(), 0)?;
        Ok(Changing { _locked: file })
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_remembered_until_a_change_is_announced_in_this_process_or_another() {
        let folder = tempfile::tempdir().unwrap();
        let (server, command) = (
            DirectoryMark::open(folder.path()).unwrap(),
            DirectoryMark::open(folder.path()).unwrap(),
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
        let directory = DirectoryMark::open(folder.path()).unwrap();
        let before = directory.read().unwrap();
        let changing = directory.change(5).unwrap();
        directory.remember(before, 4);
        drop(changing);
        let after = directory.read().unwrap();
        assert_ne!(before, after);
        assert_eq!(directory.version_at(after), None);
    }
}
