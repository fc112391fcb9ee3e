//! Files that only this user reads, and that are on the disk when a call has returned.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};

use crate::domain::message::Digest;

/// Held in memory of a file that is copied.
const PIECE: usize = 1 << 20;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub octets: u64,
    pub digest: Digest,
}

/// Whether there is nothing at `path`, or an empty folder.
pub fn is_vacant(path: &Path) -> io::Result<bool> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Makes a folder with all that are missing above it; answers whether it was missing itself.
pub fn make_folder(path: &Path) -> io::Result<bool> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    for made in &missing {
        if let Some(above) = made.parent() {
            sync_folder(above)?;
        }
    }
    Ok(!missing.is_empty())
}

/// Makes a file, which must not be there.
pub fn make_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a new file.
pub fn write(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut file = make_file(path)?;
    file.write_all(octets)?;
    file.sync_all()
}

/// Copies a file into a new one, piece by piece.
pub fn copy(from: &Path, to: &mut File) -> io::Result<Content> {
    let content = read(from, |piece| to.write_all(piece))?;
    to.sync_all()?;
    Ok(content)
}

/// What a file holds.
pub fn content(path: &Path) -> io::Result<Content> {
    read(path, |_| Ok(()))
}

/// The names that are in a folder are on the disk.
pub fn sync_folder(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// The same for all folders below it.
pub fn sync_tree(path: &Path) -> io::Result<()> {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            }
        }
        sync_folder(&folder)?;
    }
    Ok(())
}

fn read(path: &Path, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<Content> {
    let mut file = File::open(path)?;
    let (mut octets, mut hash) = (0, Context::new(&SHA256));
    let mut buffer = vec![0; PIECE];
    loop {
        let length = file.read(&mut buffer)?;
        let piece = buffer.get(..length).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        take(piece)?;
        octets += u64::try_from(length).unwrap_or_default();
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(hash.finish().as_ref());
    Ok(Content { octets, digest: Digest(digest) })
}
