//! Private files and folders that are durable when a call returns.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Writes a file atomically, replacing an existing one. After a failure either one may be there.
pub fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    written(path, octets)?.persist(path)?;
    sync_folder(folder_of(path))
}

/// Writes a file atomically. Fails with [`io::ErrorKind::AlreadyExists`] if there is one.
pub fn write_new(path: &Path, octets: &[u8]) -> io::Result<()> {
    written(path, octets)?.persist_noclobber(path)?;
    sync_folder(folder_of(path))
}

/// Writes a file atomically unless there is one; safe against concurrent writers. Returns whether
/// this call wrote it.
pub fn write_first(path: &Path, octets: &[u8]) -> io::Result<bool> {
    match write_new(path, octets) {
        // The other writer may not have flushed the file's name yet.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            sync_folder(folder_of(path)).map(|()| false)
        }
        wrote => wrote.map(|()| true),
    }
}

/// Writes and flushes a temporary file in the folder of `path`; its mode is 0600 from the start.
fn written(path: &Path, octets: &[u8]) -> io::Result<NamedTempFile> {
    let mut file = NamedTempFile::new_in(folder_of(path))?;
    file.write_all(octets)?;
    file.as_file().sync_all()?;
    Ok(file)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file with mode 0600; it must not exist. The caller writes and flushes it.
pub fn make_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Creates a folder and those above it, and flushes each name into its parent, so that files in it
/// are as durable as its name. Returns whether it was missing.
pub fn make_folder(path: &Path) -> io::Result<bool> {
    if path.parent().is_none() {
        return Ok(false);
    }
    let above = folder_of(path);
    let made = !path.is_dir() && {
        make_folder(above)?;
        make_one(path)?
    };
    // An earlier process may have been killed after it made the folder and before the flush. A
    // parent that cannot be read, such as /var/lib, was not made by us.
    match sync_folder(above) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !made => {}
        synced => synced?,
    }
    Ok(made)
}

/// Creates folders in the existing folder `above`, and flushes once.
pub fn make_folders(above: &Path, paths: impl Iterator<Item = PathBuf>) -> io::Result<()> {
    for path in paths {
        make_one(&path)?;
    }
    sync_folder(above)
}

/// Creates a folder with mode 0700. Returns whether it was missing.
fn make_one(path: &Path) -> io::Result<bool> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        made => made.map(|()| true),
    }
}

/// Flushes the names in a folder to disk.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Flushes a folder and all folders below it.
pub fn sync_tree(path: &Path) -> io::Result<()> {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
        sync_folder(&folder)?;
    }
    Ok(())
}

/// Tells whether there is nothing at `path`, or an empty folder.
pub fn is_vacant(path: &Path) -> io::Result<bool> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_is_private_and_whole_and_the_first_one_stays_until_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/file");
        assert!(make_folder(path.parent().unwrap()).unwrap());
        assert!(!make_folder(path.parent().unwrap()).unwrap());
        assert!(write_first(&path, b"one").unwrap());
        assert!(!write_first(&path, b"two").unwrap());
        assert_eq!(write_new(&path, b"two").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        replace(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("a"))), (0o600, 0o700));
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left over"
        );
    }

    #[test]
    fn a_file_where_a_folder_must_be_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        write_new(&path, b"").unwrap();
        assert!(make_folder(&path).is_err());
        assert!(make_folder(&path.join("below")).is_err());
        assert!(is_vacant(&folder.path().join("missing")).unwrap());
        assert!(!is_vacant(folder.path()).unwrap());
    }
}
