//! An Agent's inbound policy: read it, add addresses, switch the mode (contract §2, Policy).

use std::collections::BTreeSet;

use super::{Tenancy, TenancyError};
use crate::domain::address::{Address, AddressError};
use crate::domain::id::AccountId;
use crate::domain::policy::{AllowedSender, Mode, Policy};
use crate::store::cut;

/// What adding to or removing from a list came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListChange {
    /// The addresses that the call changed, as normalised.
    pub changed: Vec<Address>,
    /// Those that were in that state already.
    pub unchanged: Vec<Address>,
    /// Entries on the list now.
    pub total: u64,
}

/// A page of an allowlist, in the order of the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedPage {
    pub senders: Vec<AllowedSender>,
    pub total: u64,
    /// Where the next page begins, if there is one.
    pub next: Option<Address>,
}

impl Tenancy {
    /// An Agent's policy.
    pub async fn policy(&self, agent: AccountId) -> Result<Policy, TenancyError> {
        let policy = self.store.policy(agent).await?;
        policy.ok_or(TenancyError::NoPolicyOf(agent))
    }

    /// Sets the mode; from the return on, no message is decided by the old one.
    pub async fn set_mode(&self, agent: AccountId, mode: Mode) -> Result<Policy, TenancyError> {
        self.store.set_mode(agent, mode, self.act()).await?;
        self.policy(agent).await
    }

    /// A page of an Agent's allowlist.
    pub async fn allowed_senders(
        &self,
        agent: AccountId,
        limit: u32,
        after: Option<&Address>,
    ) -> Result<AllowedPage, TenancyError> {
        let total = self.policy(agent).await?.allowlist_count;
        let mut senders = self.store.allowed_senders(agent, limit.saturating_add(1), after).await?;
        let more = cut(&mut senders, limit);
        let next = senders.last().filter(|_| more).map(|sender| sender.address.clone());
        Ok(AllowedPage { senders, total, next })
    }

    /// The senders that a caller names to have them taken off an Agent's allowlist. A text that is
    /// no address by the rules of this version may be one that an earlier version took: it is if it
    /// stands on the list like that, and an error otherwise, so that no mistake passes for an entry
    /// that is not there.
    pub async fn named_senders(
        &self,
        agent: AccountId,
        texts: &[&str],
    ) -> Result<Vec<Result<Address, AddressError>>, TenancyError> {
        let odd = texts.iter().filter(|text| Address::parse(text).is_err());
        let odd: BTreeSet<Address> = odd.filter_map(|text| Address::kept(text).ok()).collect();
        let listed = self.store.listed_among(agent, &odd).await?;
        let read = |text: &&str| {
            let kept = || Address::kept(text).ok().filter(|kept| listed.contains(kept));
            Address::parse(text).or_else(|error| kept().ok_or(error))
        };
        Ok(texts.iter().map(read).collect())
    }

    /// Adds senders to an Agent's allowlist: all of them or, when there is no room, none.
    pub async fn allow(
        &self,
        agent: AccountId,
        senders: &[Address],
        note: Option<&str>,
    ) -> Result<ListChange, TenancyError> {
        let most = self.rules.limits.max_allowlist_entries;
        let senders = distinct(senders);
        let done = self.store.allow_senders(agent, &senders, note, most, self.act()).await?;
        let (changed, total) = done.ok_or(TenancyError::AllowlistFull { most })?;
        Ok(change(senders, changed, total))
    }

    /// Removes senders. In `allowlist` mode none of their messages is accepted after the return.
    pub async fn disallow(
        &self,
        agent: AccountId,
        senders: &[Address],
    ) -> Result<ListChange, TenancyError> {
        let senders = distinct(senders);
        let (changed, total) = self.store.remove_senders(agent, &senders, self.act()).await?;
        Ok(change(senders, changed, total))
    }
}

fn distinct(senders: &[Address]) -> Vec<Address> {
    senders.iter().cloned().collect::<BTreeSet<_>>().into_iter().collect()
}

fn change(senders: Vec<Address>, changed: Vec<Address>, total: u64) -> ListChange {
    let unchanged = senders.into_iter().filter(|sender| !changed.contains(sender)).collect();
    ListChange { changed, unchanged, total }
}
