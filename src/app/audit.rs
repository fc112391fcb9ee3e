//! The audit log: reads it, and counts requests that were denied.
//!
//! Every change writes its entry in its own transaction (`store/tenancy/audit.rs`). A denied
//! request changes nothing, so no transaction carries its entry. It is counted in memory, and a
//! task writes one entry per key, operation and minute. So a denied request waits for no write, and
//! a flood of them costs one row per operation and minute of its key. The entry does not name the
//! target, so it does not tell whether the target exists.
//!
//! The memory has one lock, never held across an await. A count whose write failed is put back and
//! tried again; after a lost connection it may count twice. Counts that are only in memory are lost
//! if the process dies.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use aws_lc_rs::digest::{SHA256, digest};
use tokio::sync::Notify;
use tokio::time::sleep;
use uuid::Uuid;

use crate::app::locked::locked;
use crate::domain::audit::{Actor, Entry, Who};
use crate::domain::clock::{Clock, TimeRange, Timestamp};
use crate::domain::id::{AuditId, KeyId};
use crate::domain::scope::Scope;
use crate::rules::AccessRules;
use crate::store::{AuditFilter, Cursor, List, Page, Store, StoreError};

const MINUTE_MILLIS: i64 = 60_000;

#[derive(Clone, Debug)]
pub struct AuditLog {
    store: Store,
    clock: Clock,
    rules: Arc<AccessRules>,
    denied: Arc<Denied>,
}

/// Denied requests that are not written yet.
#[derive(Debug, Default)]
struct Denied {
    waiting: Mutex<HashMap<DenialKey, DenialCount>>,
    came: Notify,
}

/// Denied requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct DenialKey {
    key: KeyId,
    /// Since 1970.
    minute: i64,
    operation: String,
}

#[derive(Clone, Debug)]
struct DenialCount {
    /// The actor of the first one.
    actor: Actor,
    at: Timestamp,
    count: u64,
}

impl AuditLog {
    /// Reads and writes the log in this store, within the bounds of `policies/access.toml`.
    pub fn new(store: Store, clock: Clock, rules: Arc<AccessRules>) -> Self {
        Self { store, clock, rules, denied: Arc::default() }
    }

    /// Returns a page of the matching entries in `scope`, the newest first.
    pub async fn entries(
        &self,
        scope: &Scope,
        filter: &AuditFilter,
        page: &Page,
    ) -> Result<Vec<Entry>, StoreError> {
        self.store.audit(scope, filter, page).await
    }

    pub async fn place_of(&self, scope: &Scope, id: AuditId) -> Result<Option<Cursor>, StoreError> {
        self.store.place_of(List::Audit, scope, id.0).await
    }

    /// Returns the cursor at which a page of [`Self::entries`] must end, so that one request reads
    /// at most `most` entries. None if the page needs no such bound: every entry matches, or fewer
    /// than `most` are left.
    pub async fn end_of_entries(
        &self,
        scope: &Scope,
        filter: &AuditFilter,
        page: &Page,
        most: u32,
    ) -> Result<Option<Cursor>, StoreError> {
        if scope.permitted().is_none() && !filter.passes_over() {
            return Ok(None);
        }
        let time = TimeRange { since: filter.since, before: filter.until };
        self.store.end_of_walk(List::Audit, scope, page, time, most).await
    }

    /// Counts a denied request of a key; [`Self::run`] writes the count. The target is not a
    /// parameter, so that entries about existing and missing targets look alike.
    pub fn denied(&self, actor: &Actor, operation: &str) {
        let Who::Key { key, .. } = actor.who else { return };
        let now = self.clock.now();
        let minute = now.millis().div_euclid(MINUTE_MILLIS);
        let actor = Actor { once: None, ..actor.clone() };
        let of = DenialKey { key, minute, operation: operation.to_owned() };
        self.count(of, DenialCount { actor, at: now, count: 1 });
        self.denied.came.notify_one();
    }

    /// Writes counts until `stop`, pausing between writes, and then tries once to write the rest.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = self.denied.came.notified() => {}
                () = &mut stop => break,
            }
            // Not cancelled by `stop`: the counts taken out of memory would be lost.
            self.write().await;
            tokio::select! {
                () = sleep(self.rules.rates.denied()) => {}
                () = &mut stop => break,
            }
        }
        self.write().await;
    }

    async fn write(&self) {
        let mut waiting: Vec<_> = locked(&self.denied.waiting).drain().collect();
        // All gateways write in one order, so that none waits for another in a circle.
        waiting.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (of, denials) in waiting {
            let DenialCount { actor, at, count } = &denials;
            let (id, operation) = (entry_of(&of), &of.operation);
            let written = self.store.count_denials(id, actor.at(*at), operation, *count).await;
            if let Err(error) = written {
                let error = &error as &(dyn Error + 'static);
                tracing::warn!(
                    error,
                    "cannot write refused attempts to the audit log: trying again"
                );
                self.count(of, denials);
                self.denied.came.notify_one();
            }
        }
    }

    /// Adds to a count. When `max_denied` counts wait, a new one is dropped: only many keys at once
    /// get that far.
    fn count(&self, of: DenialKey, denials: DenialCount) {
        let mut waiting = locked(&self.denied.waiting);
        let is_full = waiting.len() >= self.rules.rates.max_denied;
        match waiting.entry(of) {
            Slot::Occupied(mut slot) => {
                let counted = slot.get_mut();
                counted.count = counted.count.saturating_add(denials.count);
            }
            Slot::Vacant(slot) if !is_full => drop(slot.insert(denials)),
            Slot::Vacant(_) => {}
        }
    }
}

/// Returns the id of the entry for this key, operation and minute, equal on all gateways: a UUIDv7
/// of the minute whose random part is a hash of all three.
fn entry_of(DenialKey { key, minute, operation }: &DenialKey) -> AuditId {
    let millis = minute.saturating_mul(MINUTE_MILLIS);
    let (name, at) = (b"access.denied".as_slice(), minute.to_be_bytes());
    let named = [name, key.0.as_bytes(), &at, operation.as_bytes()].concat();
    let hash = digest(&SHA256, &named);
    let random = hash.as_ref().first_chunk::<10>().copied().unwrap_or_default();
    let id: Uuid =
        uuid::Builder::from_unix_timestamp_millis(u64::try_from(millis).unwrap_or(0), &random)
            .into_uuid();
    AuditId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_of_one_key_one_operation_and_one_minute() {
        let of = |key: u128, minute, operation: &str| {
            let key = KeyId(Uuid::from_u128(key));
            entry_of(&DenialKey { key, minute, operation: operation.to_owned() })
        };
        assert_eq!(of(1, 7, "GET /a"), of(1, 7, "GET /a"));
        for other in [of(1, 8, "GET /a"), of(2, 7, "GET /a"), of(1, 7, "GET /b")] {
            assert_ne!(of(1, 7, "GET /a"), other);
        }
        assert_eq!(of(1, 7, "GET /a").0.get_version_num(), 7);
    }
}
