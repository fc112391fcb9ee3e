//! Finds the Agent that answers to a forward-path, and remembers the result as long as nothing
//! changes.
//!
//! A result is valid for the version of the directory that it was read with. Every RCPT with a
//! remembered result asks for the current version first, so the reply is true at a moment between
//! question and reply, whichever gateway or command changed the directory before. On PostgreSQL the
//! version is read each time; on the embedded store only if a file tells that it may have changed
//! (`store::engine::directory_mark`). If the version cannot be read, the look-up fails.
//!
//! Addresses that strangers can make up (unknown ones, and any at a catch-all) are kept apart from
//! addresses that Agents have: a harvest of names displaces only other guessed names.
//!
//! The memory has one lock, never held across an await.

use std::mem;
use std::sync::Mutex;

use crate::app::locked::locked;
use crate::domain::account::Lineage;
use crate::domain::address::Address;
use crate::domain::recent::Recent;
use crate::rules::DirectoryRules;
use crate::store::{AnswersBy, Listing, Store, StoreError};

const POSTMASTER: &str = "postmaster";

#[derive(Debug)]
pub struct Directory {
    store: Store,
    /// The address of the Agent that gets mail for `postmaster`.
    pub(super) postmaster: Option<Address>,
    memory: Mutex<Memory>,
}

/// The Agent that a forward-path leads to, if one does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub listing: Listing,
    /// The address without its tag; for `postmaster` the address that stands for it. None if the
    /// path cannot be an address.
    pub address: Option<Address>,
    /// `local+tag@domain`.
    pub tag: Option<String>,
}

impl Directory {
    pub fn new(store: Store, postmaster: Option<Address>, rules: DirectoryRules) -> Self {
        let (named, guessed) =
            (Recent::new(rules.named_entries), Recent::new(rules.guessed_entries));
        let memory = Memory { version: 0, named, guessed };
        Self { store, postmaster, memory: Mutex::new(memory) }
    }

    /// Looks up `path`, which is as sent, without angle brackets. In this order: the Agent that has
    /// the address without its tag (no Agent has an address with a tag), the Agent for
    /// `postmaster`, the domain's catch-all.
    pub async fn find(&self, path: &str) -> Result<Resolved, StoreError> {
        let (asked, tag) = match Address::parse(path) {
            Ok(address) => {
                let (bare, tag) = address.without_tag();
                (Some(bare), tag)
            }
            Err(_) if path.eq_ignore_ascii_case(POSTMASTER) => (self.postmaster.clone(), None),
            Err(_) => (None, None),
        };
        let listing = self.list(&asked).await?;
        let address = match listing.answering.map(|answering| answering.by) {
            Some(AnswersBy::Postmaster) => self.postmaster.clone(),
            _ => asked,
        };
        Ok(Resolved { listing, address, tag })
    }

    /// Returns the partner's lineage, which owns records that belong to no account below.
    pub async fn partner(&self) -> Result<Lineage, StoreError> {
        self.list(&None).await.map(|listing| listing.lineage)
    }

    async fn list(&self, asked: &Option<Address>) -> Result<Listing, StoreError> {
        if locked(&self.memory).find(asked).is_some() {
            let version = self.store.directory_version().await?;
            let forgotten = locked(&self.memory).forget_unless(version);
            // Dropped outside the lock: it may be large.
            drop(forgotten);
            if let Some(listing) =
                locked(&self.memory).find(asked).filter(|one| one.version == version)
            {
                return Ok(listing);
            }
        }
        let stand_in = asked.as_ref().filter(|address| address.local() == POSTMASTER);
        let stand_in = stand_in.and(self.postmaster.as_ref());
        let listing = self.store.look_up(asked.as_ref(), stand_in).await?;
        let forgotten = locked(&self.memory).keep(asked, listing);
        drop(forgotten);
        Ok(listing)
    }
}

#[derive(Debug)]
struct Memory {
    version: i64,
    named: Entries,
    guessed: Entries,
}

type Entries = Recent<Option<Address>, Listing>;

impl Memory {
    fn find(&mut self, asked: &Option<Address>) -> Option<Listing> {
        let named = self.named.find(asked, |_| true).copied();
        named.or_else(|| self.guessed.find(asked, |_| true).copied())
    }

    /// Sets the version; if it differs, returns all entries, for the caller to drop.
    #[must_use]
    fn forget_unless(&mut self, version: i64) -> Option<[Entries; 2]> {
        if mem::replace(&mut self.version, version) == version {
            return None;
        }
        Some([self.named.empty(), self.guessed.empty()])
    }

    /// Keeps a result. A result of another version replaces all others, even if it is older: the
    /// caller compares versions before it uses a result.
    #[must_use]
    fn keep(&mut self, asked: &Option<Address>, listing: Listing) -> Option<[Entries; 2]> {
        let forgotten = self.forget_unless(listing.version);
        let has_name =
            listing.answering.is_some_and(|answering| answering.by != AnswersBy::CatchAll);
        // All paths that are no address share one entry.
        let place = if has_name || asked.is_none() { &mut self.named } else { &mut self.guessed };
        place.keep(asked.clone(), listing, 1);
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::AccountId;
    use crate::domain::policy::Mode;
    use crate::store::AnsweringAgent;

    fn listing(version: i64, by: Option<AnswersBy>) -> Listing {
        let agent = AccountId::new(7).unwrap();
        let answering = by.map(|by| AnsweringAgent {
            agent,
            by,
            active: true,
            takes_mail: true,
            mode: Mode::Open,
            relayed: false,
        });
        Listing { version, answering, lineage: Lineage::default() }
    }

    fn asked(number: usize) -> Option<Address> {
        Some(Address::parse(&format!("a{number}@agents.example")).unwrap())
    }

    fn memory(named: usize, guessed: usize) -> Memory {
        Memory { version: 0, named: Recent::new(named), guessed: Recent::new(guessed) }
    }

    #[test]
    fn a_harvest_of_names_pushes_out_nothing_but_its_like() {
        let mut memory = memory(8, 4);
        drop(memory.keep(&asked(0), listing(1, Some(AnswersBy::Address))));
        drop(memory.keep(&None, listing(1, None)));
        for number in 1..1000 {
            let by = [None, Some(AnswersBy::CatchAll)][number % 2];
            drop(memory.keep(&asked(number), listing(1, by)));
            assert!(memory.guessed.weight() <= 4);
        }
        assert!(memory.find(&asked(999)).is_some());
        assert!(memory.find(&asked(1)).is_none());
        assert!(memory.find(&asked(0)).is_some() && memory.find(&None).is_some());
    }

    #[test]
    fn one_version_is_remembered_and_no_other() {
        let mut memory = memory(10, 10);
        drop(memory.keep(&asked(0), listing(5, None)));
        assert!(memory.forget_unless(5).is_none());
        assert!(memory.find(&asked(0)).is_some());
        // A restored database may be older: any other version counts as another.
        for version in [6, 4] {
            drop(memory.keep(&asked(1), listing(version, Some(AnswersBy::Address))));
            assert!(memory.find(&asked(0)).is_none());
            assert_eq!(memory.find(&asked(1)), Some(listing(version, Some(AnswersBy::Address))));
        }
        drop(memory.forget_unless(7));
        assert!(memory.find(&asked(1)).is_none());
    }
}
