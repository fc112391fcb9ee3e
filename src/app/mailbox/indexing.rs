//! Tasks of the search index: adding messages after their commits, and removing the words of
//! deleted messages.

use std::error::Error;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::rules::SearchLimits;
use crate::store::{Store, StoreError};

/// Runs both tasks forever. Safe to drop at any moment.
pub async fn keep_index(store: Store, limits: SearchLimits) {
    tokio::join!(index(&store, limits), forget(&store, limits));
}

/// Indexes a full batch at once, and a smaller one after `index_patience`: each transaction writes
/// pages of its own, however few messages it adds. Tries again after a failure.
async fn index(store: &Store, limits: SearchLimits) {
    let mut since = Instant::now();
    loop {
        let pause = match index_some(store, limits, &mut since).await {
            Ok(true) => Duration::ZERO,
            Ok(false) => limits.index_look(),
            Err(error) => {
                warn(&error, "cannot index messages for the search: trying again");
                limits.index_patience()
            }
        };
        sleep(pause).await;
    }
}

/// Indexes one batch. Returns whether another may be waiting.
async fn index_some(
    store: &Store,
    limits: SearchLimits,
    since: &mut Instant,
) -> Result<bool, StoreError> {
    let waiting = store.count_unindexed(limits.index_at_once).await?;
    let is_full = waiting >= limits.index_at_once;
    if waiting == 0 {
        *since = Instant::now();
    }
    if waiting == 0 || !is_full && since.elapsed() < limits.index_patience() {
        return Ok(false);
    }
    let indexed = store.index_messages(limits.index_at_once, limits.index_octets).await?;
    let are_all = !is_full && indexed >= waiting;
    if are_all {
        *since = Instant::now();
    }
    Ok(indexed > 0 && !are_all)
}

/// Removes words of deleted messages. Ends only on PostgreSQL, which vacuums by itself.
async fn forget(store: &Store, limits: SearchLimits) {
    loop {
        match store.forget_words(limits.forget_pages).await {
            Ok(None) => return,
            Ok(Some(true)) => sleep(limits.forget_pause()).await,
            Ok(Some(false)) => sleep(limits.forget_look()).await,
            Err(error) => {
                warn(
                    &error,
                    "cannot remove words of deleted messages from the search index: trying again",
                );
                sleep(limits.forget_look()).await;
            }
        }
    }
}

fn warn(error: &StoreError, what: &'static str) {
    let error = error as &(dyn Error + 'static);
    tracing::warn!(error, "{what}");
}
