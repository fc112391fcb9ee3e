//! Remembers by which standing mail was admitted, so that the next acceptance is decided without asking
//! the store: its commit reads all of it again, and writes nothing where it has changed. A refusal or a
//! deferral is decided by what is read for it, and is not remembered: strangers push out no one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::domain::ports::Recipient;
use crate::domain::recent::Recent;
use crate::store::Addressed;

/// Who was reached, under which address, and by whom.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    agent: AccountId,
    address: Address,
    sender: Address,
}

#[derive(Debug)]
pub(super) struct Standings {
    known: Mutex<Recent<Key, Addressed>>,
}

impl Standings {
    pub(super) fn new(most: usize) -> Self {
        Self { known: Mutex::new(Recent::new(most)) }
    }

    /// As it was lately, if that is remembered.
    pub(super) fn lately(&self, recipient: &Recipient, sender: &Address) -> Option<Addressed> {
        self.known().find(&Key::of(recipient, sender), |_| true).cloned()
    }

    pub(super) fn keep(&self, recipient: &Recipient, sender: &Address, now: &Addressed) {
        self.known().keep(Key::of(recipient, sender), now.clone(), 1);
    }

    /// Nothing panics while it holds the lock; if something did, each entry would still be whole.
    fn known(&self) -> MutexGuard<'_, Recent<Key, Addressed>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Key {
    fn of(recipient: &Recipient, sender: &Address) -> Self {
        let address = recipient.address.clone();
        Self { agent: recipient.agent, address, sender: sender.clone() }
    }
}
