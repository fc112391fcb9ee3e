//! The caller of a request, and the target that the request may act on.

use super::Denied;
use super::identity::{self, Identity, Level};
use crate::domain::account::Account;
use crate::domain::audit::{Actor, Who};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::domain::key::{Key, KeyOwner};
use crate::domain::member::{Member, Role};
use crate::domain::relay::RelayType;
use crate::domain::scope::Scope;
use crate::store::RevocableKeys;

/// The owner of a key, authenticated and active: an account, or a member of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub key: Key,
    /// The account that owns the key, or that the member belongs to.
    pub account: Account,
    pub member: Option<Member>,
    pub level: Level,
    /// The account has the feature `api`, or needs none.
    pub has_api: bool,
    /// The type of the inbound key; None for an API key.
    pub way_in: Option<RelayType>,
}

impl Caller {
    pub fn actor(&self) -> Actor {
        let member = self.member.as_ref().map(|member| member.id);
        Actor::of(Who::Key { key: self.key.id, account: self.account.id, member })
    }

    /// Fails if the keys of the account open nothing. Its requests are counted all the same.
    pub const fn enters(&self) -> Result<(), Denied> {
        if self.has_api { Ok(()) } else { Err(Denied::NoApi) }
    }

    /// Fails if a key with this expiry would outlive the caller's own key.
    pub fn may_issue(&self, expires_at: Option<Timestamp>) -> Result<(), Denied> {
        match (self.key.expires_at, expires_at) {
            (None, _) => Ok(()),
            (Some(own), Some(new)) if new <= own => Ok(()),
            (Some(own), _) => Err(Denied::Outlives(own)),
        }
    }

    /// Returns the Agents that the caller is restricted to; None if it is not restricted.
    pub fn permitted(&self) -> Option<&[AccountId]> {
        let permitted = self.member.as_ref().map(|member| member.permitted.as_slice());
        permitted.filter(|agents| !agents.is_empty())
    }

    /// Tells whether the caller is an administrator: every account is, a member by its role. A
    /// worker is none: it makes no keys of accounts and members.
    pub fn is_administrator(&self) -> bool {
        let by_role = self.member.as_ref().is_none_or(|member| member.role == Role::Admin);
        by_role && self.key.worker_job.is_none()
    }

    /// Tells whether `account` is the caller's account or lies below it.
    pub(super) fn reaches(&self, account: &Account) -> bool {
        let level = self.level.account_type();
        let own = self.account.lineage.at(level);
        own.is_some() && account.lineage.at(level) == own
    }
}

/// The account or member that a request may act on, and the rows in reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The target account, or the account that the target member belongs to.
    pub account: Account,
    pub member: Option<Member>,
    pub scope: Scope,
}

impl Target {
    /// Returns the id of the member or account. Both kinds of ids come from one sequence.
    pub fn id(&self) -> AccountId {
        let member = self.member.as_ref().and_then(|member| AccountId::new(member.id.get()));
        member.unwrap_or(self.account.id)
    }

    pub fn owner(&self) -> KeyOwner {
        let member = self.member.as_ref().map(|member| KeyOwner::Member(member.id));
        member.unwrap_or(KeyOwner::Account(self.account.id))
    }

    /// Returns the keys in reach: a member's own keys, or the keys of the account, of all accounts
    /// below it and of their members.
    pub fn keys(&self) -> RevocableKeys<'_> {
        match &self.member {
            Some(member) => RevocableKeys::OfMember(member.id),
            None => RevocableKeys::InScope(&self.scope),
        }
    }
}

/// Returns the fields that decide the scope of a key, as `GET /account` shows them.
pub fn identity_of(account: &Account, member: Option<&Member>) -> Identity {
    member.map_or_else(|| identity::of_account(account), identity::of_member)
}
