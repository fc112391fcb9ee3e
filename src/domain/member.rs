//! A person with access to an account (`accountType: "user"`).

use std::collections::BTreeSet;

use super::account::{Account, AccountType, Lineage};
use super::address::Address;
use super::clock::Timestamp;
use super::id::{AccountId, MemberId};
use super::words::words;

words! {
    /// Rights of a member in its account.
    Role {
        /// All rights of the account's own key.
        Admin = "admin",
        /// All but managing accounts, members, keys and domains.
        Member = "member",
    }
}

/// A member of a partner, a reseller or an organization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub id: MemberId,
    /// The member's account; never an Agent (contract §4).
    pub account: AccountId,
    /// The lineage of that account, itself included.
    pub lineage: Lineage,
    pub email: Address,
    pub role: Role,
    /// `permittedAccountIds`: the only Agents that the member may act on; empty means no
    /// restriction.
    pub permitted: Vec<AccountId>,
    pub created_at: Timestamp,
}

impl Member {
    /// Tells whether the member has all rights of its account's key. One such member must remain.
    pub fn is_unrestricted_administrator(&self) -> bool {
        self.role == Role::Admin && self.permitted.is_empty()
    }

    /// Tells whether the member is listed for this target: it belongs to `account` or to an account
    /// below. For an Agent: it belongs to the Agent's organization and may act on the Agent.
    pub fn is_of(&self, account: &Account) -> bool {
        match account.kind {
            AccountType::Agent => {
                let permitted = self.permitted.is_empty() || self.permitted.contains(&account.id);
                permitted && account.lineage.organization == Some(self.account)
            }
            level => self.lineage.at(level) == Some(account.id),
        }
    }

    /// Tells whether the member may act on this Agent alone, before and after it gets this list of
    /// Agents; true without an Agent.
    pub fn stays_within(
        &self,
        agent: Option<AccountId>,
        permitted: Option<&BTreeSet<AccountId>>,
    ) -> bool {
        agent.is_none_or(|agent| {
            let alone = |list: &BTreeSet<AccountId>| list.len() == 1 && list.contains(&agent);
            self.permitted == [agent] && permitted.is_none_or(alone)
        })
    }
}
