//! Changing accounts: what each says of itself, and what is said from above.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::call::Call;
use super::super::error::{Code, Problem};
use super::super::state::Http;
use super::super::typed::{Request, names_of, successes};
use super::accounts::kept;
use crate::app::tenancy::details::asked;
use crate::app::tenancy::record::AccountRecord;
use crate::domain::account::{AccountType, Details};
use crate::store::AccountUpdate;

/// What an account does not say of itself: how whoever is above it calls it, whether it works, and
/// what was agreed with it. Its key could otherwise find out how its neighbours are called, lock
/// itself out, or give itself another plan.
const FROM_ABOVE: [&str; 8] = [
    "active",
    "externalAccountId",
    "productPlanId",
    "offeredProductPlanId",
    "servicePremium",
    "externalBillingId",
    "hipaaSetting",
    "orgAccountType",
];

/// What was changed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Settings {
    /// The fields that were changed.
    updated_settings: Vec<&'static str>,
    /// Always empty: what cannot be changed is an error that names it.
    #[schemars(extend("maxItems" = 0, "examples" = [[]]))]
    failed_settings: Vec<String>,
}

/// Changes what an account says of itself
///
/// All fields are changed, or none. What is agreed with an account above, and `active`, are changed by a key of
/// that account.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    extend("minProperties" = 1),
    example = json!({ "name": "Example", "email": "boss@good.example" })
)]
#[expect(dead_code, reason = "what is only kept is read by its name")]
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
    first_name: Option<asked::FirstName>,
    last_name: Option<asked::LastName>,
    description: Option<asked::Description>,
    image: Option<asked::Image>,
    business_name: Option<asked::BusinessName>,
    business_address: Option<asked::BusinessAddress>,
    email: Option<asked::Email>,
    settings: Option<asked::Settings>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ItselfUpdated {
    #[serde(flatten)]
    account: AccountRecord,
    #[serde(flatten)]
    settings: Settings,
}

/// The answer is that of `GET /account`.
pub async fn update_itself(
    http: Arc<Http>,
    call: Call,
    asked: UpdateItself,
) -> Result<ItselfUpdated, Problem> {
    let UpdateItself { active, name, partner_name, reseller_name, org_name, account_name, .. } =
        asked;
    let names = [
        ("name", name),
        ("partnerName", partner_name),
        ("resellerName", reseller_name),
        ("orgName", org_name),
        ("accountName", account_name),
    ];
    let name = own_name(names, call.account().kind)?;
    let change = AccountUpdate { name, active, ..AccountUpdate::default() };
    let (account, settings) = update::<UpdateItself>(&http, &call, change).await?;
    Ok(ItselfUpdated { account, settings })
}

/// Changes an organization, from above
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
#[expect(dead_code, reason = "what is only kept is read by its name")]
pub struct UpdateOrganization {
    /// Whether the organization is active.
    active: Option<bool>,
    product_plan_id: Option<asked::ProductPlan>,
    offered_product_plan_id: Option<asked::OfferedProductPlan>,
    email: Option<asked::Email>,
    /// The new name.
    #[schemars(example = &"Example")]
    org_name: Option<String>,
    sms_enabled: Option<asked::SmsEnabled>,
    sms_brand_id: Option<asked::SmsBrand>,
    sms_campaign_id: Option<asked::SmsCampaign>,
    service_premium: Option<asked::ServicePremium>,
    /// The name of the organization in your application; null takes the name away.
    #[serde(default, deserialize_with = "crate::wire::sent")]
    #[schemars(extend("x-null" = true), example = &"x-1")]
    external_account_id: Option<Option<String>>,
    external_billing_id: Option<asked::ExternalBilling>,
    hipaa_setting: Option<asked::HipaaSetting>,
    org_account_type: Option<asked::OrgAccountType>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct OrganizationUpdated {
    organization: AccountRecord,
    #[serde(flatten)]
    settings: Settings,
}

pub async fn update_organization(
    http: Arc<Http>,
    call: Call,
    asked: UpdateOrganization,
) -> Result<OrganizationUpdated, Problem> {
    let UpdateOrganization { active, org_name, external_account_id, .. } = asked;
    let names = [("orgName", org_name)];
    let name = own_name(names, call.account().kind)?;
    let external_id = external_account_id;
    let change = AccountUpdate { name, external_id, active, details: Details::new() };
    let (organization, settings) = update::<UpdateOrganization>(&http, &call, change).await?;
    Ok(OrganizationUpdated { organization, settings })
}

/// Changes an Agent, from above
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 1))]
#[expect(dead_code, reason = "what is only kept is read by its name")]
pub struct UpdateAccount {
    /// Whether the Agent is active.
    active: Option<bool>,
    /// The new name.
    #[schemars(example = &"Support")]
    account_name: Option<String>,
    /// The name of the Agent in your application; null takes the name away.
    #[serde(default, deserialize_with = "crate::wire::sent")]
    #[schemars(extend("x-null" = true), example = &"x-1")]
    external_account_id: Option<Option<String>>,
    external_billing_id: Option<asked::ExternalBilling>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AccountUpdated {
    account: AccountRecord,
    #[serde(flatten)]
    settings: Settings,
}

pub async fn update_account(
    http: Arc<Http>,
    call: Call,
    asked: UpdateAccount,
) -> Result<AccountUpdated, Problem> {
    let UpdateAccount { active, account_name, external_account_id, .. } = asked;
    let name = own_name([("accountName", account_name)], call.account().kind)?;
    let external_id = external_account_id;
    let change = AccountUpdate { name, external_id, active, details: Details::new() };
    let (account, settings) = update::<UpdateAccount>(&http, &call, change).await?;
    Ok(AccountUpdated { account, settings })
}

successes! {
    ItselfUpdated = OK "account updated";
    OrganizationUpdated = OK "account updated";
    AccountUpdated = OK "account updated";
}

/// All fields are changed or none is, so `failedSettings`, which v2 has beside `updatedSettings`,
/// is always empty: what cannot be changed is an error that names it.
async fn update<R: Request>(
    http: &Http,
    call: &Call,
    change: AccountUpdate,
) -> Result<(AccountRecord, Settings), Problem> {
    let (body, account, known) = (call.body(), call.account(), names_of::<R>());
    let is_sent = |name: &&&str| body.get(name).is_some();
    let named: Vec<&str> = known.iter().filter(is_sent).copied().collect();
    if named.is_empty() {
        let detail = format!("nothing is to be changed: send one of {}", known.join(", "));
        return Err(Problem::invalid(detail));
    }
    // A member who is restricted to some Agents is not above them (contract §4).
    let is_above = call.caller().account.id != account.id && call.caller().permitted().is_none();
    if let Some(name) = FROM_ABOVE.iter().find(is_sent).filter(|_| !is_above) {
        let detail = format!("{name} is set by an account above this one: use a key of that one");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let change = AccountUpdate { details: kept(call)?, ..change };
    let account = call.tenancy(http).update_account(account.id, change).await?;
    let settings = Settings { updated_settings: named, failed_settings: Vec::new() };
    Ok((AccountRecord::of(&account), settings))
}

/// The new name, by the fields of the account's own level.
fn own_name<const N: usize>(
    names: [(&str, Option<String>); N],
    level: AccountType,
) -> Result<Option<String>, Problem> {
    let mut found: Option<String> = None;
    for (field, name) in names {
        let Some(name) = name else { continue };
        if field != "name" && field != level.name_field() {
            return Err(Problem::invalid(format!(
                "field {field} names no account of type {level}: send {}",
                level.name_field()
            )));
        }
        if found.as_ref().is_some_and(|other| *other != name) {
            let detail = format!("name and {field} differ: send the new name once");
            return Err(Problem::invalid(detail));
        }
        found = Some(name);
    }
    Ok(found)
}
