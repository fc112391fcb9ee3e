//! Lists of accounts, one bounded page at a time. v2 pages by number, from 0; `after` continues
//! from `next`, without a limit on the number of accounts.
//!
//! v2 does not show its lists of resellers and organizations: here they have their own nouns, and
//! the figures of `searchAccounts`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::tenancy::record::AccountRecord;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::http::typed::{Call, Problem, WithHeaders, page, successes, wrong};
use crate::store::{AccountFilter, AccountPage};
use crate::wire::{Moment, Named, Number, Word, mark, schema_of};

/// A request for a page of accounts: its own fields, the common ones, and filters that it refuses.
macro_rules! paged {
    ($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty,)*
    } $($refused:ident)*) => {
        $(#[$about])*
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$doc])* $field: $type,)*
            /// Only accounts that are active, or only those that are not.
            active: Option<bool>,
            /// Whether to use page and pageSize.
            pagination: Option<bool>,
            /// The number of the page, from 0.
            #[schemars(extend("minimum" = 0, "maximum" = "limits.max_walk"))]
            page: Option<u32>,
            /// The size of the page.
            #[schemars(extend("minimum" = 1, "maximum" = "limits.max_page"))]
            page_size: Option<u32>,
            /// Only accounts after this one: `next`, or the id of an account.
            after: Option<Named<AccountId>>,
            $($refused: Option<Refused>,)*
        }

        impl $name {
            fn query(&self) -> AccountQuery {
                let Self { active, pagination, page, page_size, after, .. } = self;
                AccountQuery {
                    filter: AccountFilter { active: *active, ..AccountFilter::default() },
                    pagination: *pagination,
                    page: *page,
                    size: *page_size,
                    after: after.map(|Named(id)| id),
                }
            }
        }
    };
}

paged! {
    /// Finds accounts of one level below an account
    ///
    /// Only accounts that match all filters. A search examines a bounded number of accounts, and
    /// totalAccounts counts the matches among them.
    #[expect(dead_code, reason = "filters that are refused hold nothing")]
    Search {
        /// The level of the accounts.
        account_type: Word<AccountType>,
        /// A part of the name.
        query_text: Option<String>,
        /// Only accounts created then or later.
        created_start: Option<Moment>,
        /// Only accounts created then or before, to the second.
        created_end: Option<Moment>,
        /// Only accounts with the premium service, or only those without.
        subscribed: Option<bool>,
        /// Only accounts with this plan.
        product_plan_id: Option<String>,
        /// Only accounts with this externalBillingId.
        billing_id: Option<String>,
        /// Only accounts with this externalAccountId.
        #[schemars(example = &"x-1")]
        external_account_id: Option<String>,
        /// Only false, for all accounts: nothing is ever cancelled here.
        #[schemars(extend("enum" = [false], "x-expected" = "false: accounts are never cancelled"))]
        canceled: Option<bool>,
    }
    canceled_start canceled_end onboarding_complete product_plan_term billing_subscription_id
    current_billing_period_voice_minutes_min current_billing_period_voice_minutes_max
    previous_billing_period_voice_minutes_min previous_billing_period_voice_minutes_max
    current_billing_period_messages_min current_billing_period_messages_max
    previous_billing_period_messages_min previous_billing_period_messages_max
    all_time_voice_minutes_min all_time_voice_minutes_max all_time_messages_min
    all_time_messages_max
}

/// A filter of v2 on data that is not stored here. Ignoring it would show accounts that were not
/// asked for, so it is refused.
#[derive(Debug, Deserialize)]
struct Refused {}

schema_of!([] Refused, "Refused", json!({
    "type": "string", "deprecated": true, mark::KIND: mark::REFUSED,
    mark::EXPECTED: "left out: this server stores no such data",
    "description": "A filter of v2 that is refused, because this server stores no such data.",
}));

/// Common parts of these requests.
struct AccountQuery {
    filter: AccountFilter,
    pagination: Option<bool>,
    page: Option<u32>,
    size: Option<u32>,
    after: Option<AccountId>,
}

/// The place of a page in a list.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Figures {
    /// How many accounts there are, among those examined.
    total_accounts: u64,
    /// The size of the page.
    page_size: u32,
    /// The number of the page, from 0.
    page_number: u32,
    /// Send it as `after` to get the next page; null on the last page.
    next: Option<Number>,
}

impl Figures {
    /// Parameters of the next page, which has the same size.
    fn link(&self) -> Option<Vec<(&'static str, Option<String>)>> {
        let size = ("pageSize", Some(self.page_size.to_string()));
        self.next.map(|next| vec![size, ("after", Some(next.to_string()))])
    }
}

/// Lists of the accounts of one level: request, answer and handler of each.
macro_rules! lists {
    ($($(#[$about:meta])* $request:ident, $found:ident { $noun:ident }, $level:ident;)+) => { $(
        paged! { $(#[$about])* $request {} }

        successes! {
            $found {
                /// Ordered by id.
                $noun: Vec<AccountRecord>,
                #[serde(flatten)]
                figures: Figures,
            } = OK "accounts found", pages;
        }

        pub async fn $noun(call: Call, request: $request) -> Result<WithHeaders<$found>, Problem> {
            let ($noun, figures) = find(&call, AccountType::$level, request.query()).await?;
            Ok(page::followed_with(&call, figures.link(), $found { $noun, figures }))
        }
    )+ };
}

// A restricted member sees only its Agents.
lists! {
    /// Lists the resellers of a partner
    ListResellers, Resellers { resellers }, Reseller;
    /// Lists the organizations of a reseller
    ListOrganizations, Organizations { organizations }, Organization;
    /// Lists the Agents of an organization
    ListAccounts, Accounts { accounts }, Agent;
}

pub async fn search(call: Call, request: Search) -> Result<WithHeaders<Accounts>, Problem> {
    let whole = request.query();
    // The range of v2 includes its last second.
    let end = |Moment(at): Moment| {
        Timestamp::from_millis(at.seconds() * 1000).plus(Duration::from_secs(1))
    };
    let filter = AccountFilter {
        text: request.query_text,
        since: request.created_start.map(|Moment(at)| at),
        before: request.created_end.map(end),
        external_id: request.external_account_id,
        plan: request.product_plan_id,
        billing: request.billing_id,
        subscribed: request.subscribed,
        ..whole.filter
    };
    let Word(kind) = request.account_type;
    let (accounts, figures) = find(&call, kind, AccountQuery { filter, ..whole }).await?;
    Ok(page::followed_with(&call, figures.link(), Accounts { accounts, figures }))
}

/// Returns a page. Without pagination, the first page of the maximum size.
async fn find(
    call: &Call,
    kind: AccountType,
    request: AccountQuery,
) -> Result<(Vec<AccountRecord>, Figures), Problem> {
    let limits = &call.http.rules.limits;
    let paged = request.pagination.unwrap_or(request.page.is_some() || request.size.is_some());
    let size = request.size.unwrap_or(limits.default_page);
    let (number, limit) =
        if paged { (request.page.unwrap_or(0), size) } else { (0, limits.max_page) };
    // Skipping an account reads it, too: beyond the limit, `after` continues.
    let last = limits.max_walk / limit.max(1);
    if number > last {
        let detail =
            format!("must be a whole number from 0 to {last}: for later accounts, use after");
        return Err(wrong("page", detail));
    }
    let page = AccountPage { after: request.after, skip: number.saturating_mul(limit), limit };
    let scope = &call.target.scope;
    let found = call.tenancy().list_accounts(scope, kind, &request.filter, page).await?;
    let figures = Figures {
        total_accounts: found.total,
        page_size: limit,
        page_number: number,
        next: found.next.map(Number::from),
    };
    Ok((found.accounts.iter().map(AccountRecord::of).collect(), figures))
}

/// Finds an account by its name in your application
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ByExternalId {
    /// The name of the account in your application.
    #[schemars(extend("minLength" = 1), example = &"x-1")]
    external_account_id: String,
}

successes! { AccountsAnswer { account: AccountRecord } = OK "account found"; }

/// Returns the account of this name in the target's scope.
pub async fn by_external_id(call: Call, request: ByExternalId) -> Result<AccountsAnswer, Problem> {
    let (tenancy, scope) = (call.tenancy(), &call.target.scope);
    let account = tenancy.account_by_external_id(scope, &request.external_account_id).await?;
    Ok(AccountsAnswer { account: AccountRecord::of(&account) })
}
