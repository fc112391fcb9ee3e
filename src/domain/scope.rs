//! The accounts that a request may touch. Only `app::access` makes scopes; every tenant read of the
//! store takes one.

use super::account::AccountType;
use super::id::AccountId;

/// A subtree of accounts, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    root: AccountId,
    level: AccountType,
    only: Option<Vec<AccountId>>,
}

impl Scope {
    /// Covers the account `root` and everything below it.
    pub const fn subtree(root: AccountId, level: AccountType) -> Self {
        Self { root, level, only: None }
    }

    /// Narrows the scope to these Agents.
    #[must_use]
    pub fn only(self, agents: Vec<AccountId>) -> Self {
        Self { only: Some(agents), ..self }
    }

    pub const fn root(&self) -> AccountId {
        self.root
    }

    pub const fn level(&self) -> AccountType {
        self.level
    }

    /// The Agents that the scope is narrowed to; None if it is not.
    pub fn permitted(&self) -> Option<&[AccountId]> {
        self.only.as_deref()
    }
}
