//! The accounts that a request may touch. Made by `app::access` alone; every tenant read of the
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
    /// The account `root` and everything below it.
    pub const fn subtree(root: AccountId, level: AccountType) -> Self {
        Self { root, level, only: None }
    }

    /// Narrowed to these Agents.
    #[must_use]
    pub fn only(self, agents: Vec<AccountId>) -> Self {
        Self { only: Some(agents), ..self }
    }

    /// The account at the top.
    pub const fn root(&self) -> AccountId {
        self.root
    }

    /// The level of the account at the top.
    pub const fn level(&self) -> AccountType {
        self.level
    }

    /// The Agents that it is narrowed to, if it is.
    pub fn permitted(&self) -> Option<&[AccountId]> {
        self.only.as_deref()
    }
}
