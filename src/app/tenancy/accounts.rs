//! The tree of accounts: creating, finding, changing and deleting them.

use super::addresses::without_tag;
use super::record::account_record;
use super::{Tenancy, TenancyError};
use crate::domain::account::{Account, AccountType, Details};
use crate::domain::address::Address;
use crate::domain::app::AppRecord;
use crate::domain::id::AccountId;
use crate::domain::scope::Scope;
use crate::store::{
    AccountCreation, AccountDeletion, AccountFilter, AccountList, AccountPage, AccountUpdate,
    AccountUpdated, NewAccount,
};

/// In bytes: long enough for any company name or external id; bounds each list.
pub(super) const LONGEST_NAME: usize = 200;

/// An account to create below another one.
#[derive(Clone, Debug)]
pub struct NewNode<'a> {
    /// An id reserved earlier, under which its integrations were sealed.
    pub id: Option<AccountId>,
    pub integrations: Vec<AppRecord>,
    pub kind: AccountType,
    pub parent: AccountId,
    pub name: &'a str,
    pub active: bool,
    pub external_id: Option<&'a str>,
    pub details: Details,
    /// For an Agent. A domain without an owner is claimed for its organization.
    pub addresses: &'a [Address],
    /// For an organization: the name of an Agent created with it.
    pub first_agent: Option<&'a str>,
}

impl<'a> NewNode<'a> {
    /// An active account with this name, without anything else.
    pub fn plain(kind: AccountType, parent: AccountId, name: &'a str) -> Self {
        Self {
            id: None,
            integrations: Vec::new(),
            kind,
            parent,
            name,
            active: true,
            external_id: None,
            details: Details::new(),
            addresses: &[],
            first_agent: None,
        }
    }
}

impl Tenancy {
    /// Creates the partner account, the root of a new store. Fails with `HasPartner` if there is
    /// one.
    pub async fn create_partner(&self, name: &str) -> Result<Account, TenancyError> {
        let name = named(name)?;
        let new = NewAccount::plain(AccountType::Partner, name, None, account_record);
        self.create(new).await.map(|(account, _)| account)
    }

    /// Creates an account with these addresses below `parent`, all or nothing. The parent must be
    /// of the level directly above. A domain without an owner is claimed for the organization.
    pub async fn create_account(
        &self,
        kind: AccountType,
        parent: AccountId,
        name: &str,
        addresses: &[Address],
    ) -> Result<Account, TenancyError> {
        let new = NewNode { addresses, ..NewNode::plain(kind, parent, name) };
        self.create_node(&new).await.map(|(account, _)| account)
    }

    /// Creates an account below its parent, and its first Agent if one is wanted: all or nothing.
    /// The parent must be of the level directly above.
    pub async fn create_node(
        &self,
        new: &NewNode<'_>,
    ) -> Result<(Account, Option<Account>), TenancyError> {
        new.addresses.iter().try_for_each(without_tag)?;
        let size = serde_json::Value::Object(new.details.clone()).to_string().len();
        if size > self.rules.limits.max_account_bytes {
            return Err(self.too_large());
        }
        let plain = NewAccount::plain(new.kind, named(new.name)?, Some(new.parent), account_record);
        self.create(NewAccount {
            id: new.id,
            integrations: new.integrations.clone(),
            addresses: new.addresses.to_vec(),
            active: new.active,
            external_id: new.external_id.map(external).transpose()?.map(ToOwned::to_owned),
            details: new.details.clone(),
            first_agent: new.first_agent.map(named).transpose()?.map(ToOwned::to_owned),
            ..plain
        })
        .await
    }

    pub async fn account(&self, id: AccountId) -> Result<Account, TenancyError> {
        let found = self.store.account(id).await?;
        found.ok_or(TenancyError::NoAccount(id))
    }

    /// Lists all accounts, oldest first.
    pub async fn accounts(&self) -> Result<Vec<Account>, TenancyError> {
        Ok(self.store.accounts(None).await?)
    }

    pub async fn is_active(&self, account: &Account) -> Result<bool, TenancyError> {
        Ok(self.store.is_active(account).await?)
    }

    /// Switches an account off or on. Its keys and its mail, and those of all accounts below, stop
    /// or work again at once.
    pub async fn set_active(&self, id: AccountId, active: bool) -> Result<Account, TenancyError> {
        if !self.store.set_active(id, active, self.act()).await? {
            return Err(TenancyError::NoAccount(id));
        }
        self.account(id).await
    }

    /// Changes these fields of an account, all or none. Switching it off stops its keys and its
    /// mail, and those of all accounts below, at once.
    pub async fn update_account(
        &self,
        id: AccountId,
        update: AccountUpdate,
    ) -> Result<Account, TenancyError> {
        let name = update.name.as_deref().map(named).transpose()?.map(ToOwned::to_owned);
        if let Some(Some(id)) = &update.external_id {
            external(id)?;
        }
        let most = self.rules.limits.max_account_bytes;
        let update = AccountUpdate { name, ..update };
        match self.store.update_account(id, &update, most, self.act()).await? {
            AccountUpdated::Account(account) => Ok(*account),
            AccountUpdated::Missing => Err(TenancyError::NoAccount(id)),
            AccountUpdated::ExternalIdTaken => Err(TenancyError::ExternalIdTaken),
            AccountUpdated::TooLarge => Err(self.too_large()),
        }
    }

    /// Deletes an account and, with `cascade`, all accounts below; returns the number of these.
    /// Keys and mail stop at once; messages are erased in the background.
    pub async fn delete_account(
        &self,
        id: AccountId,
        cascade: bool,
    ) -> Result<usize, TenancyError> {
        let most = self.rules.limits.max_cascade;
        let deleting = self.store.delete_account(id, cascade, most, account_record, self.act());
        match deleting.await? {
            AccountDeletion::Done { below } => Ok(below),
            AccountDeletion::Missing => Err(TenancyError::NoAccount(id)),
            AccountDeletion::IsPartner => Err(TenancyError::IsPartner),
            AccountDeletion::HasOthersBelow(below) if below > most => {
                Err(TenancyError::HasManyBelow { account: id, most })
            }
            AccountDeletion::HasOthersBelow(below) => {
                Err(TenancyError::HasBelow { account: id, below })
            }
        }
    }

    /// Lists accounts of one level in this scope, a page at a time.
    pub async fn list_accounts(
        &self,
        scope: &Scope,
        kind: AccountType,
        filter: &AccountFilter,
        page: AccountPage,
    ) -> Result<AccountList, TenancyError> {
        let most = self.rules.limits.max_walk;
        Ok(self.store.list_accounts(scope, kind, filter, page, most).await?)
    }

    /// Returns the account in this scope with this external id. Fails if there are none or several.
    pub async fn account_by_external_id(
        &self,
        scope: &Scope,
        external_id: &str,
    ) -> Result<Account, TenancyError> {
        let mut found = self.store.accounts_by_external_id(scope, external_id, 2).await?;
        match (found.pop(), found.pop()) {
            (Some(account), None) => Ok(account),
            (None, _) => Err(TenancyError::NoExternalId),
            (Some(_), Some(_)) => Err(TenancyError::SeveralExternalIds),
        }
    }

    fn too_large(&self) -> TenancyError {
        TenancyError::AccountTooLarge { most: self.rules.limits.max_account_bytes }
    }

    async fn create(&self, new: NewAccount) -> Result<(Account, Option<Account>), TenancyError> {
        let most = self.rules.limits.max_addresses;
        match self.store.create_account(&new, most, self.act()).await? {
            AccountCreation::Account(made) => Ok((*made, None)),
            AccountCreation::WithAgent(made) => {
                let (organization, agent) = *made;
                Ok((organization, Some(agent)))
            }
            AccountCreation::Refused(address, why) => {
                Err(self.refused_address(&address, why, None))
            }
            AccountCreation::HasPartner => Err(TenancyError::HasPartner),
            AccountCreation::ExternalIdTaken => Err(TenancyError::ExternalIdTaken),
            AccountCreation::NoParent => {
                let (kind, level) = (new.kind, new.kind.parent());
                let (Some(level), Some(parent)) = (level, new.parent) else {
                    return Err(TenancyError::Root(kind));
                };
                let found = self.store.account(parent).await?.map(|account| account.kind);
                Err(TenancyError::Parent { kind, level, parent, found })
            }
        }
    }
}

fn named(name: &str) -> Result<&str, TenancyError> {
    let name = name.trim();
    fits(name).then_some(name).ok_or(TenancyError::Name)
}

fn external(id: &str) -> Result<&str, TenancyError> {
    fits(id).then_some(id).ok_or(TenancyError::ExternalId)
}

fn fits(text: &str) -> bool {
    !text.is_empty() && text.len() <= LONGEST_NAME && !text.chars().any(char::is_control)
}
