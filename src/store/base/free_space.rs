//! Free space where mail is stored.

use std::path::PathBuf;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::domain::repeats::{LogCause, Repeats};
use crate::store::blobs::place::{BlobPlace, StorePlace};
use crate::store::engine::error::StoreError;
use crate::store::engine::location::Location;

/// How long a result is used again: space does not shrink faster than mail is written.
const GOOD_FOR: Duration = Duration::from_secs(1);
/// How long a look may take before callers fail: nothing can be stored where a look hangs, so an
/// older result must not let mail in (contract §2.4).
const PATIENCE: Duration = Duration::from_secs(5);

/// Local folders to which mail is written; empty if all mail goes elsewhere.
#[derive(Clone, Debug)]
pub struct FreeSpace {
    folders: Arc<[PathBuf]>,
    last: Arc<watch::Sender<Option<Look>>>,
    repeats: Repeats,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    began: Instant,
    octets: Poll<Option<u64>>,
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
            last: Arc::default(),
            repeats: Repeats::default(),
        }
    }

    /// Returns the free bytes, or fails soon if the file system hangs.
    pub(in crate::store) async fn measure(&self) -> Result<Option<u64>, StoreError> {
        if self.folders.is_empty() {
            return Ok(None);
        }
        let (folders, repeats) = (Arc::clone(&self.folders), self.repeats.clone());
        self.octets(PATIENCE, move || measure(&folders, &repeats)).await
    }

    /// Returns the result of the last look, or of a new one. None begins while another lasts, so a
    /// hanging file system blocks one thread.
    async fn octets(
        &self,
        patience: Duration,
        look: impl FnOnce() -> Option<u64> + Send + 'static,
    ) -> Result<Option<u64>, StoreError> {
        let mut last = self.last.subscribe();
        let began = Instant::now();
        let begins = self.last.send_if_modified(|last| {
            let is_good = |last: &Look| last.octets.is_pending() || last.began.elapsed() < GOOD_FOR;
            let begins = !last.as_ref().is_some_and(is_good);
            if begins {
                *last = Some(Look { began, octets: Poll::Pending });
            }
            begins
        });
        if begins {
            let last = Arc::clone(&self.last);
            spawn_blocking(move || {
                last.send_replace(Some(Look { began, octets: Poll::Ready(look()) }))
            });
        }
        let began = last.borrow().map_or(began, |last| last.began);
        let done = last.wait_for(|last| last.is_some_and(|last| last.octets.is_ready()));
        match timeout_at(began + patience, done).await.ok().and_then(Result::ok).as_deref() {
            Some(Some(Look { octets: Poll::Ready(octets), .. })) => Ok(*octets),
            _ => Err(StoreError::Hung),
        }
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_look_that_hangs_holds_one_thread_and_no_caller() {
        let (folders, repeats) = (Arc::default(), Repeats::default());
        let space = FreeSpace { folders, last: Arc::default(), repeats };
        let (answer, hangs) = mpsc::channel();
        let first = space.octets(Duration::ZERO, move || hangs.recv().ok()).await;
        assert!(matches!(first, Err(StoreError::Hung)), "{first:?}");
        let (began, others) = mpsc::channel();
        let other = || {
            let began = began.clone();
            move || began.send(()).ok().map(|()| 1)
        };
        for _ in 0..9 {
            let later = space.octets(Duration::ZERO, other()).await;
            assert!(matches!(later, Err(StoreError::Hung)), "{later:?}");
        }
        // Waits already when the answer comes.
        let long = Duration::from_secs(60);
        let (found, sent) =
            tokio::join!(space.octets(long, other()), async { answer.send(7).is_ok() });
        assert_eq!((found.ok(), sent), (Some(Some(7)), true));
        assert!(others.try_recv().is_err(), "none began meanwhile");
        // Its result is old one day, and another look begins.
        let long_ago = Instant::now().checked_sub(GOOD_FOR);
        space.last.send_modify(|last| {
            *last = last.zip(long_ago).map(|(last, began)| Look { began, ..last });
        });
        assert_eq!(space.octets(long, other()).await.ok(), Some(Some(1)));
    }
}
