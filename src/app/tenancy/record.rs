//! The record of an account: how it looks to readers of the API, to receivers of events and on the
//! command line. They all show it, so its wire shape has this one place.

use serde_json::{Map, Value, json};

use crate::domain::account::{Account, AccountType};

/// The fields of v2 that are known of the account, and the ones by which it has its place here,
/// which no kept field can stand in for. `timestamp` is in milliseconds, unlike elsewhere: so v2
/// has it for accounts. There is no `permittedAccountIds`: an account's own key is not restricted, and
/// absent says so. `active` is the account's own switch.
pub fn account_record(account: &Account) -> Map<String, Value> {
    let mut record = account.details.clone();
    for (name, otherwise) in [("servicePremium", json!(false)), ("settings", json!({}))] {
        record.entry(name).or_insert(otherwise);
    }
    let lineage = &account.lineage;
    let own = json!({
        "id": account.id.get(),
        "username": account.username,
        "accountType": account.kind.as_str(),
        "name": account.name,
        "accountName": account.name,
        "organizationId": lineage.organization.map(|id| id.get()),
        "resellerId": lineage.reseller.map(|id| id.get()),
        "partnerId": lineage.partner.map(|id| id.get()),
        "parentId": account.parent.map(|id| id.get()),
        "superAdmin": false,
        "active": account.active,
        "externalAccountId": account.external_id,
        "timestamp": account.created_at.millis(),
        "details": {
            "name": account.name,
            "createdAt": account.created_at.to_string(),
        },
    });
    if let Value::Object(own) = own {
        record.extend(own);
    }
    record.insert(account.kind.name_field().to_owned(), account.name.clone().into());
    if account.kind == AccountType::Reseller {
        let status = if account.active { "enabled" } else { "disabled" };
        record.insert("resellerStatus".to_owned(), status.into());
    }
    record
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
        let record = Value::Object(account_record(&account));
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
        assert_eq!(record.get("orgName"), None);
    }
}
