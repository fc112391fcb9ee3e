//! Deletes orphans from the blob store: originals that no message names.

use std::time::Duration;

use crate::domain::clock::Belief;
use crate::store::Store;

/// Sweeps at once, because a server may restart more often than it sweeps, then at intervals. Ends
/// only if there is no blob store. Safe to drop at any moment.
pub async fn sweep(store: Store, every: Duration, mut clock: Belief) {
    loop {
        match store.sweep_objects(clock.now()).await {
            Ok(None) => return,
            Ok(Some(swept)) => tracing::info!(
                objects.seen = swept.seen,
                objects.removed = swept.removed,
                "the blob store was swept"
            ),
            // The next sweep takes the rest.
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the blob store was not swept"
            ),
        }
        tokio::time::sleep(every).await;
    }
}
