//! When keys were last used, to the hour or so: noted beside the requests, never by them.
//!
//! A request reads the noted time with its key anyway; only when that is old is a note written, by
//! a task of its own. So a key costs one write per interval, and no request waits for it or fails
//! by it: where the store is busy or down, the note is left to a later request.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::domain::clock::Timestamp;
use crate::domain::id::KeyId;
use crate::domain::key::Key;
use crate::store::Store;

/// Notes under way at the same time, each of another key: whoever comes with a thousand keys at
/// once must not fill the queue of the store's writer with notes.
const AT_ONCE: usize = 16;

/// Notes the use of keys.
#[derive(Clone, Debug)]
pub(super) struct Usage {
    store: Store,
    /// A note this young is good enough.
    every: Duration,
    under_way: Arc<Mutex<HashSet<KeyId>>>,
}

impl Usage {
    pub(super) fn new(store: Store, every: Duration) -> Self {
        Self { store, every, under_way: Arc::default() }
    }

    /// The key is used now. Returns at once.
    pub(super) fn seen(&self, key: &Key, now: Timestamp) {
        let since = now.minus(self.every);
        if key.last_used_at.is_some_and(|noted| noted > since) {
            return;
        }
        let Some(place) = self.place(key.id) else { return };
        let (store, id) = (self.store.clone(), key.id);
        tokio::spawn(async move {
            if let Err(error) = store.note_use(id, now, since).await {
                tracing::debug!(key.id = %id, %error, "the use of a key was not noted");
            }
            drop(place);
        });
    }

    fn place(&self, id: KeyId) -> Option<Place> {
        let mut ids = locked(&self.under_way);
        let new = ids.len() < AT_ONCE && ids.insert(id);
        new.then(|| Place { id, under_way: Arc::clone(&self.under_way) })
    }
}

/// Given back when it is dropped, whatever became of the note.
struct Place {
    id: KeyId,
    under_way: Arc<Mutex<HashSet<KeyId>>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&self.under_way).remove(&self.id);
    }
}

fn locked(ids: &Mutex<HashSet<KeyId>>) -> MutexGuard<'_, HashSet<KeyId>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}
