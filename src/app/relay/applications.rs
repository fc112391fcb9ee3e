//! Asks an account's application about a request of its provider, before the message is examined
//! (contract §6). The answer must come within the time that the provider waits, counts only if the
//! relay is still the nearest one, and is remembered if it lets the request pass.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{RelayError, Relays};
use crate::app::locked::locked;
use crate::domain::account::Account;
use crate::domain::id::{AccountId, RelayId};
use crate::domain::relay::{Forwarded, Hop, Relay, RelayType};
use crate::rules::ApplicationRules;

/// Relays asked about one request: the nearest one, and its successor if it changes meanwhile.
const ASKED: usize = 2;

/// Asks applications. Clones share one memory.
#[derive(Clone, Debug)]
pub(super) struct Applications {
    relays: Relays,
    passes: Arc<Passes>,
    rules: ApplicationRules,
}

impl Applications {
    pub(super) fn new(relays: Relays, rules: ApplicationRules) -> Self {
        Self { relays, passes: Arc::new(Passes::new(rules.passes)), rules }
    }

    /// Returns the application's answer; None if no relay counts. `content` is the digest of
    /// message and envelope. A pass also holds for the provider's retry, if it came too late: the
    /// message may be stored by then.
    pub(super) async fn ask(
        &self,
        account: &Account,
        kind: RelayType,
        content: [u8; 32],
        request: &Forwarded,
    ) -> Result<Option<Hop>, RelayError> {
        // The provider's credentials are not passed on (threats E8).
        let mut request = request.clone();
        request.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
        let (began, patience) = (Instant::now(), self.rules.patience(kind));
        let mut nearest = self.relays.nearest(kind, &account.lineage).await?;
        for _ in 0..ASKED {
            let Some(relay) = nearest.take() else { return Ok(None) };
            let counts = relay.relayed();
            let pass =
                Pass { account: account.id, relay: relay.id, revision: relay.revision, content };
            if self.passes.has(&pass) {
                return Ok(Some(Hop::Passed));
            }
            let left = patience.saturating_sub(began.elapsed());
            if left < SHORTEST {
                return Ok(Some(Hop::Deferred(CHANGED.to_owned())));
            }
            let relay = Relay { timeout: relay.timeout.min(left), ..relay };
            let hop = self.relays.pass(&relay, &account.lineage, &request).await;
            if hop == Hop::Passed {
                self.passes.add(pass);
            }
            // An answer of a relay that was changed or removed meanwhile does not count.
            nearest = self.relays.nearest(kind, &account.lineage).await?;
            if nearest.as_ref().is_some_and(|relay| relay.relayed() == counts) {
                return Ok(Some(hop));
            }
        }
        Ok(nearest.map(|_| Hop::Deferred(CHANGED.to_owned())))
    }
}

const CHANGED: &str = "the relay was changed while it was asked";

/// An application needs at least this long to answer.
const SHORTEST: Duration = Duration::from_millis(100);

/// A request that an application let pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pass {
    /// The account of the inbound key.
    account: AccountId,
    relay: RelayId,
    revision: i64,
    content: [u8; 32],
}

/// The last `most` passes of this gateway. Its lock is never held across an await.
#[derive(Debug)]
struct Passes {
    most: usize,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    passes: HashSet<Pass>,
    order: VecDeque<Pass>,
}

impl Passes {
    fn new(most: usize) -> Self {
        Self { most, seen: Mutex::default() }
    }

    fn has(&self, pass: &Pass) -> bool {
        locked(&self.seen).passes.contains(pass)
    }

    fn add(&self, pass: Pass) {
        let mut seen = locked(&self.seen);
        if !seen.passes.insert(pass.clone()) {
            return;
        }
        seen.order.push_back(pass);
        while seen.order.len() > self.most {
            let Some(oldest) = seen.order.pop_front() else { break };
            seen.passes.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn passes_are_of_one_relay_one_revision_and_one_content_and_bounded() {
        let passes = Passes::new(2);
        let of = |account| AccountId::new(account).unwrap();
        let relay = RelayId(Uuid::from_u128(1));
        let pass =
            |revision, content| Pass { account: of(1), relay, revision, content: [content; 32] };
        passes.add(pass(1, 1));
        passes.add(pass(1, 1));
        assert!(passes.has(&pass(1, 1)));
        assert!(!passes.has(&pass(2, 1)) && !passes.has(&pass(1, 2)));
        assert!(
            !passes.has(&Pass { account: of(2), ..pass(1, 1) }),
            "a yes for another's way is none"
        );
        passes.add(pass(1, 2));
        passes.add(pass(1, 3));
        assert!(!passes.has(&pass(1, 1)) && passes.has(&pass(1, 2)) && passes.has(&pass(1, 3)));
        let seen = passes.seen.lock().unwrap();
        assert_eq!((seen.passes.len(), seen.order.len()), (2, 2));
    }
}
