//! Wire shapes of accounts and members, for the API, events and the command line.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::details::StoredDetails;
use crate::domain::account::{Account, AccountType, ResellerStatus};
use crate::domain::member::{Member, Role};
use crate::wire::{Date, Millis, Number, Word};

/// An account, with all that is kept for it.
// There is no `permittedAccountIds`: an account's own key is not restricted, and absent says so.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Account")]
pub struct AccountRecord {
    /// The id of the account.
    id: Number,
    /// The handle of the account, unique among accounts.
    #[schemars(example = &"support")]
    username: String,
    /// The level of the account; an Agent is an account.
    account_type: Word<AccountType>,
    /// The name of the account.
    #[schemars(example = &"Support")]
    name: String,
    /// The name once more, as v2 has it.
    #[schemars(example = &"Support")]
    account_name: String,
    /// The name of a partner.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    partner_name: Option<String>,
    /// The name of a reseller.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    reseller_name: Option<String>,
    /// The name of an organization.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    org_name: Option<String>,
    /// Whether a reseller is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Word<ResellerStatus>")]
    reseller_status: Option<Word<ResellerStatus>>,
    /// The organization that the account is or belongs to.
    organization_id: Option<Number>,
    /// The reseller that the account is or belongs to.
    reseller_id: Option<Number>,
    /// The partner that the account is or belongs to.
    partner_id: Option<Number>,
    /// The account directly above.
    parent_id: Option<Number>,
    /// Always false.
    #[schemars(extend("const" = false))]
    super_admin: bool,
    /// The account's own switch; it works only while all accounts above it are active, too.
    active: bool,
    /// The name of the account in your application.
    #[schemars(example = &"x-1")]
    external_account_id: Option<String>,
    /// When the account was made, in Unix milliseconds.
    timestamp: Millis,
    /// When the account was made.
    created_at: Date,
    /// The name and the time once more, as v2 has them.
    details: Naming,
    #[serde(flatten)]
    kept: StoredDetails,
}

/// The name of an account or a member, and when it was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Naming {
    /// The name.
    pub name: String,
    /// When it was made.
    pub created_at: Date,
}

impl AccountRecord {
    pub fn of(account: &Account) -> Self {
        let Account { id, kind, name, lineage, active, .. } = account;
        let named = |level| (*kind == level).then(|| name.clone());
        let status = if *active { ResellerStatus::Enabled } else { ResellerStatus::Disabled };
        Self {
            id: (*id).into(),
            username: account.username.clone(),
            account_type: Word(*kind),
            name: name.clone(),
            account_name: name.clone(),
            partner_name: named(AccountType::Partner),
            reseller_name: named(AccountType::Reseller),
            org_name: named(AccountType::Organization),
            reseller_status: (*kind == AccountType::Reseller).then_some(Word(status)),
            organization_id: lineage.organization.map(Number::from),
            reseller_id: lineage.reseller.map(Number::from),
            partner_id: lineage.partner.map(Number::from),
            parent_id: account.parent.map(Number::from),
            super_admin: false,
            active: *active,
            external_account_id: account.external_id.clone(),
            timestamp: Millis(account.created_at),
            created_at: Date(account.created_at),
            details: Naming { name: name.clone(), created_at: Date(account.created_at) },
            kept: StoredDetails::of(&account.details),
        }
    }
}

/// The record as JSON, for events.
pub fn account_record(account: &Account) -> Value {
    json!(AccountRecord::of(account))
}

/// A member, without the Agents that the member is restricted to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Person {
    /// The id of the member.
    id: Number,
    /// Always user.
    #[schemars(extend("const" = "user"))]
    account_type: &'static str,
    /// The address of the member.
    #[schemars(example = &"boss@good.example")]
    username: String,
    /// The address of the member.
    #[schemars(example = &"boss@good.example")]
    email: String,
    /// The rights of the member.
    role: Word<Role>,
    /// The account that the member belongs to.
    account_id: Number,
    /// The account once more, as v2 has it.
    organization_id: Number,
    /// The reseller above.
    reseller_id: Option<Number>,
    /// The partner above.
    partner_id: Option<Number>,
    /// When the member was invited, in Unix milliseconds.
    timestamp: Millis,
    /// When the member was invited.
    created_at: Date,
}

impl Person {
    pub fn of(member: &Member) -> Self {
        Self {
            id: member.id.into(),
            account_type: "user",
            username: member.email.to_string(),
            email: member.email.to_string(),
            role: Word(member.role),
            account_id: member.account.into(),
            organization_id: member.account.into(),
            reseller_id: member.lineage.reseller.map(Number::from),
            partner_id: member.lineage.partner.map(Number::from),
            timestamp: Millis(member.created_at),
            created_at: Date(member.created_at),
        }
    }
}

/// A person with access to an account.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Member")]
pub struct MemberRecord {
    #[serde(flatten)]
    person: Person,
    /// The Agents that the member is restricted to; empty for all.
    permitted_account_ids: Vec<Number>,
}

impl MemberRecord {
    pub fn of(member: &Member) -> Self {
        Self { person: Person::of(member), permitted_account_ids: permitted(member) }
    }
}

pub fn permitted(member: &Member) -> Vec<Number> {
    member.permitted.iter().copied().map(Number::from).collect()
}

/// Data of `member.invited`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invited {
    /// The member who was invited.
    pub member: MemberRecord,
    /// Where the invitation should lead.
    #[schemars(example = &"https://app.example/welcome")]
    pub redirect_url: Option<String>,
    /// Whether a welcome was asked for.
    pub send_welcome_email: Option<bool>,
    /// The inviter; null for the operator.
    pub invited_by: Option<Inviter>,
}

/// An account that invited somebody.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Inviter {
    /// The account whose key invited.
    pub account_id: Number,
    /// The member whose key it was; null for a key of the account, and for members of accounts above.
    pub member_id: Option<Number>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::account::Lineage;
    use crate::domain::clock::Timestamp;
    use crate::domain::id::AccountId;

    #[test]
    fn what_is_kept_takes_the_place_of_nothing_that_decides() {
        let id = AccountId::new(2).unwrap();
        let kept = json!({
            "id": 1, "superAdmin": true, "accountType": "partner", "parentId": 7, "active": true,
            "permitted": 1, "email": "a@b.example", "servicePremium": true,
        });
        let account = Account {
            id,
            kind: AccountType::Reseller,
            name: "Example".into(),
            username: "example".into(),
            parent: AccountId::new(1),
            lineage: Lineage::default().with(AccountType::Reseller, id),
            active: false,
            created_at: Timestamp::from_millis(1_750_000_000_000),
            external_id: Some("x-1".into()),
            details: kept.as_object().unwrap().clone(),
        };
        let text = serde_json::to_string(&AccountRecord::of(&account)).unwrap();
        assert_eq!(text.matches("\"id\"").count(), 1, "each field once: {text}");
        let record = account_record(&account);
        for (name, expected) in [
            ("id", json!(2)),
            ("superAdmin", json!(false)),
            ("accountType", json!("reseller")),
            ("parentId", json!(1)),
            ("active", json!(false)),
            ("resellerStatus", json!("disabled")),
            ("resellerName", json!("Example")),
            ("externalAccountId", json!("x-1")),
            ("email", json!("a@b.example")),
            ("servicePremium", json!(true)),
            ("settings", json!({})),
            ("timestamp", json!(1_750_000_000_000_i64)),
        ] {
            assert_eq!(record[name], expected, "{name}");
        }
        assert_eq!((record.get("orgName"), record.get("permitted")), (None, None));
    }
}
