//! Notes when each key was last used, to about an hour, beside the requests.
//!
//! A request reads the noted time with its key anyway. If that time is old, a separate task writes
//! a new one: one write per key and interval. No request waits for the write or fails because of
//! it; if the store is busy or down, a later request notes the use.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::app::locked::locked;
use crate::domain::clock::Timestamp;
use crate::domain::id::KeyId;
use crate::domain::key::Key;
use crate::store::Store;

/// Notes written at the same time, each for another key: a client with a thousand keys must not
/// fill the queue of the store's writer.
const AT_ONCE: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct Usage {
    store: Store,
    /// The age at which a note is replaced.
    every: Duration,
    under_way: UnderWay,
}

impl Usage {
    pub(super) fn new(store: Store, every: Duration) -> Self {
        Self { store, every, under_way: UnderWay::default() }
    }

    /// Notes that the key is used now. Returns at once; a note that fails is only logged.
    pub(super) fn seen(&self, key: &Key, now: Timestamp) {
        let since = now.minus(self.every);
        if key.last_used_at.is_some_and(|noted| noted > since) {
            return;
        }
        let Some(place) = self.under_way.place(key.id) else { return };
        let (store, id) = (self.store.clone(), key.id);
        tokio::spawn(async move {
            if let Err(error) = store.record_key_use(id, now, since).await {
                tracing::debug!(key.id = %id, %error, "cannot record the use of an API key");
            }
            drop(place);
        });
    }
}

#[derive(Clone, Debug, Default)]
struct UnderWay(Arc<Mutex<HashSet<KeyId>>>);

impl UnderWay {
    /// Reserves a place for a note; None if a note of this key is being written, or [`AT_ONCE`]
    /// others are.
    fn place(&self, id: KeyId) -> Option<NotePlace> {
        let mut ids = locked(&self.0);
        let new = ids.len() < AT_ONCE && ids.insert(id);
        new.then(|| NotePlace { id, under_way: self.clone() })
    }
}

/// A place among the notes under way; freed when dropped, also if the write failed.
struct NotePlace {
    id: KeyId,
    under_way: UnderWay,
}

impl Drop for NotePlace {
    fn drop(&mut self) {
        locked(&self.under_way.0).remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_under_way_are_few_and_each_of_another_key() {
        let under_way = UnderWay::default();
        let id = |number: usize| KeyId(uuid::Uuid::from_u128(number as u128));
        let mut places: Vec<NotePlace> =
            (0..AT_ONCE).map(|number| under_way.place(id(number)).unwrap()).collect();
        assert!(under_way.place(id(AT_ONCE)).is_none(), "one more than there may be");
        drop(places.remove(0));
        assert!(under_way.place(id(1)).is_none(), "its note is being written");
        let again = under_way.place(id(0));
        assert!(again.is_some() && under_way.place(id(AT_ONCE)).is_none());
        drop((places, again));
        assert!(locked(&under_way.0).is_empty());
    }
}
