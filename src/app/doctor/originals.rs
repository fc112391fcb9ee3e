//! The room for mail: free space, and the place of large originals.

use super::{Check, CheckSubject};
use crate::domain::causes::with_causes;
use crate::store::{OriginalsFault, Store, StoreError};

/// Warned of below so many times the least free space.
const COMFORT: u64 = 4;

/// Checks the free space where mail is stored; with less than `least` bytes, mail is deferred.
pub async fn space(store: &Store, least: u64) -> Check {
    let topic = Check::of(CheckSubject::Disk, "");
    let mib = |bytes: u64| bytes >> 20;
    match store.free_space().await {
        Ok(None) => topic.skipped("all mail is stored elsewhere"),
        Err(error) => topic.failure(with_causes(&error), "see that the disk works"),
        Ok(Some(free)) => {
            let detail = format!(
                "{} MiB are free, and mail is deferred below {} MiB",
                mib(free),
                mib(least)
            );
            let advice = "make room, or move the data folder to a larger disk";
            match free {
                free if free < least => topic.failure(detail, advice),
                free if free < least.saturating_mul(COMFORT) => topic.warning(detail, advice),
                _ => topic.ok(detail),
            }
        }
    }
}

/// Writes, reads and removes an object where large originals lie.
pub async fn check(store: &Store) -> Check {
    let topic = |at: &str| Check::of(CheckSubject::Originals, at);
    match store.exercise_originals().await {
        Ok(None) => topic("").skipped("originals lie in the database"),
        Ok(Some(at)) => topic(&at).ok("an object was written, read and removed"),
        Err(fault) => {
            let advice = match &fault {
                OriginalsFault::Owner(StoreError::Foreign { .. }) => {
                    "choose another place (--blobs): a store needs one of its own"
                }
                OriginalsFault::Owner(_) | OriginalsFault::Get(_) => {
                    "see that the place of --blobs answers, and let its key read (s3:GetObject)"
                }
                OriginalsFault::Put(_) => {
                    "see that the place of --blobs answers, and let its key write (s3:PutObject)"
                }
                OriginalsFault::Delete(_) => "let its key delete (s3:DeleteObject)",
            };
            topic("").failure(with_causes(&fault), advice)
        }
    }
}
