//! Accounts: making them and deleting them; `account_updates` changes them. Nouns and statuses as v2 has
//! them: what `createReseller` makes is an `organization` there, too.
//!
//! Whose an account is, of which level it is and what it may are no fields of any operation here,
//! so that a body that names them is refused by name. Fields that decide nothing (`details`) are read by
//! their names from the body, which was held against the types here.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::super::typed::successes;
use crate::app::tenancy::NewNode;
use crate::app::tenancy::details::{self, asked};
use crate::app::tenancy::record::AccountRecord;
use crate::domain::account::{Account, AccountType, Details, ResellerStatus};
use crate::domain::app::AppRef;
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;
use crate::wire::{Named, Number, Word};

/// The name of an Agent that is made without one: v2 does not ask for it.
const NAMELESS: &str = "Agent";

/// An app of a new account.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(inline)]
struct Integration {
    /// The app.
    app_id: String,
    /// The version of the app.
    app_version: String,
    /// The settings of the app; answers show only that there are any.
    app_data: Map<String, Value>,
}

/// Makes a reseller below a partner
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "what is only kept is read by its name")]
pub struct CreateReseller {
    /// The name of the reseller.
    #[schemars(example = &"Example")]
    reseller_name: String,
    /// Whether the reseller is active.
    reseller_status: Option<Word<ResellerStatus>>,
    email: Option<asked::Email>,
    offered_product_plan_id: Option<asked::OfferedProductPlan>,
    product_plan_id: Option<asked::ProductPlan>,
    hipaa_enabled_default: Option<asked::HipaaEnabledDefault>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ResellerMade {
    organization: AccountRecord,
}

pub async fn create_reseller(
    http: Arc<Http>,
    call: Call,
    asked: CreateReseller,
) -> Result<ResellerMade, Problem> {
    let new = NewNode {
        active: asked.reseller_status != Some(Word(ResellerStatus::Disabled)),
        ..NewNode::plain(AccountType::Reseller, call.account().id, &asked.reseller_name)
    };
    let (organization, _) = create(&http, &call, new, &[]).await?;
    Ok(ResellerMade { organization })
}

/// Makes an organization below a reseller
///
/// With accountName, its first Agent is made, too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "what is only kept is read by its name")]
pub struct CreateOrganization {
    /// The name of the organization.
    #[schemars(example = &"Example")]
    org_name: String,
    /// The name of the first Agent.
    #[schemars(example = &"Support")]
    account_name: Option<String>,
    /// The name of the organization in your application.
    #[schemars(example = &"x-1")]
    external_account_id: Option<String>,
    email: Option<asked::Email>,
    org_account_type: Option<asked::OrgAccountType>,
    product_plan_id: Option<asked::ProductPlan>,
    offered_product_plan_id: Option<asked::OfferedProductPlan>,
    external_billing_id: Option<asked::ExternalBilling>,
    hipaa_setting: Option<asked::HipaaSetting>,
    numbering_providers: Option<asked::NumberingProviders>,
    service_premium: Option<asked::ServicePremium>,
    sms_enabled: Option<asked::SmsEnabled>,
    sms_brand_id: Option<asked::SmsBrand>,
    sms_campaign_id: Option<asked::SmsCampaign>,
    /// Apps of the organization.
    #[schemars(extend("x-null" = true))]
    integrations: Option<Vec<Integration>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct OrganizationMade {
    organization: AccountRecord,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "AccountRecord")]
    account: Option<AccountRecord>,
}

pub async fn create_organization(
    http: Arc<Http>,
    call: Call,
    asked: CreateOrganization,
) -> Result<OrganizationMade, Problem> {
    let new = NewNode {
        external_id: asked.external_account_id.as_deref(),
        first_agent: asked.account_name.as_deref(),
        ..NewNode::plain(AccountType::Organization, call.account().id, &asked.org_name)
    };
    let integrations = asked.integrations.as_deref().unwrap_or_default();
    let (organization, account) = create(&http, &call, new, integrations).await?;
    Ok(OrganizationMade { organization, account })
}

/// Makes an Agent below an organization
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 0))]
#[expect(dead_code, reason = "what is only kept is read by its name")]
pub struct CreateAccount {
    /// The name of the Agent.
    #[schemars(example = &"Support")]
    account_name: Option<String>,
    /// The name of the Agent in your application.
    #[schemars(example = &"x-1")]
    external_account_id: Option<String>,
    external_billing_id: Option<asked::ExternalBilling>,
    /// Apps of the Agent.
    #[schemars(extend("x-null" = true))]
    integrations: Option<Vec<Integration>>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AccountMade {
    account: AccountRecord,
}

pub async fn create_account(
    http: Arc<Http>,
    call: Call,
    asked: CreateAccount,
) -> Result<AccountMade, Problem> {
    let name = asked.account_name.as_deref().unwrap_or(NAMELESS);
    let new = NewNode {
        external_id: asked.external_account_id.as_deref(),
        ..NewNode::plain(AccountType::Agent, call.account().id, name)
    };
    let integrations = asked.integrations.as_deref().unwrap_or_default();
    let (account, _) = create(&http, &call, new, integrations).await?;
    Ok(AccountMade { account })
}

/// Makes an account, and its first Agent if there is to be one; with what the body says beside.
async fn create(
    http: &Http,
    call: &Call,
    mut new: NewNode<'_>,
    integrations: &[Integration],
) -> Result<(AccountRecord, Option<AccountRecord>), Problem> {
    new.details = kept(call)?;
    new.details.retain(|_, value| !value.is_null());
    if !integrations.is_empty() {
        let app = |one: &Integration| AppRef::new(&one.app_id, &one.app_version);
        let with_data = integrations.iter().map(|one| Some((app(one)?, &one.app_data)));
        let with_data = with_data.collect::<Option<Vec<_>>>().ok_or_else(|| {
            Problem::invalid(
                "integrations: an appId has 1 to 64, an appVersion 1 to 32 letters, digits, '-', \
                 '_' and '.', a letter or a digit first",
            )
        })?;
        // It has what its parent has.
        http.use_cases.access.has(call.account(), Feature::Apps).await?;
        let (id, kept) = call.apps(http).for_new_account(&with_data).await?;
        (new.id, new.integrations) = (Some(id), kept);
    }
    let (made, agent) = call.tenancy(http).create_node(&new).await?;
    Ok((AccountRecord::of(&made), agent.as_ref().map(AccountRecord::of)))
}

/// What the body says that is only kept.
pub(super) fn kept(call: &Call) -> Result<Details, Problem> {
    details::kept(call.body().pairs()).map_err(Problem::invalid)
}

/// Deletes an organization or a reseller
///
/// Nothing of it can be read from the answer on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOrganization {
    /// The organization or the reseller to delete.
    #[schemars(extend("x-place" = "body"))]
    target_organization_id: Named<AccountId>,
    /// Whether all accounts below are deleted, too; otherwise they are a conflict.
    #[schemars(extend("x-place" = "body"))]
    cascade: Option<bool>,
}

/// Deletes an Agent
///
/// Nothing of it can be read from the answer on.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteAccount {
    /// The Agent to delete.
    #[schemars(extend("x-place" = "body"))]
    target_account_id: Named<AccountId>,
    /// Whether all accounts below are deleted, too; an Agent has none.
    #[schemars(extend("x-place" = "body"))]
    cascade: Option<bool>,
}

/// What is gone.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Gone {
    /// The account that was deleted.
    deleted: Number,
    /// How many accounts below it were deleted with it.
    deleted_below: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct OrganizationDeleted(Gone);

#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct AccountDeleted(Gone);

successes! {
    ResellerMade = CREATED "reseller created";
    OrganizationMade = CREATED "organization created";
    AccountMade = CREATED "account created";
    OrganizationDeleted = CREATED "organization deleted";
    AccountDeleted = CREATED "account deleted";
}

pub async fn delete_organization(
    http: Arc<Http>,
    call: Call,
    asked: DeleteOrganization,
) -> Result<OrganizationDeleted, Problem> {
    let account = call.below(&http, asked.target_organization_id.0).await?;
    if account.kind == AccountType::Agent {
        let detail = "targetOrganizationId is the id of an Agent: use deleteAccount";
        return Err(Problem::invalid(detail));
    }
    Ok(OrganizationDeleted(delete(&http, &call, &account, asked.cascade).await?))
}

pub async fn delete_account(
    http: Arc<Http>,
    call: Call,
    asked: DeleteAccount,
) -> Result<AccountDeleted, Problem> {
    let account = call.below(&http, asked.target_account_id.0).await?;
    if account.kind != AccountType::Agent {
        let detail = "targetAccountId is not the id of an Agent: use deleteOrganization";
        return Err(Problem::invalid(detail));
    }
    Ok(AccountDeleted(delete(&http, &call, &account, asked.cascade).await?))
}

/// With all below it, if that is said.
async fn delete(
    http: &Http,
    call: &Call,
    account: &Account,
    cascade: Option<bool>,
) -> Result<Gone, Problem> {
    let below = call.tenancy(http).delete_account(account.id, cascade.unwrap_or(false)).await?;
    Ok(Gone { deleted: account.id.into(), deleted_below: below })
}
