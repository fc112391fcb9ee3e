//! Remembers the standings by which mail was accepted, so that the next acceptance is decided
//! without a read of the store. Its commit reads the standing again, and writes nothing if it
//! changed. Refusals and deferrals are always decided by a fresh read, and are not remembered: so
//! strangers displace no entry.

use std::sync::Mutex;

use crate::app::locked::locked;
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::domain::ports::Recipient;
use crate::domain::recent::Recent;
use crate::store::AddressedAgent;

/// An Agent, the address it was reached at, and the sender.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    agent: Option<AccountId>,
    address: Address,
    sender: Address,
}

#[derive(Debug)]
pub(super) struct Standings {
    known: Mutex<Recent<Key, AddressedAgent>>,
}

impl Standings {
    pub(super) fn new(most: usize) -> Self {
        Self { known: Mutex::new(Recent::new(most)) }
    }

    /// Returns the last remembered standing, if any.
    pub(super) fn lately(&self, recipient: &Recipient, sender: &Address) -> Option<AddressedAgent> {
        locked(&self.known).find(&Key::of(recipient, sender), |_| true).cloned()
    }

    pub(super) fn keep(&self, recipient: &Recipient, sender: &Address, now: &AddressedAgent) {
        locked(&self.known).keep(Key::of(recipient, sender), now.clone(), 1);
    }
}

impl Key {
    fn of(recipient: &Recipient, sender: &Address) -> Self {
        let address = recipient.address.clone();
        Self { agent: recipient.agent, address, sender: sender.clone() }
    }
}
