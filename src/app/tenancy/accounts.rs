//! The tree: making accounts, finding them, switching them on and off.

use super::addresses::without_tag;
use super::{Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::store::{Created, NewAccount};

/// Long enough for any company name; bounds what every list shows.
const LONGEST_NAME: usize = 200;

impl Tenancy {
    /// Makes the partner account of a new store. A store has one root.
    pub async fn create_partner(&self, name: &str) -> Result<Account, TenancyError> {
        self.create(AccountType::Partner, None, name, &[]).await
    }

    /// Makes an account below `parent`, which must be of the level directly above, with these
    /// addresses or not at all; a domain that nobody owns is claimed for the organization.
    pub async fn create_account(
        &self,
        kind: AccountType,
        parent: AccountId,
        name: &str,
        addresses: &[Address],
    ) -> Result<Account, TenancyError> {
        addresses.iter().try_for_each(without_tag)?;
        self.create(kind, Some(parent), name, addresses).await
    }

    /// The account with this id.
    pub async fn account(&self, id: AccountId) -> Result<Account, TenancyError> {
        let found = self.store.account(id).await?;
        found.ok_or_else(|| TenancyError::NotFound(format!("there is no account {id}")))
    }

    /// All accounts, oldest first.
    pub async fn accounts(&self) -> Result<Vec<Account>, TenancyError> {
        Ok(self.store.accounts(None).await?)
    }

    /// Whether the account and all above it are active.
    pub async fn is_active(&self, account: &Account) -> Result<bool, TenancyError> {
        Ok(self.store.is_active(account).await?)
    }

    /// Switches an account off or on: its keys and its mail, and those of all below it, stop or
    /// go on at once.
    pub async fn set_active(&self, id: AccountId, active: bool) -> Result<Account, TenancyError> {
        if !self.store.set_active(id, active, self.act()).await? {
            return Err(TenancyError::NotFound(format!("there is no account {id}")));
        }
        self.account(id).await
    }

    async fn create(
        &self,
        kind: AccountType,
        parent: Option<AccountId>,
        name: &str,
        addresses: &[Address],
    ) -> Result<Account, TenancyError> {
        let name = name.trim();
        if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
            return Err(TenancyError::Invalid(format!(
                "a name has 1 to {LONGEST_NAME} octets and no control characters"
            )));
        }
        let new = NewAccount {
            kind,
            name: name.to_owned(),
            username: name.to_owned(),
            parent,
            addresses: addresses.to_vec(),
        };
        let most = self.rules.limits.max_addresses;
        match self.store.create_account(&new, most, self.act()).await? {
            Created::Account(made) => Ok(*made),
            Created::Refused(address, why) => {
                Err(self.refused_address(&address, why, "the new Agent"))
            }
            Created::HasPartner => {
                Err(TenancyError::Conflict("this store has its partner account already".into()))
            }
            Created::NoParent => Err(TenancyError::Invalid(match (kind.parent(), parent) {
                (Some(level), Some(parent)) => format!(
                    "account {parent} is not of type {level}: one of type {kind} hangs below it"
                ),
                _ => format!("an account of type {kind} has no parent"),
            })),
        }
    }
}
