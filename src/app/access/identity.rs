//! The scope table of contract §4 as one pure function.

use crate::domain::account::{Account, AccountType};
use crate::domain::id::AccountId;
use crate::domain::member::Member;
use crate::domain::words::words;

words! {
    /// `accountType` of the owner of a key.
    IdentityType {
        Partner = "partner",
        Reseller = "reseller",
        Organization = "organization",
        Agent = "account",
        /// A member: a person with access to an account.
        User = "user",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub account_type: IdentityType,
    pub organization: Option<AccountId>,
    pub reseller: Option<AccountId>,
    pub partner: Option<AccountId>,
}

/// The level that a key may act at, the narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Agent,
    OrganizationAdmin,
    ResellerAdmin,
    PartnerAdmin,
}

impl Level {
    /// The level of the account whose subtree the key reaches.
    pub const fn account_type(self) -> AccountType {
        match self {
            Self::PartnerAdmin => AccountType::Partner,
            Self::ResellerAdmin => AccountType::Reseller,
            Self::OrganizationAdmin => AccountType::Organization,
            Self::Agent => AccountType::Agent,
        }
    }
}

/// Returns the level of a key: the first matching row of the scope table decides. Two absent ids
/// are not equal. None for a member without an organization.
pub fn level(identity: &Identity) -> Option<Level> {
    let organization = identity.organization;
    let same = |other: Option<AccountId>| organization.is_some() && organization == other;
    match identity.account_type {
        IdentityType::Partner => Some(Level::PartnerAdmin),
        _ if same(identity.partner) => Some(Level::PartnerAdmin),
        IdentityType::Reseller => Some(Level::ResellerAdmin),
        _ if same(identity.reseller) => Some(Level::ResellerAdmin),
        IdentityType::Agent => Some(Level::Agent),
        IdentityType::Organization => Some(Level::OrganizationAdmin),
        IdentityType::User => organization.map(|_| Level::OrganizationAdmin),
    }
}

pub fn of_account(account: &Account) -> Identity {
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

/// Returns the fields of a member. Its organization is the account that it belongs to, at any
/// level: a member of the partner or of a reseller has the id of that account as `organizationId`,
/// as the scope table expects.
pub const fn of_member(member: &Member) -> Identity {
    Identity {
        account_type: IdentityType::User,
        organization: Some(member.account),
        reseller: member.lineage.reseller,
        partner: member.lineage.partner,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::Lineage;
    use crate::domain::address::Address;
    use crate::domain::clock::Timestamp;
    use crate::domain::id::MemberId;
    use crate::domain::member::Role;

    /// The contract's table, row by row, written independently of the code under test.
    fn expected(
        kind: &str,
        org: Option<i64>,
        reseller: Option<i64>,
        partner: Option<i64>,
    ) -> &'static str {
        if kind == "partner" || (org.is_some() && org == partner) {
            return "partner admin";
        }
        if kind == "reseller" || (org.is_some() && org == reseller) {
            return "reseller admin";
        }
        if kind == "account" {
            return "agent";
        }
        if kind == "organization" || (kind == "user" && org.is_some()) {
            return "organization admin";
        }
        "none"
    }

    #[test]
    fn a_member_is_as_high_as_the_account_that_it_belongs_to() {
        let id = |id: i64| AccountId::new(id).unwrap();
        let mut lineage = Lineage::default();
        for (number, kind, expected) in [
            (1, AccountType::Partner, Level::PartnerAdmin),
            (2, AccountType::Reseller, Level::ResellerAdmin),
            (3, AccountType::Organization, Level::OrganizationAdmin),
        ] {
            lineage = lineage.with(kind, id(number));
            let member = Member {
                id: MemberId::new(9).unwrap(),
                account: id(number),
                lineage,
                email: Address::parse("a@good.example").unwrap(),
                role: Role::Member,
                permitted: Vec::new(),
                created_at: Timestamp::from_millis(0),
            };
            assert_eq!(level(&of_member(&member)), Some(expected), "{kind}");
            assert_eq!(expected.account_type(), kind);
        }
    }

    #[test]
    fn every_combination_of_present_absent_and_equal_ids() {
        let ids = [None, Some(1), Some(2), Some(3)];
        let kinds = [
            ("partner", IdentityType::Partner),
            ("reseller", IdentityType::Reseller),
            ("organization", IdentityType::Organization),
            ("account", IdentityType::Agent),
            ("user", IdentityType::User),
        ];
        for (word, account_type) in kinds {
            for organization in ids {
                for reseller in ids {
                    for partner in ids {
                        let id = |id: Option<i64>| id.and_then(AccountId::new);
                        let found = level(&Identity {
                            account_type,
                            organization: id(organization),
                            reseller: id(reseller),
                            partner: id(partner),
                        });
                        let found = match found {
                            Some(Level::PartnerAdmin) => "partner admin",
                            Some(Level::ResellerAdmin) => "reseller admin",
                            Some(Level::OrganizationAdmin) => "organization admin",
                            Some(Level::Agent) => "agent",
                            None => "none",
                        };
                        let wanted = expected(word, organization, reseller, partner);
                        assert_eq!(
                            found, wanted,
                            "{word} {organization:?} {reseller:?} {partner:?}"
                        );
                    }
                }
            }
        }
    }
}
