//! Gives the messages from before there was a search their entries in its index.

use std::time::Duration;

use crate::rules::SearchLimits;
use crate::store::Store;

/// How much longer than between two batches it waits after a failure.
const AFTER_FAILURE: u32 = 100;

/// Goes on batch by batch until all have theirs. Safe to drop at any moment.
pub async fn index(store: Store, limits: SearchLimits) {
    let pause: Duration = limits.index_pause();
    let mut begun = false;
    loop {
        match store.index_messages(limits.index_at_once).await {
            Ok(false) => {
                if begun {
                    tracing::info!("every message can be found by search");
                }
                return;
            }
            Ok(true) if !begun => {
                begun = true;
                tracing::info!("messages from before there was a search are being indexed");
            }
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "messages were not indexed for search: tried again"
                );
                tokio::time::sleep(pause * AFTER_FAILURE).await;
            }
        }
        tokio::time::sleep(pause).await;
    }
}
