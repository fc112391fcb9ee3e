//! What decisions rested on lately, so that an acceptance is decided without asking the store: its commit
//! reads all of it again, and writes nothing where it has changed. Whatever comes to something else is
//! decided by what is read for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::recent::Recent;
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::domain::ports::Recipient;
use crate::store::{Addressed, Store, StoreError};

#[derive(Debug)]
pub(super) struct Standings {
    store: Store,
    known: Mutex<Recent<(AccountId, Address, Address), Addressed>>,
}

impl Standings {
    pub(super) fn new(store: Store, most: usize) -> Self {
        Self { store, known: Mutex::new(Recent::new(most)) }
    }

    /// As it was lately, if that is remembered.
    pub(super) fn lately(&self, recipient: &Recipient, sender: &Address) -> Option<Addressed> {
        self.known().find(&key(recipient, sender))
    }

    /// As it is now; `None` if there is no such Agent, or it has no policy.
    pub(super) async fn now(
        &self,
        recipient: &Recipient,
        sender: &Address,
    ) -> Result<Option<Addressed>, StoreError> {
        let found = self.store.addressed(recipient.agent, &recipient.address, sender).await?;
        if let Some(found) = &found {
            self.known().keep(key(recipient, sender), found.clone());
        }
        Ok(found)
    }

    /// Nothing panics while it holds the lock; if something did, each entry would still be whole.
    fn known(&self) -> MutexGuard<'_, Recent<(AccountId, Address, Address), Addressed>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(recipient: &Recipient, sender: &Address) -> (AccountId, Address, Address) {
    (recipient.agent, recipient.address.clone(), sender.clone())
}
