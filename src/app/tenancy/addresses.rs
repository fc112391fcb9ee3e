//! The inbound addresses of Agents.

use super::{Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::store::{By, Claimed};

/// Whether an unowned domain may be claimed on the way: the operator's word is proof enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    /// The domain must belong to an ancestor already.
    Never,
    /// A domain that nobody owns goes to the Agent's organization.
    ForOrganization,
}

impl Tenancy {
    /// The addresses of an Agent, with their catch-all flags.
    pub async fn addresses(&self, agent: AccountId) -> Result<Vec<(Address, bool)>, TenancyError> {
        Ok(self.store.addresses(agent).await?)
    }

    /// The Agent that has this address, a tag set aside; none that answers as a catch-all.
    pub async fn agent_at(&self, address: &Address) -> Result<Option<AccountId>, TenancyError> {
        let (address, _) = address.without_tag();
        let found = self.store.look_up(Some(&address), None).await?.answering;
        Ok(found.filter(|found| found.by == By::Address).map(|found| found.agent))
    }

    /// Gives an Agent an address, up to as many as `policies/access.toml` allows.
    pub async fn claim_address(
        &self,
        agent: &Account,
        address: &Address,
        catch_all: bool,
        claiming: Claiming,
    ) -> Result<(), TenancyError> {
        if agent.kind != AccountType::Agent {
            return Err(TenancyError::NoAddressesOf { account: agent.id, kind: agent.kind });
        }
        without_tag(address)?;
        let domain_for = match claiming {
            Claiming::Never => None,
            Claiming::ForOrganization => agent.lineage.organization,
        };
        let (most, act) = (self.rules.limits.max_addresses, self.act());
        let claiming = self.store.claim_address(agent, address, catch_all, domain_for, most, act);
        match claiming.await? {
            Claimed::Yes => Ok(()),
            why => Err(self.refused_address(address, why, Some(agent.id))),
        }
    }

    /// The address of an Agent that a caller names to have it taken away: as
    /// [`Self::named_senders`] has it.
    pub async fn named_address(
        &self,
        agent: AccountId,
        text: &str,
    ) -> Result<Address, TenancyError> {
        let error = match Address::parse(text) {
            Ok(address) => return Ok(address),
            Err(error) => error,
        };
        let mut own = self.addresses(agent).await?.into_iter().map(|(address, _)| address);
        let kept = Address::kept(text).ok();
        own.find(|address| kept.as_ref() == Some(address)).ok_or(TenancyError::NoAddress(error))
    }

    /// Takes an address from an Agent; mail to it is refused from now on.
    pub async fn release_address(
        &self,
        agent: AccountId,
        address: &Address,
    ) -> Result<(), TenancyError> {
        if self.store.release_address(agent, address, self.act()).await? {
            Ok(())
        } else {
            Err(TenancyError::AddressElsewhere(address.clone()))
        }
    }

    pub(super) fn refused_address(
        &self,
        address: &Address,
        why: Claimed,
        agent: Option<AccountId>,
    ) -> TenancyError {
        match why {
            Claimed::DomainNotOurs => {
                TenancyError::DomainNotOurs { domain: address.domain().clone(), agent }
            }
            Claimed::TooMany => {
                TenancyError::TooManyAddresses { most: self.rules.limits.max_addresses }
            }
            Claimed::CatchAllInUse => TenancyError::CatchAllInUse(address.clone()),
            Claimed::InUse | Claimed::Yes => TenancyError::AddressInUse(address.clone()),
        }
    }
}

/// Every tag reaches the address without it, so an address with one would never be reached.
pub(super) fn without_tag(address: &Address) -> Result<(), TenancyError> {
    if address.local().contains('+') {
        return Err(TenancyError::Tagged(address.clone()));
    }
    Ok(())
}
