//! A person with access to an account (`accountType: "user"`).

use super::account::{Account, AccountType, Lineage};
use super::address::Address;
use super::clock::Timestamp;
use super::id::{AccountId, MemberId};
use super::words::words;

words! {
    /// What a member may do in its account.
    Role {
        /// Everything that the account's own key may.
        Admin = "admin",
        /// Everything but to manage accounts, members, keys and domains.
        Member = "member",
    }
}

/// A member of a partner, a reseller or an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: MemberId,
    /// The account that it belongs to: never an Agent (contract §4).
    pub account: AccountId,
    /// That account's, its own id among them.
    pub lineage: Lineage,
    pub email: Address,
    pub role: Role,
    /// `permittedAccountIds`: the Agents that it is restricted to; empty restricts nothing.
    pub permitted: Vec<AccountId>,
    pub created_at: Timestamp,
}

impl Member {
    /// Whether it may do all that its account's own key may: somebody must stay who can.
    pub fn is_unrestricted_administrator(&self) -> bool {
        self.role == Role::Admin && self.permitted.is_empty()
    }

    /// Whether it is found with this account as the target: it belongs to it or to one below it;
    /// of an Agent, it belongs to its organization and may act on it.
    pub fn is_of(&self, account: &Account) -> bool {
        match account.kind {
            AccountType::Agent => {
                let permitted = self.permitted.is_empty() || self.permitted.contains(&account.id);
                permitted && account.lineage.organization == Some(self.account)
            }
            level => self.lineage.at(level) == Some(account.id),
        }
    }
}
