//! Accounts: making them, changing them, deleting them. Nouns and statuses as v2 has them: what
//! `createReseller` makes is an `organization` there, too.
//!
//! Whose an account is, of which level it is and what it may are no fields of any operation here,
//! so that a body that names them is refused by name.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::body::Fields;
use super::super::call::Call;
use super::super::error::{Code, Problem};
use super::super::state::Http;
use super::super::target::account_of_json;
use crate::app::tenancy::NewNode;
use crate::app::tenancy::details;
use crate::app::tenancy::record::account_record;
use crate::domain::account::{Account, AccountType, Details};
use crate::domain::app::AppRef;
use crate::domain::feature::Feature;
use crate::store::AccountUpdate;

/// The fields of `POST /createReseller`.
pub(in super::super) const RESELLER: &[&str] = &[
    "resellerName",
    "resellerStatus",
    "email",
    "offeredProductPlanId",
    "productPlanId",
    "hipaaEnabledDefault",
];

/// The fields of `POST /createOrganization`.
pub(in super::super) const ORGANIZATION: &[&str] = &[
    "orgName",
    "accountName",
    "externalAccountId",
    "email",
    "orgAccountType",
    "productPlanId",
    "offeredProductPlanId",
    "externalBillingId",
    "hipaaSetting",
    "numberingProviders",
    "servicePremium",
    "smsEnabled",
    "smsBrandId",
    "smsCampaignId",
    "integrations",
];

/// The fields of `POST /createAccount`.
pub(in super::super) const AGENT: &[&str] =
    &["accountName", "externalAccountId", "externalBillingId", "integrations"];

/// The fields of `POST /account`: what an account says of itself, and whether it works, which is said
/// from above: v2 has no other operation that changes a reseller.
pub(in super::super) const ITSELF: &[&str] = &[
    "active",
    "name",
    "partnerName",
    "resellerName",
    "orgName",
    "accountName",
    "firstName",
    "lastName",
    "description",
    "image",
    "businessName",
    "businessAddress",
    "email",
    "settings",
];

/// The fields of `POST /updateOrganization`.
pub(in super::super) const ORGANIZATION_UPDATE: &[&str] = &[
    "active",
    "productPlanId",
    "offeredProductPlanId",
    "email",
    "orgName",
    "smsEnabled",
    "smsBrandId",
    "smsCampaignId",
    "servicePremium",
    "externalAccountId",
    "externalBillingId",
    "hipaaSetting",
    "orgAccountType",
];

/// The fields of `POST /updateAccount`.
pub(in super::super) const AGENT_UPDATE: &[&str] =
    &["active", "accountName", "externalAccountId", "externalBillingId"];

/// The name of an Agent that is made without one: v2 does not ask for it.
const NAMELESS: &str = "Agent";

/// Fields that are no part of what is only kept.
const DECIDING: [&str; 9] = [
    "name",
    "partnerName",
    "resellerName",
    "orgName",
    "accountName",
    "active",
    "externalAccountId",
    "resellerStatus",
    "cascade",
];

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

/// A reseller below the target, a partner; `resellerStatus: "disabled"` makes one that is inactive.
pub(in super::super) async fn create_reseller(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let body = call.body();
    let active = match body.text("resellerStatus")? {
        None | Some("enabled") => true,
        Some("disabled") => false,
        Some(_) => {
            return Err(Problem::invalid("field resellerStatus must be one of enabled, disabled"));
        }
    };
    let name = body.required_text("resellerName")?;
    let new = NewNode {
        active,
        details: kept(body, RESELLER)?,
        ..NewNode::plain(AccountType::Reseller, call.account().id, name)
    };
    create(&http, &call, &new, "organization").await
}

/// An organization below the target, a reseller, and its first Agent if `accountName` says so.
pub(in super::super) async fn create_organization(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let body = call.body();
    let name = body.required_text("orgName")?;
    let new = NewNode {
        external_id: body.text("externalAccountId")?,
        first_agent: body.text("accountName")?,
        details: kept(body, ORGANIZATION)?,
        ..NewNode::plain(AccountType::Organization, call.account().id, name)
    };
    create(&http, &call, &new, "organization").await
}

/// An Agent below the target, an organization.
pub(in super::super) async fn create_account(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let body = call.body();
    let name = body.text("accountName")?.unwrap_or(NAMELESS);
    let new = NewNode {
        external_id: body.text("externalAccountId")?,
        details: kept(body, AGENT)?,
        ..NewNode::plain(AccountType::Agent, call.account().id, name)
    };
    create(&http, &call, &new, "account").await
}

async fn create(
    http: &Http,
    call: &Call,
    new: &NewNode<'_>,
    noun: &str,
) -> Result<Response, Problem> {
    let mut new = new.clone();
    let integrations = integrations(call.body())?;
    if !integrations.is_empty() {
        // It has what its parent has.
        http.use_cases.access.has(call.account(), Feature::Apps).await?;
        let (id, kept) = call.apps(http).for_new_account(&integrations).await?;
        (new.id, new.integrations) = (Some(id), kept);
    }
    let (made, agent) = call.tenancy(http).create_node(&new).await?;
    let mut fields = Map::new();
    fields.insert(noun.to_owned(), account_record(&made).into());
    if let Some(agent) = agent {
        fields.insert("account".to_owned(), account_record(&agent).into());
    }
    Ok(success(StatusCode::CREATED, &format!("{} created", made.kind.as_str()), fields.into()))
}

/// An app, and the data that is kept for it.
type Integration<'b> = (AppRef, &'b Map<String, Value>);

/// The data that the new account keeps for its integrations. (The shape of the list was checked with
/// what is kept of the account, in which the data is masked.)
fn integrations(body: &Fields) -> Result<Vec<Integration<'_>>, Problem> {
    let list = body.get("integrations").and_then(Value::as_array).into_iter().flatten();
    let one = |item| {
        let text = |name: &str| Value::get(item, name).and_then(Value::as_str).unwrap_or_default();
        let app = AppRef::new(text("appId"), text("appVersion"));
        let data = item.get("appData").and_then(Value::as_object);
        app.zip(data).ok_or_else(|| {
            Problem::invalid(
                "field integrations: an appId has 1 to 64, an appVersion 1 to 32 letters, digits, \
                 '-', '_' and '.', a letter or a digit first",
            )
        })
    };
    list.map(one).collect()
}

/// What the target says of itself; the answer is that of `GET /account`.
pub(in super::super) async fn update_itself(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    update(&http, &call, ITSELF, account_record).await
}

/// An organization, as it stands with whoever is above it.
pub(in super::super) async fn update_organization(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    update(&http, &call, ORGANIZATION_UPDATE, of_organization).await
}

/// An Agent, as it stands with whoever is above it.
pub(in super::super) async fn update_account(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    update(&http, &call, AGENT_UPDATE, |account| noun("account", account)).await
}

fn of_organization(account: &Account) -> Map<String, Value> {
    noun("organization", account)
}

fn noun(noun: &str, account: &Account) -> Map<String, Value> {
    Map::from_iter([(noun.to_owned(), account_record(account).into())])
}

/// All fields are changed or none is, so `failedSettings`, which v2 has beside `updatedSettings`,
/// is always empty: what cannot be changed is an error that names it.
async fn update(
    http: &Http,
    call: &Call,
    known: &[&'static str],
    shape: impl Fn(&Account) -> Map<String, Value>,
) -> Result<Response, Problem> {
    let (body, account) = (call.body(), call.account());
    let named: Vec<&str> = known.iter().copied().filter(|name| body.get(name).is_some()).collect();
    if named.is_empty() {
        let detail = format!("nothing is to be changed: send one of {}", known.join(", "));
        return Err(Problem::invalid(detail));
    }
    // A member who is restricted to some Agents is not above them (contract §4).
    let theirs = FROM_ABOVE.iter().find(|name| body.get(name).is_some());
    if let Some(name) = theirs
        .filter(|_| call.caller().account.id == account.id || call.caller().permitted().is_some())
    {
        let detail = format!("{name} is set by an account above this one: use a key of that one");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    let update = AccountUpdate {
        name: own_name(body, account.kind, known)?,
        external_id: match body.get("externalAccountId") {
            Some(Value::Null) => Some(None),
            _ => body.text("externalAccountId")?.map(|id| Some(id.to_owned())),
        },
        active: body.flag("active")?,
        details: kept(body, known)?,
    };
    let account = call.tenancy(http).update_account(account.id, update).await?;
    let mut fields = shape(&account);
    fields.insert("updatedSettings".to_owned(), json!(named));
    fields.insert("failedSettings".to_owned(), json!([]));
    Ok(success(StatusCode::OK, "account updated", fields.into()))
}

/// The new name, by the fields of the account's own level.
fn own_name(
    body: &Fields,
    level: AccountType,
    known: &[&'static str],
) -> Result<Option<String>, Problem> {
    let mut found: Option<&str> = None;
    let names = ["name", "partnerName", "resellerName", "orgName", "accountName"];
    for field in names.into_iter().filter(|name| known.contains(name)) {
        let Some(name) = body.text(field)? else { continue };
        if field != "name" && field != level.name_field() {
            return Err(Problem::invalid(format!(
                "field {field} names no account of type {level}: send {}",
                level.name_field()
            )));
        }
        if found.is_some_and(|other| other != name) {
            let detail = format!("name and {field} differ: send the new name once");
            return Err(Problem::invalid(detail));
        }
        found = Some(name);
    }
    Ok(found.map(ToOwned::to_owned))
}

/// The fields that are checked and kept.
fn kept(body: &Fields, known: &[&'static str]) -> Result<Details, Problem> {
    let mut kept = Details::new();
    for name in known.iter().filter(|name| !DECIDING.contains(name)) {
        if let Some(value) = body.get(name) {
            let value = details::checked(name, value).map_err(Problem::invalid)?;
            kept.insert((*name).to_owned(), value);
        }
    }
    Ok(kept)
}

/// Deletes what v2 calls an organization: an organization, or a reseller.
pub(in super::super) async fn delete_organization(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let account = named(&http, &call, "targetOrganizationId").await?;
    if account.kind == AccountType::Agent {
        let detail = "targetOrganizationId is the id of an Agent: use deleteAccount";
        return Err(Problem::invalid(detail));
    }
    delete(&http, &call, &account, "organization deleted").await
}

/// Deletes an Agent.
pub(in super::super) async fn delete_account(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let account = named(&http, &call, "targetAccountId").await?;
    if account.kind != AccountType::Agent {
        let detail = "targetAccountId is not the id of an Agent: use deleteOrganization";
        return Err(Problem::invalid(detail));
    }
    delete(&http, &call, &account, "account deleted").await
}

/// The account that the body names; it lies below the target.
async fn named(http: &Http, call: &Call, field: &str) -> Result<Account, Problem> {
    let Some(value) = call.body().get(field) else {
        let detail = format!("field {field} is missing: send the id of what is to be deleted");
        return Err(Problem::invalid(detail));
    };
    call.below(http, account_of_json(field, value)?).await
}

/// 201, as v2 declares it.
async fn delete(
    http: &Http,
    call: &Call,
    account: &Account,
    message: &str,
) -> Result<Response, Problem> {
    let cascade = call.body().flag("cascade")?.unwrap_or(false);
    let below = call.tenancy(http).delete_account(account.id, cascade).await?;
    let fields = json!({ "deleted": account.id.get(), "deletedBelow": below });
    Ok(success(StatusCode::CREATED, message, fields))
}
