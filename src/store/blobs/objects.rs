//! The blob store: raw messages above a size, in a folder or in an S3-compatible store.
//!
//! An object is written before the transaction that names it, and each name is used by one put
//! only. So an object that no row names a day later will never be named, and the sweeper removes it
//! without a lock. A put that failed, was given up or was killed leaves at most such an orphan.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest as sha256};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutPayload};
use tokio::sync::{OnceCell, Semaphore};
use uuid::Uuid;

use super::bucket;
use super::folder::{Folder, RAW};
use super::place::BlobPlace;
use crate::domain::clock::Timestamp;
use crate::domain::id::Mint;
use crate::domain::message::Digest;
use crate::domain::repeats::{LogCause, Repeats};
use crate::rules::Objects;
use crate::store::engine::error::StoreError;
use crate::store::engine::trust::Trust;

/// Large raw messages. Cheap to clone.
#[derive(Clone)]
pub struct Blobs {
    pub objects: Arc<dyn ObjectStore>,
    folder: Option<Folder>,
    pub at: String,
    pub rules: Objects,
    put_permits: Arc<Semaphore>,
    /// Set once this database is known to be the owner.
    owned: Arc<OnceCell<()>>,
    mint: Mint,
    trust: Trust,
    repeats: Repeats,
}

impl fmt::Debug for Blobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the client, which has the keys.
        f.debug_struct("Blobs").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Blobs {
    /// Opens the blob store, and makes its folder if it is missing. Does not look for the owner.
    pub(in crate::store) fn open(
        place: &BlobPlace,
        rules: Objects,
        mint: Mint,
        trust: Trust,
    ) -> Result<Self, StoreError> {
        let at = place.to_string();
        let unusable = |source: Error| StoreError::Blobs { at: at.clone(), source: source.into() };
        let (objects, folder) = match place {
            BlobPlace::Folder(path) => {
                let (folder, objects) = Folder::open(path).map_err(unusable)?;
                (objects, Some(folder))
            }
            BlobPlace::S3(bucket) => (bucket::open(bucket, &rules).map_err(unusable)?, None),
        };
        Ok(Self {
            objects,
            folder,
            at,
            put_permits: Arc::new(Semaphore::new(rules.max_puts)),
            rules,
            owned: Arc::default(),
            mint,
            trust,
            repeats: Repeats::default(),
        })
    }

    /// Whether a raw message is so large that it belongs here.
    pub(in crate::store) const fn takes(&self, raw: &Bytes) -> bool {
        raw.len() > self.rules.above_bytes
    }

    /// Writes the bytes under a new name, and returns it; durable then. Only for the `owner`.
    ///
    /// The write continues when its future is dropped or its time is up: it holds its `max_puts`
    /// place, and a write that does not reach the disk must be noticed even if no caller waits.
    pub(in crate::store) async fn put(
        &self,
        owner: Uuid,
        digest: Digest,
        raw: &Bytes,
    ) -> Result<String, StoreError> {
        let name = name(digest, self.mint.uuid());
        let (blobs, path) = (self.clone(), Path::from(name.as_str()));
        let payload = PutPayload::from_bytes(raw.clone());
        let putting = async {
            let permit = Arc::clone(&self.put_permits).acquire_owned().await.map_err(failed)?;
            let writing = tokio::spawn(async move {
                let _permit = permit;
                blobs.owned.get_or_try_init(|| blobs.claim(owner)).await?;
                blobs.write(&path, payload, PutMode::Overwrite).await
            });
            writing.await.unwrap_or_else(|error| Err(failed(error)))
        };
        in_time(self.rules.put(), putting).await?;
        Ok(name)
    }

    /// Writes an object, without a time limit of its own. A failure in a folder may cost trust;
    /// `AlreadyExists` does not.
    pub(in crate::store) async fn write(
        &self,
        path: &Path,
        payload: PutPayload,
        mode: PutMode,
    ) -> Result<(), StoreError> {
        self.trust.check()?;
        let Err(error) = self.objects.put_opts(path, payload, mode.into()).await else {
            if let Some(folder) = &self.folder {
                folder.make_private(path, &self.repeats);
            }
            return Ok(());
        };
        let there = matches!(error, Error::AlreadyExists { .. });
        let Some(folder) = self.folder.as_ref().filter(|_| !there) else {
            return Err(StoreError::Objects(error.into()));
        };
        Err(self.trust.record_loss(folder.fault_of_put(path, error)))
    }

    /// Whether the object exists, with this size in bytes.
    pub(in crate::store) async fn has(&self, name: &str, size: usize) -> Result<bool, StoreError> {
        let path = Path::from(name);
        let looking = async {
            match self.objects.head(&path).await {
                Ok(meta) => Ok(usize::try_from(meta.size) == Ok(size)),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(unanswered(error)),
            }
        };
        in_time(self.rules.read(), looking).await
    }

    /// Reads an object. Fails with `Lost` if it is missing, or has another size or digest.
    pub(in crate::store) async fn get(
        &self,
        name: &str,
        size: u64,
        digest: Digest,
    ) -> Result<Vec<u8>, StoreError> {
        let lost = |detail| {
            if let Some(left_out) = self.repeats.due(LogCause::Original) {
                let at = &self.at;
                tracing::error!(
                    object.name = name,
                    blobs.at = at,
                    left_out,
                    "the original {detail}"
                );
            }
            StoreError::Lost { name: name.to_owned(), detail }
        };
        let path = Path::from(name);
        let getting = async {
            let found = match self.objects.get(&path).await {
                Err(Error::NotFound { .. }) => return Err(lost("is missing")),
                found => found.map_err(unanswered)?,
            };
            // Checked before the object is read: a wrong one may be of any size.
            if found.meta.size != size {
                return Err(lost("differs in size from its message"));
            }
            found.bytes().await.map_err(unanswered)
        };
        let bytes = in_time(self.rules.read(), getting).await?;
        let hashing = tokio::task::spawn_blocking(move || {
            let same = sha256(&SHA256, &bytes).as_ref() == digest.0;
            (Vec::from(bytes), same)
        });
        match hashing.await {
            Ok((bytes, true)) => Ok(bytes),
            Ok((_, false)) => Err(lost("is damaged: its digest differs")),
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes and removes an object, as a server must before it takes in mail. Takes none of the
    /// `max_puts` places: waiting for one is no fault.
    pub(in crate::store) async fn probe(&self) -> Result<(), StoreError> {
        let probe = self.put_probe().await.map_err(|error| self.unusable(error))?;
        self.remove(&probe.path).await.map(drop)
    }

    /// Writes an object for a try; the caller reads or removes it.
    pub(in crate::store) async fn put_probe(&self) -> Result<Probe, StoreError> {
        let bytes = Bytes::from_static(b"Can this be written?");
        let mut digest = Digest([0; 32]);
        digest.0.copy_from_slice(sha256(&SHA256, &bytes).as_ref());
        // Named like any other object, so that one left behind is an ordinary orphan.
        let path = Path::from(name(digest, self.mint.uuid()));
        let size = bytes.len() as u64;
        let writing = self.write(&path, PutPayload::from_bytes(bytes), PutMode::Overwrite);
        in_time(self.rules.put(), writing).await?;
        Ok(Probe { path, size, digest })
    }

    /// Adds the place of the blob store to an error.
    pub(in crate::store) fn unusable(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Objects(source) => StoreError::Blobs { at: self.at.clone(), source },
            error => error,
        }
    }

    /// Lists all objects below `raw/`, a page at a time, without a time limit for the whole.
    pub(in crate::store) fn list(&self) -> BoxStream<'static, Result<ObjectMeta, Error>> {
        self.objects.list(Some(&Path::from(RAW)))
    }

    /// Removes an object; returns whether it was there.
    pub(in crate::store) async fn remove(&self, path: &Path) -> Result<bool, StoreError> {
        let removing = async {
            match self.objects.delete(path).await {
                Ok(()) => Ok(true),
                Err(Error::NotFound { .. }) => Ok(false),
                Err(error) => Err(unanswered(error)),
            }
        };
        in_time(self.rules.read(), removing).await
    }

    /// Removes half-written files of killed puts from a folder; returns how many. A bucket shows no
    /// unfinished put.
    pub(in crate::store) async fn remove_unfinished(
        &self,
        before: Timestamp,
    ) -> Result<u64, StoreError> {
        let Some(folder) = self.folder.clone() else { return Ok(0) };
        let removing = tokio::task::spawn_blocking(move || folder.remove_unfinished(before));
        removing.await.map_err(failed)?.map_err(failed)
    }
}

/// An object that was written for a try.
#[derive(Debug)]
pub struct Probe {
    pub(in crate::store) path: Path,
    pub(in crate::store) size: u64,
    pub(in crate::store) digest: Digest,
}

/// Returns `raw/<first byte>/<digest>-<id>`: the first byte spreads objects over 256 folders.
fn name(digest: Digest, id: Uuid) -> String {
    let hex = digest.to_string();
    format!("{RAW}/{}/{hex}-{}", hex.get(..2).unwrap_or_default(), id.as_simple())
}

/// Returns the digest in the name of an object; None if the name is not ours.
pub fn digest_in(path: &Path) -> Option<Digest> {
    let file = path.filename()?;
    let (hex, id) = file.split_once('-')?;
    let mut digest = Digest([0; 32]);
    for (place, octet) in digest.0.iter_mut().enumerate() {
        *octet = u8::from_str_radix(hex.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    (name(digest, Uuid::try_parse(id).ok()?) == path.as_ref()).then_some(digest)
}

/// Returns the result of `work`; at the limit, drops it and fails with `Objects`.
pub async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let late = |_| Err(failed(io::Error::from(io::ErrorKind::TimedOut)));
    tokio::time::timeout(limit, work).await.unwrap_or_else(late)
}

pub fn unanswered(error: Error) -> StoreError {
    StoreError::Objects(error.into())
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    unanswered(Error::Generic { store: "blobs", source: Box::new(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_read_back() {
        let digest = Digest([0xab; 32]);
        let ours = name(digest, Uuid::from_u128(7));
        assert_eq!(digest_in(&Path::from(ours.as_str())), Some(digest));
        let elsewhere = ours.replace("raw/ab", "raw/ac");
        let shouted = ours.replace("abab-", "ABAB-");
        for other in
            [elsewhere, shouted, ours.replace('-', ""), format!("{ours}0"), "raw/ab/x".into()]
        {
            assert_eq!(digest_in(&Path::from(other.clone())), None, "{other}");
        }
    }
}
