//! Bounds the requests to applications under way: in all, per organization and per relay, so that a
//! slow application delays no other customer's mail.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use crate::app::locked::locked;
use crate::domain::id::{AccountId, RelayId};
use crate::rules::ForwardRules;

/// The counts, shared by all clones. Their lock is never held across an await.
#[derive(Clone, Debug)]
pub(super) struct Places {
    rules: ForwardRules,
    taken: Arc<Mutex<InUse>>,
}

/// Has at most one entry per request under way: an entry that falls to zero is removed.
#[derive(Debug, Default)]
struct InUse {
    all: usize,
    of_tenant: HashMap<AccountId, usize>,
    of_relay: HashMap<RelayId, usize>,
}

/// A request under way; counted until it is dropped.
#[derive(Debug)]
pub(super) struct RelayPlace {
    tenant: AccountId,
    relay: RelayId,
    taken: Arc<Mutex<InUse>>,
}

impl Places {
    pub(super) fn new(rules: ForwardRules) -> Self {
        Self { rules, taken: Arc::default() }
    }

    /// Counts a request of this organization to this relay; None if a bound is reached.
    pub(super) fn take(&self, tenant: AccountId, relay: RelayId) -> Option<RelayPlace> {
        let mut taken = locked(&self.taken);
        let of_tenant = taken.of_tenant.get(&tenant).copied().unwrap_or_default();
        let of_relay = taken.of_relay.get(&relay).copied().unwrap_or_default();
        if taken.all >= self.rules.max_at_once
            || of_tenant >= self.rules.max_at_once_per_organization
            || of_relay >= self.rules.max_at_once_per_relay
        {
            return None;
        }
        taken.all += 1;
        taken.of_tenant.insert(tenant, of_tenant + 1);
        taken.of_relay.insert(relay, of_relay + 1);
        Some(RelayPlace { tenant, relay, taken: Arc::clone(&self.taken) })
    }
}

impl Drop for RelayPlace {
    fn drop(&mut self) {
        let mut taken = locked(&self.taken);
        taken.all = taken.all.saturating_sub(1);
        one_less(&mut taken.of_tenant, &self.tenant);
        one_less(&mut taken.of_relay, &self.relay);
    }
}

fn one_less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::rules::Rules;

    fn places() -> (Places, ForwardRules) {
        let rules = Rules::defaults().unwrap().relays.forward;
        (Places::new(rules), rules)
    }

    /// Takes all places that an organization gets with so many relays, whose ids begin at `first`.
    fn all_of(places: &Places, tenant: i64, first: u128, relays: u128) -> Vec<RelayPlace> {
        let tenant = AccountId::new(tenant).unwrap();
        let ids = (first..first + relays).map(|id| RelayId(Uuid::from_u128(id)));
        ids.flat_map(|id| std::iter::from_fn(move || places.take(tenant, id))).collect()
    }

    #[test]
    fn slow_applications_of_one_tenant_leave_places_for_the_others() {
        let (places, rules) = places();
        let slow = all_of(&places, 1, 0, 100);
        assert_eq!(slow.len(), rules.max_at_once_per_organization);
        assert!(slow.len() * 4 <= rules.max_at_once);
        let other = all_of(&places, 2, 1000, 1);
        assert_eq!(other.len(), rules.max_at_once_per_relay);
        // A relay of an account above both is one relay, for all mail.
        assert_eq!(all_of(&places, 3, 1000, 1).len(), 0);
        let more = (4_u32..20).flat_map(|n| all_of(&places, n.into(), u128::from(n) * 1000, 100));
        let more: Vec<RelayPlace> = more.collect();
        assert_eq!(slow.len() + other.len() + more.len(), rules.max_at_once);
    }

    #[test]
    fn what_has_ended_counts_no_more() {
        let (places, rules) = places();
        for _ in 0..3 {
            assert_eq!(all_of(&places, 1, 0, 100).len(), rules.max_at_once_per_organization);
        }
        let taken = places.taken.lock().unwrap();
        assert!(taken.all == 0 && taken.of_tenant.is_empty() && taken.of_relay.is_empty());
    }
}
