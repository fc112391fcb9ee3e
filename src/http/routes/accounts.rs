//! Creates and deletes accounts; `account_updates` changes them. Nouns and statuses are those of
//! v2: there too, `createReseller` creates an `organization`.
//!
//! No operation has a field for an account's owner, level or rights, so a body that names one is
//! refused. Fields that decide nothing are `details`.

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
use crate::http::typed::{Call, Problem, refused, successes, wrong};
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
    details: NewReseller,
}

pub async fn create_reseller(call: Call, request: CreateReseller) -> Result<ResellerMade, Problem> {
    let new = NewNode {
        active: request.reseller_status != Some(Word(ResellerStatus::Disabled)),
        ..NewNode::plain(AccountType::Reseller, call.account().id, &request.reseller_name)
    };
    let created = create(&call, new, request.details.0).await?;
    Ok(ResellerMade { organization: created.account })
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
    details: NewOrganization,
}

pub async fn create_organization(
    call: Call,
    request: CreateOrganization,
) -> Result<OrganizationMade, Problem> {
    let new = NewNode {
        external_id: request.external_account_id.as_deref(),
        first_agent: request.account_name.as_deref(),
        ..NewNode::plain(AccountType::Organization, call.account().id, &request.org_name)
    };
    let created = create(&call, new, request.details.0).await?;
    Ok(OrganizationMade { organization: created.account, account: created.first_agent })
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
    details: NewAgent,
}

pub async fn create_account(call: Call, request: CreateAccount) -> Result<AccountMade, Problem> {
    let name = request.account_name.as_deref().unwrap_or(NAMELESS);
    let new = NewNode {
        external_id: request.external_account_id.as_deref(),
        ..NewNode::plain(AccountType::Agent, call.account().id, name)
    };
    let created = create(&call, new, request.details.0).await?;
    Ok(AccountMade { account: created.account })
}

/// A new account, and its first Agent if it was asked for.
struct CreatedAccounts {
    account: AccountRecord,
    first_agent: Option<AccountRecord>,
}

/// Creates an account, with its details and perhaps its first Agent.
async fn create(
    call: &Call,
    mut new: NewNode<'_>,
    details: Details,
) -> Result<CreatedAccounts, Problem> {
    let integrations = details.get("integrations").cloned().unwrap_or_default();
    let integrations: Option<Vec<Integration>> =
        serde_json::from_value(integrations).map_err(|error| refused("integrations", &error))?;
    let integrations = integrations.unwrap_or_default();
    new.details = stored_details(details)?;
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
        call.http.use_cases.access.has(call.account(), Feature::Apps).await?;
        let (id, kept) = call.apps().for_new_account(&with_data).await?;
        (new.id, new.integrations) = (Some(id), kept);
    }
    let (made, agent) = call.tenancy().create_node(&new).await?;
    let first_agent = agent.as_ref().map(AccountRecord::of);
    Ok(CreatedAccounts { account: AccountRecord::of(&made), first_agent })
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

successes! {
    ResellerMade { organization: AccountRecord } = CREATED "reseller created";
    OrganizationMade {
        organization: AccountRecord,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "AccountRecord")]
        account: Option<AccountRecord>,
    } = CREATED "organization created";
    AccountMade { account: AccountRecord } = CREATED "account created";
    OrganizationDeleted: Gone = CREATED "organization deleted";
    AccountDeleted: Gone = CREATED "account deleted";
}

pub async fn delete_organization(
    call: Call,
    request: DeleteOrganization,
) -> Result<OrganizationDeleted, Problem> {
    let account = call.below(request.target_organization_id.0).await?;
    if account.kind == AccountType::Agent {
        return Err(wrong("targetOrganizationId", "is the id of an Agent: use deleteAccount"));
    }
    Ok(OrganizationDeleted(delete(&call, &account, request.cascade).await?))
}

pub async fn delete_account(call: Call, request: DeleteAccount) -> Result<AccountDeleted, Problem> {
    let account = call.below(request.target_account_id.0).await?;
    if account.kind != AccountType::Agent {
        return Err(wrong("targetAccountId", "is not the id of an Agent: use deleteOrganization"));
    }
    Ok(AccountDeleted(delete(&call, &account, request.cascade).await?))
}

/// Deletes an account, with all below it if `cascade` is true.
async fn delete(call: &Call, account: &Account, cascade: Option<bool>) -> Result<Gone, Problem> {
    let below = call.tenancy().delete_account(account.id, cascade.unwrap_or(false)).await?;
    Ok(Gone { deleted: account.id.into(), deleted_below: below })
}
