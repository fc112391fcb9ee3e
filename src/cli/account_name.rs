//! The name of an account on the command line.

use std::str::FromStr;

use super::Failure;
use crate::app::tenancy::{Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::{Address, AddressError};
use crate::domain::id::AccountId;

/// An account by its id, or an Agent by one of its inbound addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AccountName {
    Id(AccountId),
    Address(Address),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error("expected the id of an account, or an address of an Agent, like support@example.com")]
    Neither,
    #[error("{0}")]
    Address(AddressError),
}

impl FromStr for AccountName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        match text.parse() {
            Ok(id) => Ok(Self::Id(id)),
            Err(_) if text.contains('@') => {
                Address::parse(text).map(Self::Address).map_err(NameError::Address)
            }
            Err(_) => Err(NameError::Neither),
        }
    }
}

impl AccountName {
    /// Returns the id. An id is not looked up; an address must belong to an Agent.
    pub async fn id(&self, tenancy: &Tenancy) -> Result<AccountId, Failure> {
        match self {
            Self::Id(id) => Ok(*id),
            Self::Address(address) => {
                let found = tenancy.agent_at(address).await?;
                Ok(found.ok_or_else(|| format!("no Agent has the address {address}"))?)
            }
        }
    }

    /// Returns the account; fails if there is none.
    pub async fn account(&self, tenancy: &Tenancy) -> Result<Account, Failure> {
        Ok(tenancy.account(self.id(tenancy).await?).await?)
    }

    /// Returns the id of an account; fails if the account is not an Agent.
    pub async fn agent(&self, tenancy: &Tenancy) -> Result<AccountId, Failure> {
        let Account { id: account, kind, .. } = self.account(tenancy).await?;
        if kind == AccountType::Agent {
            return Ok(account);
        }
        Err(TenancyError::NoAgent { account, kind }.into())
    }
}

/// Returns the ids of several accounts, in order.
pub(super) async fn ids(
    names: &[AccountName],
    tenancy: &Tenancy,
) -> Result<Vec<AccountId>, Failure> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        ids.push(name.id(tenancy).await?);
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_id_or_an_address() {
        assert_eq!("4".parse(), Ok(AccountName::Id(AccountId::new(4).unwrap())));
        let address = Address::parse("support@agents.example").unwrap();
        assert_eq!("Support@agents.example".parse(), Ok(AccountName::Address(address)));
        for bad in ["", "0", "04", "-1", "support"] {
            assert_eq!(bad.parse::<AccountName>(), Err(NameError::Neither), "{bad}");
        }
        assert!(matches!("a@b@c".parse::<AccountName>(), Err(NameError::Address(_))));
    }
}
