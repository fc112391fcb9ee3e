//! Keeps the index of search true where no commit does: messages from before there was one get their
//! entries, and the words of deleted ones go.

use std::error::Error;

use tokio::time::sleep;

use crate::rules::SearchLimits;
use crate::store::{Store, StoreError};

/// How much longer than between two batches it waits after a failure.
const AFTER_FAILURE: u32 = 100;

/// Does both for as long as there may be something to do. Safe to drop at any moment.
pub async fn index(store: Store, limits: SearchLimits) {
    tokio::join!(catch_up(&store, limits), forget(&store, limits));
}

/// Goes on batch by batch until all messages have their entries. A batch that cannot be written is
/// tried again with half as many; one message alone that cannot be is passed over.
async fn catch_up(store: &Store, limits: SearchLimits) {
    let (mut begun, mut many) = (false, limits.index_at_once);
    loop {
        match store.index_messages(many, limits.index_octets).await {
            Ok(false) => {
                if begun {
                    tracing::info!("every message can be found by search");
                }
                return;
            }
            Ok(true) => {
                if !begun {
                    tracing::info!("messages from before there was a search are being indexed");
                }
                begun = true;
                many = many.saturating_mul(2).min(limits.index_at_once);
            }
            Err(error) => {
                warn(&error, "messages were not indexed for search: tried again");
                sleep(limits.index_pause() * AFTER_FAILURE).await;
                if error.is_of_a_row() && many == 1 {
                    skip(store).await;
                }
                many = if error.is_of_a_row() { (many / 2).max(1) } else { many };
            }
        }
        sleep(limits.index_pause()).await;
    }
}

async fn skip(store: &Store) {
    match store.skip_unindexed().await {
        Ok(Some(id)) => {
            tracing::warn!(message.id = %id, "a message cannot be found by search");
        }
        Ok(None) => {}
        Err(error) => warn(&error, "messages were not indexed for search: tried again"),
    }
}

/// Looks for words of deleted messages again and again; ends only where there are none of them.
async fn forget(store: &Store, limits: SearchLimits) {
    loop {
        match store.forget_words(limits.forget_pages).await {
            Ok(None) => return,
            Ok(Some(true)) => sleep(limits.index_pause()).await,
            Ok(Some(false)) => sleep(limits.forget_look()).await,
            Err(error) => {
                warn(&error, "words of deleted messages were not forgotten: tried again");
                sleep(limits.forget_look()).await;
            }
        }
    }
}

fn warn(error: &StoreError, what: &'static str) {
    let error = error as &(dyn Error + 'static);
    tracing::warn!(error, "{what}");
}
