//! A person with access to an account (`accountType: "user"`).

use super::account::Lineage;
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
