//! Inbound addresses of Agents.

use super::{Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::store::{AddressClaim, AnswersBy, Claimed, HeldAddress};

/// Whether claiming an address may claim its domain as well, if that has no owner: for the
/// operator, whose word is proof enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claiming {
    Never,
    /// The Agent's organization gets the domain.
    ForOrganization,
}

impl Tenancy {
    pub async fn addresses(&self, agent: AccountId) -> Result<Vec<HeldAddress>, TenancyError> {
        Ok(self.store.addresses(agent).await?)
    }

    /// Returns the Agent with this address, ignoring a tag. A catch-all does not count.
    pub async fn agent_at(&self, address: &Address) -> Result<Option<AccountId>, TenancyError> {
        let (address, _) = address.without_tag();
        let found = self.store.look_up(Some(&address), None).await?.answering;
        Ok(found.filter(|found| found.by == AnswersBy::Address).map(|found| found.agent))
    }

    /// Gives an Agent an address; `policies/access.toml` bounds their number.
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
        let most = self.rules.limits.max_addresses;
        let claim = AddressClaim { agent, address, catch_all, domain_for, most };
        match self.store.claim_address(&claim, self.act()).await? {
            Claimed::Yes => Ok(()),
            why => Err(self.refused_address(address, why, Some(agent.id))),
        }
    }

    /// Reads an address that a caller wants removed. A text that is no address by today's rules
    /// counts if the Agent has it, as in [`Self::named_senders`].
    pub async fn named_address(
        &self,
        agent: AccountId,
        text: &str,
    ) -> Result<Address, TenancyError> {
        let error = match Address::parse(text) {
            Ok(address) => return Ok(address),
            Err(error) => error,
        };
        let mut own = self.addresses(agent).await?.into_iter().map(|held| held.address);
        let kept = Address::kept(text).ok();
        own.find(|address| kept.as_ref() == Some(address)).ok_or(TenancyError::NoAddress(error))
    }

    /// Removes an address from an Agent; its mail is refused from now on.
    pub async fn release_address(
        &self,
        agent: AccountId,
        address: &Address,
    ) -> Result<(), TenancyError> {
        let is_released = self.store.release_address(agent, address, self.act()).await?;
        is_released.then_some(()).ok_or_else(|| TenancyError::AddressElsewhere(address.clone()))
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

/// Mail with any tag reaches the address without one, so an address with a tag gets no mail.
pub(super) fn without_tag(address: &Address) -> Result<(), TenancyError> {
    if address.local().contains('+') {
        return Err(TenancyError::Tagged(address.clone()));
    }
    Ok(())
}
