//! Free space where mail is stored.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::domain::repeats::{LogCause, Repeats};
use crate::store::blobs::place::{BlobPlace, StorePlace};
use crate::store::engine::location::Location;

/// How long a result is used again: space does not shrink faster than mail is written.
const GOOD_FOR: Duration = Duration::from_secs(1);

/// Local folders to which mail is written; empty if all mail goes elsewhere.
#[derive(Clone, Debug)]
pub struct FreeSpace {
    folders: Arc<[PathBuf]>,
    found: Arc<Mutex<Option<MeasuredSpace>>>,
    repeats: Repeats,
}

#[derive(Clone, Copy, Debug)]
struct MeasuredSpace {
    at: Instant,
    octets: Option<u64>,
}

impl FreeSpace {
    pub fn of(place: &StorePlace) -> Self {
        let database = match &place.database {
            Location::Folder(folder) => Some(folder.clone()),
            Location::Postgres(_) => None,
        };
        let blobs = match &place.blobs {
            Some(BlobPlace::Folder(folder)) => Some(folder.clone()),
            Some(BlobPlace::S3(_)) | None => None,
        };
        Self {
            folders: database.into_iter().chain(blobs).collect(),
            found: Arc::default(),
            repeats: Repeats::default(),
        }
    }

    /// Returns the free bytes. One caller at a time looks, on a thread of its own; others wait.
    pub(in crate::store) async fn measure(&self) -> Option<u64> {
        if self.folders.is_empty() {
            return None;
        }
        let mut found = self.found.lock().await;
        if let Some(MeasuredSpace { at, octets }) = *found
            && at.elapsed() < GOOD_FOR
        {
            return octets;
        }
        let (folders, repeats) = (Arc::clone(&self.folders), self.repeats.clone());
        let measuring = tokio::task::spawn_blocking(move || measure(&folders, &repeats));
        let octets = measuring.await.ok().flatten();
        *found = Some(MeasuredSpace { at: Instant::now(), octets });
        octets
    }
}

fn measure(folders: &[PathBuf], repeats: &Repeats) -> Option<u64> {
    let free = folders.iter().map(|folder| {
        rustix::fs::statvfs(folder)
            .map(|system| system.f_bavail.saturating_mul(system.f_frsize))
            .map_err(|error| {
                if let Some(left_out) = repeats.due(LogCause::UnknownSpace) {
                    let folder = folder.display();
                    tracing::warn!(%folder, %error, left_out, "cannot measure free disk space");
                }
            })
    });
    free.filter_map(Result::ok).min()
}
