//! Lists of accounts, a bounded page of them at a time. v2 pages by number, from 0; `after` goes on
//! from the `next` of an answer, however many there are.
//!
//! v2 does not show its lists of resellers and organizations: they have their own nouns here, and
//! the figures of `searchAccounts` beside them.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::query::Query;
use super::super::state::Http;
use crate::app::tenancy::record::account_record;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::store::{AccountFilter, AccountPage};

/// The query of a list.
pub(in super::super) const LIST: [&str; 5] = ["pagination", "page", "pageSize", "active", "after"];

/// The query of `GET /searchAccounts`: what is kept of accounts, and [`NOT_KEPT`].
pub(in super::super) const SEARCH: [&str; 31] = [
    "accountType",
    "queryText",
    "createdStart",
    "createdEnd",
    "subscribed",
    "active",
    "productPlanId",
    "billingId",
    "externalAccountId",
    "pagination",
    "page",
    "pageSize",
    "after",
    "canceledStart",
    "canceledEnd",
    "canceled",
    "onboardingComplete",
    "productPlanTerm",
    "billingSubscriptionId",
    "currentBillingPeriodVoiceMinutesMin",
    "currentBillingPeriodVoiceMinutesMax",
    "previousBillingPeriodVoiceMinutesMin",
    "previousBillingPeriodVoiceMinutesMax",
    "currentBillingPeriodMessagesMin",
    "currentBillingPeriodMessagesMax",
    "previousBillingPeriodMessagesMin",
    "previousBillingPeriodMessagesMax",
    "allTimeVoiceMinutesMin",
    "allTimeVoiceMinutesMax",
    "allTimeMessagesMin",
    "allTimeMessagesMax",
];

/// Where the filters begin for which nothing is kept: one that was passed over in silence would
/// show accounts that were not asked for.
const NOT_KEPT: usize = 13;

/// The resellers of the target, a partner.
pub(in super::super) async fn resellers(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    list(&http, &call, AccountType::Reseller, "resellers").await
}

/// The organizations of the target, a reseller.
pub(in super::super) async fn organizations(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    list(&http, &call, AccountType::Organization, "organizations").await
}

/// The Agents of the target, an organization; a restricted member's only, if the caller is one.
pub(in super::super) async fn accounts(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    list(&http, &call, AccountType::Agent, "accounts").await
}

async fn list(
    http: &Http,
    call: &Call,
    kind: AccountType,
    noun: &str,
) -> Result<Response, Problem> {
    let filter = AccountFilter { active: call.query().flag("active")?, ..Default::default() };
    answer(http, call, kind, &filter, noun).await
}

/// The accounts of one level below the target for which all that is given holds.
pub(in super::super) async fn search(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let query = call.query();
    // Nothing is ever cancelled here, so that `canceled=false` asks for all.
    let all = |name: &str| name == "canceled" && query.get(name) == Some("false");
    let mut not_kept = SEARCH.iter().skip(NOT_KEPT);
    let not_kept = not_kept.find(|name| query.get(name).is_some() && !all(name));
    if let Some(name) = not_kept {
        let detail =
            format!("nothing is kept here that {name} could be compared with: leave it out");
        return Err(Problem::invalid(detail));
    }
    let kinds = "accountType must be one of partner, reseller, organization, account";
    let kind = query.get("accountType").and_then(|kind| kind.parse::<AccountType>().ok());
    let kind = kind.ok_or_else(|| Problem::invalid(kinds))?;
    let text = |name: &str| query.get(name).map(ToOwned::to_owned);
    let filter = AccountFilter {
        active: query.flag("active")?,
        text: text("queryText"),
        since: seconds(query, "createdStart")?,
        // v2 names the last second that is meant.
        before: seconds(query, "createdEnd")?
            .map(|end| end.plus(std::time::Duration::from_secs(1))),
        external_id: text("externalAccountId"),
        plan: text("productPlanId"),
        billing: text("billingId"),
        subscribed: query.flag("subscribed")?,
    };
    answer(&http, &call, kind, &filter, "accounts").await
}

async fn answer(
    http: &Http,
    call: &Call,
    kind: AccountType,
    filter: &AccountFilter,
    noun: &str,
) -> Result<Response, Problem> {
    let (number, page) = page(http, call.query())?;
    let scope = &call.target().scope;
    let found = call.tenancy(http).list_accounts(scope, kind, filter, page).await?;
    let records: Vec<Value> =
        found.accounts.iter().map(|account| account_record(account).into()).collect();
    let fields = json!({
        noun: records,
        "totalAccounts": found.total,
        "pageSize": page.limit,
        "pageNumber": number,
        "next": found.next.map(|next| next.get()),
    });
    Ok(success(StatusCode::OK, "accounts found", fields))
}

/// The number of the page, and where it lies. Without pagination it is the first and as long as may
/// be.
fn page(http: &Http, query: &Query) -> Result<(u32, AccountPage), Problem> {
    let limits = &http.rules.limits;
    let named = query.get("page").is_some() || query.get("pageSize").is_some();
    let paged = query.flag("pagination")?.unwrap_or(named);
    let (most, usual) = (limits.max_page, limits.default_page);
    let size = query.number("pageSize", 1..=most)?;
    let size = size.unwrap_or(if paged { usual } else { most });
    // What is passed over is read, too: further on by `after`.
    let last = if paged { limits.max_walk / size } else { limits.max_walk };
    let place = query.number("page", 0..=last)?.unwrap_or(0);
    let (place, limit) = if paged { (place, size) } else { (0, most) };
    let after = query.get("after").map(str::parse).transpose();
    let after = after.map_err(|error| Problem::invalid(format!("after: {error}")))?;
    Ok((place, AccountPage { after, skip: place.saturating_mul(limit), limit }))
}

/// Unix seconds.
fn seconds(query: &Query, name: &str) -> Result<Option<Timestamp>, Problem> {
    const LAST: i64 = 253_402_300_799;
    let Some(text) = query.get(name) else { return Ok(None) };
    let seconds = text.parse().ok().filter(|seconds| (0..=LAST).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        Problem::invalid(format!("{name} must be a time in Unix seconds, a whole number"))
    })?;
    Ok(Some(Timestamp::from_millis(seconds * 1000)))
}

/// The account in the target's scope that is called so by whoever is above it.
pub(in super::super) async fn by_external_id(
    http: Arc<Http>,
    call: Call,
) -> Result<Response, Problem> {
    let wanted = call.query().get("externalAccountId").filter(|id| !id.is_empty());
    let wanted =
        wanted.ok_or_else(|| Problem::invalid("query parameter externalAccountId is missing"))?;
    let tenancy = call.tenancy(&http);
    let account = tenancy.account_by_external_id(&call.target().scope, wanted).await?;
    let fields = json!({ "account": account_record(&account) });
    Ok(success(StatusCode::OK, "account found", fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_before_what_is_not() {
        assert_eq!(SEARCH[NOT_KEPT - 1], "after");
        assert_eq!(SEARCH[NOT_KEPT], "canceledStart");
        assert_eq!(SEARCH.len() - NOT_KEPT, 18);
    }
}
