//! The length and the digest of a file, read piece by piece.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};

use crate::domain::message::Digest;

/// Bytes of a file held in memory at a time.
const PIECE: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    pub octets: u64,
    pub digest: Digest,
}

/// Copies a file into a new one, and flushes that to the disk.
pub fn copy(from: &Path, to: &mut File) -> io::Result<FileDigest> {
    let copied = read(from, |piece| to.write_all(piece))?;
    to.sync_all()?;
    Ok(copied)
}

pub fn digest_of(path: &Path) -> io::Result<FileDigest> {
    read(path, |_| Ok(()))
}

fn read(path: &Path, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<FileDigest> {
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
    Ok(FileDigest { octets, digest: Digest(digest) })
}
