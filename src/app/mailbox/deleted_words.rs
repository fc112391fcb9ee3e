//! Takes the words of deleted messages out of the index of search, where no commit does.

use std::error::Error;

use tokio::time::sleep;

use crate::rules::SearchLimits;
use crate::store::{Store, StoreError};

/// Looks for words of deleted messages again and again; ends only where there are none of them. Safe to
/// drop at any moment.
pub async fn forget_deleted_words(store: Store, limits: SearchLimits) {
    loop {
        match store.forget_words(limits.forget_pages).await {
            Ok(None) => return,
            Ok(Some(true)) => sleep(limits.forget_pause()).await,
            Ok(Some(false)) => sleep(limits.forget_look()).await,
            Err(error) => {
                warn(&error);
                sleep(limits.forget_look()).await;
            }
        }
    }
}

fn warn(error: &StoreError) {
    let error = error as &(dyn Error + 'static);
    tracing::warn!(error, "words of deleted messages were not forgotten: tried again");
}
