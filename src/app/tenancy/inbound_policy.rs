//! An Agent's inbound policy: reading it, its allowlist, its mode (contract §2, Policy).

use std::collections::BTreeSet;

use super::{Tenancy, TenancyError};
use crate::domain::address::{Address, AddressError};
use crate::domain::id::AccountId;
use crate::domain::policy::{AllowedSender, Mode, Policy};
use crate::store::truncate_page;

/// The result of adding to or removing from a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListChange {
    /// The changed addresses, normalised.
    pub changed: Vec<Address>,
    /// Addresses that needed no change.
    pub unchanged: Vec<Address>,
    pub total: u64,
}

/// A page of an allowlist, by address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedPage {
    pub senders: Vec<AllowedSender>,
    pub total: u64,
    /// The last address of this page, if more follow.
    pub next: Option<Address>,
}

impl Tenancy {
    pub async fn policy(&self, agent: AccountId) -> Result<Policy, TenancyError> {
        let policy = self.store.policy(agent).await?;
        policy.ok_or(TenancyError::NoPolicyOf(agent))
    }

    /// Sets the mode. After it returns, no message is decided by the old one.
    pub async fn set_mode(&self, agent: AccountId, mode: Mode) -> Result<Policy, TenancyError> {
        self.store.set_mode(agent, mode, self.act()).await?;
        self.policy(agent).await
    }

    pub async fn allowed_senders(
        &self,
        agent: AccountId,
        limit: u32,
        after: Option<&Address>,
    ) -> Result<AllowedPage, TenancyError> {
        let total = self.policy(agent).await?.allowlist_count;
        let mut senders = self.store.allowed_senders(agent, limit.saturating_add(1), after).await?;
        let more = truncate_page(&mut senders, limit);
        let next = senders.last().filter(|_| more).map(|sender| sender.address.clone());
        Ok(AllowedPage { senders, total, next })
    }

    /// Reads senders that a caller wants removed from an Agent's allowlist. A text that is no
    /// address by today's rules counts if the allowlist has it: an earlier version accepted it.
    /// Otherwise it is an error, so a typo does not pass for an absent entry.
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

    /// Adds senders to an Agent's allowlist: all, or none if there is no room for all.
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

    /// Removes senders. In `allowlist` mode, none of their messages is accepted after it returns.
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
