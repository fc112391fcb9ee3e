//! The tree partner > reseller > organization > account. Accounts never move.

use serde_json::{Map, Value};

use super::clock::Timestamp;
use super::id::AccountId;
use super::words::words;

words! {
    /// The level of a node; `Agent` is the contract's `accountType: "account"`.
    AccountType {
        Partner = "partner",
        Reseller = "reseller",
        Organization = "organization",
        Agent = "account",
    }
}

words! {
    /// How v2 says whether a reseller is active.
    ResellerStatus {
        Enabled = "enabled",
        Disabled = "disabled",
    }
}

impl AccountType {
    /// The level directly above; a partner is a root.
    pub const fn parent(self) -> Option<Self> {
        match self {
            Self::Partner => None,
            Self::Reseller => Some(Self::Partner),
            Self::Organization => Some(Self::Reseller),
            Self::Agent => Some(Self::Organization),
        }
    }

    /// The field that names an account of this level, beside `name`.
    pub const fn name_field(self) -> &'static str {
        match self {
            Self::Partner => "partnerName",
            Self::Reseller => "resellerName",
            Self::Organization => "orgName",
            Self::Agent => "accountName",
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
    pub const fn at(&self, level: AccountType) -> Option<AccountId> {
        match level {
            AccountType::Partner => self.partner,
            AccountType::Reseller => self.reseller,
            AccountType::Organization => self.organization,
            AccountType::Agent => self.agent,
        }
    }

    /// Returns this lineage with the id of one more level.
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

    /// Returns the ids that are set, root first.
    pub fn ids(&self) -> impl Iterator<Item = AccountId> {
        [self.partner, self.reseller, self.organization, self.agent].into_iter().flatten()
    }
}

/// The field among the details that names an account's plan: the one that decides something
/// (`domain::feature::Offer`).
pub const PLAN: &str = "productPlanId";

/// Further fields of an account, by their names in the API. Secrets are masked before this map is
/// made.
pub type Details = Map<String, Value>;

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
    /// The account's name in the customer's own system; unique among the children of one parent.
    pub external_id: Option<String>,
    pub details: Details,
}

impl Account {
    /// The name of the account's plan, whether the rules know it or not.
    pub fn plan(&self) -> Option<&str> {
        self.details.get(PLAN).and_then(Value::as_str)
    }
}

/// Applies `changes` to `details`. A null removes the field. An object changes the fields that it
/// has, one level down. Any other value replaces the old one.
pub fn merge(details: &mut Details, changes: &Details) {
    for (name, change) in changes {
        match (details.get_mut(name), change) {
            (_, Value::Null) => {
                details.remove(name);
            }
            (Some(Value::Object(there)), Value::Object(fields)) => {
                for (name, value) in fields {
                    if value.is_null() {
                        there.remove(name);
                    } else {
                        there.insert(name.clone(), value.clone());
                    }
                }
            }
            (_, change) => {
                details.insert(name.clone(), change.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_laid_on_what_is_there() {
        let object = |value: Value| value.as_object().unwrap().clone();
        let mut details = object(json!({ "a": 1, "b": { "x": 1, "y": 2 }, "c": [1], "d": 4 }));
        let changes = json!({ "a": null, "b": { "x": null, "z": 3 }, "c": [2], "e": { "f": 1 } });
        merge(&mut details, &object(changes));
        let expected = json!({ "b": { "y": 2, "z": 3 }, "c": [2], "d": 4, "e": { "f": 1 } });
        assert_eq!(Value::Object(details), expected);
    }
}
