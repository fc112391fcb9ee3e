//! Takes away, again and again, what the blob store holds and no message names.

use std::time::Duration;

use crate::domain::clock::Belief;
use crate::store::Store;

/// Sweeps at once, because a server may be restarted more often than it sweeps, and then every
/// so often; ends only where there is nothing to sweep. Safe to drop at any moment.
pub async fn sweep(store: Store, every: Duration, mut clock: Belief) {
    loop {
        match store.sweep_objects(clock.now()).await {
            Ok(None) => return,
            Ok(Some(swept)) => tracing::info!(
                objects.seen = swept.seen,
                objects.removed = swept.removed,
                "the blob store was swept"
            ),
            // What is left waits for the next time.
            Err(error) => tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the blob store was not swept"
            ),
        }
        tokio::time::sleep(every).await;
    }
}
