//! Changes of accounts: their own settings, and those set from above.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::tenancy::details::{OfAgent, OfOrganization, Own, stored_details};
use crate::app::tenancy::record::AccountRecord;
use crate::domain::account::AccountType;
use crate::http::error::{Code, Problem};
use crate::http::typed::{Call, successes, wrong};
use crate::store::AccountUpdate;

/// Settings made only by an account above: its name there, whether it is active, and its contract.
/// With its own key an account could otherwise find out the names of its neighbours, lock itself
/// out, or give itself another plan.
const FROM_ABOVE: &[&str] = &[
    "active",
    "externalAccountId",
    "productPlanId",
    "offeredProductPlanId",
    "servicePremium",
    "externalBillingId",
    "hipaaSetting",
    "orgAccountType",
];

/// The changed settings.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Settings {
    /// The fields that were changed.
    updated_settings: Vec<String>,
    /// Always empty: a field that cannot be changed is an error.
    #[schemars(extend("maxItems" = 0, "examples" = [[]]))]
    failed_settings: Vec<String>,
}

/// Changes the settings of an account
///
/// All fields are changed, or none. The contract with an account above, and `active`, are changed
/// by a key of that account.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    extend("minProperties" = 1),
    example = json!({ "name": "Example", "email": "boss@good.example" })
)]
pub struct UpdateItself {
    /// Whether the account is active.
    active: Option<bool>,
    /// The new name.
    #[schemars(example = &"Example")]
    name: Option<String>,
    /// The new name of a partner.
    partner_name: Option<String>,
    /// The new name of a reseller.
    reseller_name: Option<String>,
    /// The new name of an organization.
    org_name: Option<String>,
    /// The new name of an Agent.
    account_name: Option<String>,
    #[serde(flatten)]
    details: Own,
}

/// Answers like `GET /account`.
pub async fn update_itself(call: Call, request: UpdateItself) -> Result<ItselfUpdated, Problem> {
    let UpdateItself { active, name, details: Own(details), .. } = request;
    let names = [
        ("name", name),
        ("partnerName", request.partner_name),
        ("resellerName", request.reseller_name),
        ("orgName", request.org_name),
        ("accountName", request.account_name),
    ];
    let change = AccountUpdate { active, details, ..AccountUpdate::default() };
    let (account, settings) = update(&call, &names, change).await?;
    Ok(ItselfUpdated { account, settings })
}

/// Changes an organization, from above
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct UpdateOrganization {
    /// Whether the organization is active.
    active: Option<bool>,
    /// The new name.
    #[schemars(example = &"Example")]
    org_name: Option<String>,
    /// The name of the organization in your application; null removes it.
    #[serde(default, deserialize_with = "crate::wire::sent")]
    #[schemars(extend("x-null" = true), example = &"x-1")]
    external_account_id: Option<Option<String>>,
    #[serde(flatten)]
    details: OfOrganization,
}

pub async fn update_organization(
    call: Call,
    request: UpdateOrganization,
) -> Result<OrganizationUpdated, Problem> {
    let (active, external_id) = (request.active, request.external_account_id);
    let change = AccountUpdate { name: None, external_id, active, details: request.details.0 };
    let names = [("orgName", request.org_name)];
    let (organization, settings) = update(&call, &names, change).await?;
    Ok(OrganizationUpdated { organization, settings })
}

/// Changes an Agent, from above
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
pub struct UpdateAccount {
    /// Whether the Agent is active.
    active: Option<bool>,
    /// The new name.
    #[schemars(example = &"Support")]
    account_name: Option<String>,
    /// The name of the Agent in your application; null removes it.
    #[serde(default, deserialize_with = "crate::wire::sent")]
    #[schemars(extend("x-null" = true), example = &"x-1")]
    external_account_id: Option<Option<String>>,
    #[serde(flatten)]
    details: OfAgent,
}

pub async fn update_account(call: Call, request: UpdateAccount) -> Result<AccountUpdated, Problem> {
    let (active, external_id) = (request.active, request.external_account_id);
    let change = AccountUpdate { name: None, external_id, active, details: request.details.0 };
    let names = [("accountName", request.account_name)];
    let (account, settings) = update(&call, &names, change).await?;
    Ok(AccountUpdated { account, settings })
}

successes! {
    ItselfUpdated {
        #[serde(flatten)]
        account: AccountRecord,
        #[serde(flatten)]
        settings: Settings,
    } = OK "account updated";
    OrganizationUpdated {
        organization: AccountRecord,
        #[serde(flatten)]
        settings: Settings,
    } = OK "account updated";
    AccountUpdated {
        account: AccountRecord,
        #[serde(flatten)]
        settings: Settings,
    } = OK "account updated";
}

/// Changes all fields or none. So `failedSettings`, which v2 has beside `updatedSettings`, is
/// always empty: a field that cannot be changed is an error.
async fn update(
    call: &Call,
    names: &[(&str, Option<String>)],
    change: AccountUpdate,
) -> Result<(AccountRecord, Settings), Problem> {
    let account = call.account();
    let others =
        [("active", change.active.is_some()), ("externalAccountId", change.external_id.is_some())];
    let named = names.iter().map(|(field, name)| (*field, name.is_some())).chain(others);
    let sent = named.filter(|(_, is_sent)| *is_sent).map(|(field, _)| field.to_owned());
    let sent: Vec<String> = sent.chain(change.details.keys().cloned()).collect();
    if sent.is_empty() {
        return Err(Problem::invalid("the request changes nothing: send at least one field"));
    }
    // A member restricted to some Agents is not above them (contract §4).
    let is_above = call.caller.account.id != account.id && call.caller.permitted().is_none();
    let is_from_above = |name: &&&str| sent.iter().any(|one| one == **name);
    if let Some(name) = FROM_ABOVE.iter().find(is_from_above).filter(|_| !is_above) {
        let detail =
            format!("{name} is set by an account above this one: use a key of that account");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let name = new_name(names, account.kind)?;
    let change = AccountUpdate { name, details: stored_details(change.details)?, ..change };
    let account = call.tenancy().update_account(account.id, change).await?;
    let settings = Settings { updated_settings: sent, failed_settings: Vec::new() };
    Ok((AccountRecord::of(&account), settings))
}

/// The new name, from the field of the account's level.
fn new_name(
    names: &[(&str, Option<String>)],
    level: AccountType,
) -> Result<Option<String>, Problem> {
    let mut found: Option<String> = None;
    for (field, name) in names {
        let Some(name) = name else { continue };
        if *field != "name" && *field != level.name_field() {
            let own = level.name_field();
            return Err(wrong(field, format!("names no account of type {level}: send {own}")));
        }
        if found.as_ref().is_some_and(|other| other != name) {
            return Err(wrong(field, "differs from name: send the new name once"));
        }
        found = Some(name.clone());
    }
    Ok(found)
}
