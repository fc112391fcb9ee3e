//! Creates and deletes accounts; `account_updates` changes them. Nouns and statuses are those of
//! v2: there too, `createReseller` creates an `organization`.
//!
//! No operation has a field for an account's owner, level or rights, so a body that names one is
//! refused. Fields that decide nothing are `details`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::app::tenancy::NewNode;
use crate::app::tenancy::details::{NewAgent, NewOrganization, NewReseller, stored_details};
use crate::app::tenancy::record::AccountRecord;
use crate::domain::account::{Account, AccountType, Details, ResellerStatus};
use crate::domain::app::AppRef;
use crate::domain::feature::Feature;
use crate::domain::id::AccountId;
use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::state::Http;
use crate::http::typed::{refused, successes, wrong};
use crate::wire::{Named, Number, Word};

/// Name of an Agent created without one: v2 does not require it.
const NAMELESS: &str = "Agent";

/// An app of a new account.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Integration {
    app_id: String,
    app_version: String,
    app_data: Map<String, Value>,
}

/// Creates a reseller below a partner
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreateReseller {
    /// The name of the reseller.
    #[schemars(example = &"Example")]
    reseller_name: String,
    /// Whether the reseller is active.
    reseller_status: Option<Word<ResellerStatus>>,
    #[serde(flatten)]
    told: NewReseller,
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
    let (organization, _) = create(&http, &call, new, asked.told.0).await?;
    Ok(ResellerMade { organization })
}

/// Creates an organization below a reseller
///
/// With accountName, its first Agent is created, too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
    #[serde(flatten)]
    told: NewOrganization,
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
    let (organization, account) = create(&http, &call, new, asked.told.0).await?;
    Ok(OrganizationMade { organization, account })
}

/// Creates an Agent below an organization
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("minProperties" = 0))]
pub struct CreateAccount {
    /// The name of the Agent.
    #[schemars(example = &"Support")]
    account_name: Option<String>,
    /// The name of the Agent in your application.
    #[schemars(example = &"x-1")]
    external_account_id: Option<String>,
    #[serde(flatten)]
    told: NewAgent,
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
    let (account, _) = create(&http, &call, new, asked.told.0).await?;
    Ok(AccountMade { account })
}

/// Creates an account, with its details and perhaps its first Agent.
async fn create(
    http: &Http,
    call: &Call,
    mut new: NewNode<'_>,
    told: Details,
) -> Result<(AccountRecord, Option<AccountRecord>), Problem> {
    let integrations = told.get("integrations").cloned().unwrap_or_default();
    let integrations: Option<Vec<Integration>> =
        serde_json::from_value(integrations).map_err(|error| refused("integrations", &error))?;
    let integrations = integrations.unwrap_or_default();
    new.details = stored_details(told)?;
    new.details.retain(|_, value| !value.is_null());
    if !integrations.is_empty() {
        let app = |one: &Integration| AppRef::new(&one.app_id, &one.app_version);
        let with_data = integrations.iter().map(|one| Some((app(one)?, &one.app_data)));
        let with_data = with_data.collect::<Option<Vec<_>>>().ok_or_else(|| {
            refused(
                "integrations",
                &"an appId has 1 to 64, an appVersion 1 to 32 letters, digits, '-', \
                 '_' and '.', a letter or a digit first",
            )
        })?;
        // A new account has the features of its parent.
        http.use_cases.access.has(call.account(), Feature::Apps).await?;
        let (id, kept) = call.apps(http).for_new_account(&with_data).await?;
        (new.id, new.integrations) = (Some(id), kept);
    }
    let (made, agent) = call.tenancy(http).create_node(&new).await?;
    Ok((AccountRecord::of(&made), agent.as_ref().map(AccountRecord::of)))
}

/// Deletes an organization or a reseller
///
/// The account can no longer be read after the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOrganization {
    /// The organization or the reseller to delete.
    #[schemars(extend("x-place" = "body"))]
    target_organization_id: Named<AccountId>,
    /// Whether to delete all accounts below, too; without it they are a conflict.
    #[schemars(extend("x-place" = "body"))]
    cascade: Option<bool>,
}

/// Deletes an Agent
///
/// The account can no longer be read after the answer.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteAccount {
    /// The Agent to delete.
    #[schemars(extend("x-place" = "body"))]
    target_account_id: Named<AccountId>,
    /// Whether to delete all accounts below, too; an Agent has none.
    #[schemars(extend("x-place" = "body"))]
    cascade: Option<bool>,
}

/// The deleted accounts.
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
        return Err(wrong("targetOrganizationId", "is the id of an Agent: use deleteAccount"));
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
        return Err(wrong("targetAccountId", "is not the id of an Agent: use deleteOrganization"));
    }
    Ok(AccountDeleted(delete(&http, &call, &account, asked.cascade).await?))
}

/// Deletes an account, with all below it if `cascade` is true.
async fn delete(
    http: &Http,
    call: &Call,
    account: &Account,
    cascade: Option<bool>,
) -> Result<Gone, Problem> {
    let below = call.tenancy(http).delete_account(account.id, cascade.unwrap_or(false)).await?;
    Ok(Gone { deleted: account.id.into(), deleted_below: below })
}
