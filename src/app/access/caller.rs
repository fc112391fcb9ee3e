//! Whoever holds a key, and what a request may act on.

use super::Denied;
use super::identity::{self, Identity, Level};
use crate::domain::account::Account;
use crate::domain::audit::{Actor, Who};
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::domain::key::{Key, KeyOwner};
use crate::domain::member::{Member, Role};
use crate::domain::scope::Scope;
use crate::store::Whose;

/// Whoever holds a key: the account and, if it is a member's, the member behind it, proven and
/// active.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub key: Key,
    /// Of a member's key, the account that the member belongs to.
    pub account: Account,
    pub member: Option<Member>,
    pub level: Level,
}

impl Caller {
    /// As the audit log names it.
    pub fn actor(&self) -> Actor {
        let member = self.member.as_ref().map(|member| member.id);
        Actor::of(Who::Key { key: self.key.id, account: self.account.id, member })
    }

    /// Whether it may make a key that ends then: none outlives the key that makes it.
    pub fn may_issue(&self, expires_at: Option<Timestamp>) -> Result<(), Denied> {
        match (self.key.expires_at, expires_at) {
            (None, _) => Ok(()),
            (Some(own), Some(new)) if new <= own => Ok(()),
            (Some(own), _) => Err(Denied::Outlives(own)),
        }
    }

    /// The Agents that it is restricted to, if it is.
    pub fn permitted(&self) -> Option<&[AccountId]> {
        let permitted = self.member.as_ref().map(|member| member.permitted.as_slice());
        permitted.filter(|agents| !agents.is_empty())
    }

    /// Whether it may what is for administrators: an account always, a member by its role.
    pub fn is_administrator(&self) -> bool {
        self.member.as_ref().is_none_or(|member| member.role == Role::Admin)
    }

    /// An account reaches itself and what lies below it.
    pub(super) fn reaches(&self, account: &Account) -> bool {
        let level = self.level.account_type();
        let own = self.account.lineage.at(level);
        own.is_some() && account.lineage.at(level) == own
    }
}

/// What a request may act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Of a member, the account that it belongs to.
    pub account: Account,
    /// The member, where the target is one.
    pub member: Option<Member>,
    pub scope: Scope,
}

impl Target {
    /// Its id: the member's, where it is one. Both are of one sequence.
    pub fn id(&self) -> AccountId {
        let member = self.member.as_ref().and_then(|member| AccountId::new(member.id.get()));
        member.unwrap_or(self.account.id)
    }

    /// As the owner of keys.
    pub fn owner(&self) -> KeyOwner {
        let member = self.member.as_ref().map(|member| KeyOwner::Member(member.id));
        member.unwrap_or(KeyOwner::Account(self.account.id))
    }

    /// The keys that lie in its scope: of a member its own, of an account those of all below it
    /// and of their members.
    pub fn keys(&self) -> Whose<'_> {
        match &self.member {
            Some(member) => Whose::Member(member.id),
            None => Whose::Within(&self.scope),
        }
    }
}

/// The fields by which the scope of a key is decided, as `GET /account` shows them.
pub fn identity_of(account: &Account, member: Option<&Member>) -> Identity {
    member.map_or_else(|| identity::of_account(account), identity::of_member)
}
