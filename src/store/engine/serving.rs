//! Allows one server at a time on an embedded store: what a server keeps in memory between requests
//! (known senders, counts, resting destinations) would be wrong beside another one. Commands may
//! run beside it.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use super::embedded::{FILE, open_private};
use super::error::StoreError;
use super::location::Location;
use crate::domain::clock::Timestamp;

/// Locked while a server lives; its text says which one. After a crash nothing is locked.
const SERVING_FILE: &str = "gatepost.serving";
/// Most bytes read of it: a process id and a time.
const LONGEST: u64 = 100;

/// The right to serve a store, until it is dropped or the process ends.
#[derive(Debug)]
pub struct Serving {
    _locked: Option<File>,
}

impl Serving {
    /// Takes the right to serve the store at `location`. Fails with `Served` if another server has
    /// it, with `Missing` if there is no store. PostgreSQL may have any number of servers.
    pub fn begin(location: &Location, now: Timestamp) -> Result<Self, StoreError> {
        let Location::Folder(folder) = location else { return Ok(Self { _locked: None }) };
        let at = || folder.display().to_string();
        let failed = |source| StoreError::Open { at: at(), source: sqlx::Error::Io(source).into() };
        if !folder.join(FILE).try_exists().map_err(failed)? {
            return Err(StoreError::Missing { at: at() });
        }
        let path = folder.join(SERVING_FILE);
        let mut file = open_private(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Served { at: at(), by: holder(&path) });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // Without this text the next server is refused all the same, only less clearly.
        if let Err(error) = sign(&mut file, now) {
            tracing::warn!(%error, "cannot record which process serves the store");
        }
        Ok(Self { _locked: Some(file) })
    }

    /// Returns which process serves the store at `location` now, if one does. Makes no file.
    pub fn holder(location: &Location) -> Option<String> {
        let Location::Folder(folder) = location else { return None };
        let path = folder.join(SERVING_FILE);
        // Released at once: a server that starts meanwhile needs it.
        match File::open(&path).ok()?.try_lock() {
            Err(TryLockError::WouldBlock) => Some(holder(&path)),
            _ => None,
        }
    }
}

fn sign(file: &mut File, now: Timestamp) -> io::Result<()> {
    file.set_len(0)?;
    writeln!(file, "process {}, since {now}", std::process::id())
}

/// Returns which process serves the store, as it wrote itself.
fn holder(path: &Path) -> String {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST).read_to_string(&mut text));
    match (read, text.trim()) {
        (Ok(_), word) if word.starts_with("process ") => word.to_owned(),
        _ => "another process".to_owned(),
    }
}
