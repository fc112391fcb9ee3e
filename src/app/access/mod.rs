//! The only place that answers "may I?" (contract §4, Scope of a key).
//!
//! A token becomes a [`Caller`]; a caller and a requested target become a [`Target`] with the
//! [`Scope`] that the store wants. No route reads a target on its own, and nobody else makes a
//! scope.

pub mod identity;
pub mod token;

use crate::domain::account::{Account, AccountType};
use crate::domain::id::{AccountId, KeyId};
use crate::domain::scope::Scope;
use crate::store::{Store, StoreError};
use identity::{Identity, IdentityType, Level};

/// Whoever holds a key: the account behind it, proven and active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub key: KeyId,
    pub account: Account,
    pub level: Level,
}

/// What a request may act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub account: Account,
    pub scope: Scope,
}

/// What an operation needs its target to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Any account that the key reaches.
    AnyAccount,
    /// An Agent.
    Agent,
}

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum Denied {
    /// No key, or one that is unknown, revoked or of an inactive account: one answer for all.
    #[error("the key is missing, unknown, revoked, or belongs to an inactive account")]
    NoKey,
    /// Outside the caller's hierarchy, or not there at all: one answer for both.
    #[error("the key does not reach this account")]
    OutOfScope,
    /// The target is reached, but the operation makes no sense for it.
    #[error("this operation needs an Agent: set targetAccountId to an account of type \"account\"")]
    NeedsAgent,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Decides every right.
#[derive(Clone, Debug)]
pub struct Access {
    store: Store,
}

impl Access {
    /// Decides over this store.
    pub const fn new(store: Store) -> Self {
        Self { store }
    }

    /// Who holds this token?
    pub async fn caller(&self, token: Option<&str>) -> Result<Caller, Denied> {
        let hash = token::hash(token.unwrap_or_default()).ok_or(Denied::NoKey)?;
        let key = self.store.key_by_hash(hash).await?.ok_or(Denied::NoKey)?;
        let account = self.store.account(key.account).await?.ok_or(Denied::NoKey)?;
        if !self.store.is_active(&account).await? {
            return Err(Denied::NoKey);
        }
        let level = identity::level(&identity_of(&account)).ok_or(Denied::OutOfScope)?;
        Ok(Caller { key: key.id, account, level })
    }

    /// What the caller acts on: itself, or `requested` if it lies in its hierarchy.
    pub async fn target(
        &self,
        caller: &Caller,
        requested: Option<AccountId>,
        need: Need,
    ) -> Result<Target, Denied> {
        let account = match requested {
            None => caller.account.clone(),
            Some(id) if id == caller.account.id => caller.account.clone(),
            Some(id) => {
                let found = self.store.account(id).await?.ok_or(Denied::OutOfScope)?;
                if !reaches(caller, &found) {
                    return Err(Denied::OutOfScope);
                }
                found
            }
        };
        if need == Need::Agent && account.kind != AccountType::Agent {
            return Err(Denied::NeedsAgent);
        }
        let scope = Scope::subtree(account.id, account.kind);
        Ok(Target { account, scope })
    }
}

/// An account reaches itself and what lies below it. Partner, reseller and organization keys act
/// for their subtree; an Agent's key acts for that Agent only.
fn reaches(caller: &Caller, target: &Account) -> bool {
    let own_level = match caller.level {
        Level::PartnerAdmin => AccountType::Partner,
        Level::ResellerAdmin => AccountType::Reseller,
        Level::OrganizationAdmin => AccountType::Organization,
        Level::Agent => AccountType::Agent,
    };
    let own = caller.account.lineage.at(own_level);
    own.is_some() && target.lineage.at(own_level) == own
}

/// The five fields by which the scope of a key is decided, as `GET /account` shows them.
pub fn identity_of(account: &Account) -> Identity {
    Identity {
        account_type: match account.kind {
            AccountType::Partner => IdentityType::Partner,
            AccountType::Reseller => IdentityType::Reseller,
            AccountType::Organization => IdentityType::Organization,
            AccountType::Agent => IdentityType::Agent,
        },
        organization: account.lineage.organization,
        reseller: account.lineage.reseller,
        partner: account.lineage.partner,
    }
}
