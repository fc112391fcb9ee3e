//! The tree partner > reseller > organization > account. Accounts never move.

use std::fmt;
use std::str::FromStr;

use super::clock::Timestamp;
use super::id::AccountId;

/// The level of a node; `Agent` is the contract's `accountType: "account"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccountType {
    Partner,
    Reseller,
    Organization,
    Agent,
}

impl AccountType {
    /// The interface's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Partner => "partner",
            Self::Reseller => "reseller",
            Self::Organization => "organization",
            Self::Agent => "account",
        }
    }

    /// The level directly above; a partner is a root.
    pub const fn parent(self) -> Option<Self> {
        match self {
            Self::Partner => None,
            Self::Reseller => Some(Self::Partner),
            Self::Organization => Some(Self::Reseller),
            Self::Agent => Some(Self::Organization),
        }
    }
}

impl fmt::Display for AccountType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for AccountType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "partner" => Ok(Self::Partner),
            "reseller" => Ok(Self::Reseller),
            "organization" => Ok(Self::Organization),
            "account" => Ok(Self::Agent),
            _ => Err(format!(
                "{text:?} is not an account type: expected partner, reseller, organization or account"
            )),
        }
    }
}

/// The ids of a node and of its ancestors, one per level; a node lists its own id too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lineage {
    pub partner: Option<AccountId>,
    pub reseller: Option<AccountId>,
    pub organization: Option<AccountId>,
    pub agent: Option<AccountId>,
}

impl Lineage {
    /// The id at one level.
    pub const fn at(&self, level: AccountType) -> Option<AccountId> {
        match level {
            AccountType::Partner => self.partner,
            AccountType::Reseller => self.reseller,
            AccountType::Organization => self.organization,
            AccountType::Agent => self.agent,
        }
    }

    /// This lineage with one more node at `level`.
    #[must_use]
    pub const fn with(mut self, level: AccountType, id: AccountId) -> Self {
        match level {
            AccountType::Partner => self.partner = Some(id),
            AccountType::Reseller => self.reseller = Some(id),
            AccountType::Organization => self.organization = Some(id),
            AccountType::Agent => self.agent = Some(id),
        }
        self
    }

    /// Every id of the lineage, the root first.
    pub fn ids(&self) -> impl Iterator<Item = AccountId> {
        [self.partner, self.reseller, self.organization, self.agent].into_iter().flatten()
    }
}

/// A node of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    pub kind: AccountType,
    pub name: String,
    /// The handle shown as `username`; for an Agent, `toUser` of its messages.
    pub username: String,
    pub parent: Option<AccountId>,
    pub lineage: Lineage,
    /// The node's own switch. A node works only while it and all its ancestors are active.
    pub active: bool,
    pub created_at: Timestamp,
}
