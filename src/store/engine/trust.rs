//! Whether reads and writes of the store can be trusted. Once they cannot, each write is refused
//! and the process ends (contract §2.4): going on would acknowledge mail that may not be there.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use super::error::StoreError;

/// Shared by all who may notice a loss of trust.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    lost: CancellationToken,
    why: Arc<OnceLock<Why>>,
}

#[derive(Clone, Copy, Debug)]
enum Why {
    NotDurable,
    Damaged,
}

impl Trust {
    /// Fails from the loss of trust on.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.lost.is_cancelled() { Err(self.fault()) } else { Ok(()) }
    }

    /// Returns the error; records the loss of trust if the error means one.
    pub fn record_loss(&self, error: impl Into<StoreError>) -> StoreError {
        let error = error.into();
        let why = match &error {
            StoreError::NotDurable(_) => Why::NotDurable,
            StoreError::Damaged(_) => Why::Damaged,
            _ => return error,
        };
        if self.why.set(why).is_ok() {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the store can no longer be trusted and refuses everything"
            );
        }
        self.lost.cancel();
        error
    }

    /// Resolves when trust is lost, with the reason.
    pub(in crate::store) async fn lost(&self) -> StoreError {
        self.lost.cancelled().await;
        self.fault()
    }

    fn fault(&self) -> StoreError {
        match self.why.get() {
            Some(Why::Damaged) => StoreError::Damaged(None),
            Some(Why::NotDurable) | None => StoreError::NotDurable(None),
        }
    }
}
