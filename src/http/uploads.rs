//! Places for messages that clients send: each is held in memory a few times over until it has been
//! looked at, so that there are few, and a key has one at a time.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::error::{Code, Problem};
use crate::domain::id::KeyId;
use crate::rules::AccessLimits;

/// All places, and the keys that have or wait for one.
#[derive(Debug)]
pub(crate) struct Uploads {
    pub(super) places: Arc<Semaphore>,
    keys: Keys,
    patience: Duration,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
    _turn: Turn,
}

/// No more of them than there are requests.
#[derive(Clone, Debug, Default)]
struct Keys(Arc<Mutex<HashSet<KeyId>>>);

#[derive(Debug)]
struct Turn {
    keys: Keys,
    key: KeyId,
}

impl Uploads {
    pub(crate) fn new(limits: &AccessLimits) -> Self {
        let places = Arc::new(Semaphore::new(limits.max_uploads));
        // Who gets a place has time left to send the body.
        Self { places, keys: Keys::default(), patience: limits.body() / 2 }
    }

    /// A place for one message sent with this key, which has none: 429 if it has, 503 if none
    /// comes free in time.
    pub(super) async fn place(&self, key: KeyId) -> Result<Place, Problem> {
        let turn = self.keys.turn(key).ok_or_else(|| {
            let detail = "a message that was sent with this key is still looked at: send one \
                          after the other";
            Problem::new(Code::RateLimited, detail)
        })?;
        match timeout(self.patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Place { _permit: permit, _turn: turn }),
            _ => Err(Problem::unavailable("every place for a message is taken")),
        }
    }
}

impl Keys {
    fn turn(&self, key: KeyId) -> Option<Turn> {
        let first = self.lock().insert(key);
        first.then(|| Turn { keys: self.clone(), key })
    }

    /// Nothing panics while it holds the lock; if something did, the set would be whole.
    fn lock(&self) -> MutexGuard<'_, HashSet<KeyId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.keys.lock().remove(&self.key);
    }
}
