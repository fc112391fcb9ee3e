//! Whether the store could take a message in now, as `/readyz` asks: cheap, and no more than a
//! reading or a writing of what nobody reads.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use super::db::Store;
use super::embedded::FILE;
use super::error::StoreError;
use super::sql::sql;

/// The header of a database file of SQLite (<https://sqlite.org/fileformat2.html>, 1.3).
const HEADER: usize = 100;

impl Store {
    /// Whether nothing has happened after which the store cannot be trusted.
    pub fn check_trust(&self) -> Result<(), StoreError> {
        self.base.check_trust()
    }

    /// Whether a transaction would be durable now. It is a real one: SQLite writes one page, into
    /// a number that it keeps for its users, PostgreSQL an empty record into its log.
    pub async fn check_commit(&self) -> Result<(), StoreError> {
        let mut tx = self.begin().await?;
        if let Some(folder) = self.base.folder() {
            // In the transaction: no commit of ours is being copied into the file.
            let file = folder.join(FILE);
            let looking = tokio::task::spawn_blocking(move || is_whole(&file));
            match looking.await.unwrap_or_else(|error| Err(io::Error::other(error))) {
                Ok(true) => {}
                Ok(false) => return Err(StoreError::Damaged(None)),
                Err(error) => return Err(StoreError::Damaged(Some(std::sync::Arc::new(error)))),
            }
        }
        sql("PRAGMA user_version = 1")
            .on_postgres("SELECT pg_logical_emit_message(true, 'gatepost', '')")
            .execute(tx.on())
            .await?;
        tx.commit().await
    }

    /// Whether a large original could be kept now, where those are kept outside of the database.
    pub async fn check_originals(&self) -> Result<(), StoreError> {
        match self.blobs() {
            Some(blobs) => blobs.check_writable().await,
            None => Ok(()),
        }
    }
}

/// Whether a file is as long as its header says that it was when its log was last copied into it.
/// What SQLite has read once it reads from memory, so that it may not notice for a long time.
fn is_whole(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut header = [0; HEADER];
    if let Err(error) = file.read_exact(&mut header) {
        return if error.kind() == io::ErrorKind::UnexpectedEof { Ok(false) } else { Err(error) };
    }
    let number = |from: usize, octets: usize| {
        let octets = header.iter().skip(from).take(octets);
        octets.fold(0_u64, |number, octet| number << 8 | u64::from(*octet))
    };
    let page = match number(16, 2) {
        1 => 65_536,
        octets => octets,
    };
    // The number of pages counts where both counters of changes are the same.
    let (pages, counts) = (number(28, 4), number(24, 4) == number(92, 4));
    Ok(!counts || length >= pages.saturating_mul(page))
}
