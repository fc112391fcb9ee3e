//! Lists of accounts, a bounded page of them at a time. v2 pages by number, from 0; `after` goes on
//! from the `next` of an answer, however many there are.
//!
//! v2 does not show its lists of resellers and organizations: they have their own nouns here, and
//! the figures of `searchAccounts` beside them.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::app::tenancy::record::AccountRecord;
use crate::domain::account::AccountType;
use crate::domain::clock::Timestamp;
use crate::domain::id::AccountId;
use crate::http::error::Problem;
use crate::http::request::call::Call;
use crate::http::state::Http;
use crate::http::typed::page;
use crate::http::typed::{Headed, successes};
use crate::store::{AccountFilter, AccountPage};
use crate::wire::{Moment, Named, Number, Word, mark, schema_of};

/// A request for a page of accounts: fields of its own, those that all have, and filters that it refuses.
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
            /// Whether page and pageSize count.
            pagination: Option<bool>,
            /// The number of the page, from 0.
            #[schemars(extend("minimum" = 0, "maximum" = "limits.max_walk"))]
            page: Option<u32>,
            /// The size of the page.
            #[schemars(extend("minimum" = 1, "maximum" = "limits.max_page"))]
            page_size: Option<u32>,
            /// Only items after this one: `next`, or the id of an item.
            after: Option<Named<AccountId>>,
            $($refused: Option<Refused>,)*
        }

        impl $name {
            fn asked(&self) -> Asked {
                let Self { active, pagination, page, page_size, after, .. } = self;
                Asked {
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
    /// Only accounts for which all that is given holds. A search looks at a bounded number of accounts, and
    /// totalAccounts counts those among them.
    #[expect(dead_code, reason = "filters that are refused hold nothing")]
    Search {
        /// The level of the accounts.
        account_type: Word<AccountType>,
        /// A part of the name.
        query_text: Option<String>,
        /// Made then or later.
        created_start: Option<Moment>,
        /// Made then or before, to the second.
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
        /// Nothing is ever cancelled here: false asks for all accounts.
        #[schemars(extend("enum" = [false], "x-expected" = "false: nothing is ever cancelled here"))]
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

/// A filter of v2 for which nothing is kept: one that was passed over in silence would show accounts
/// that were not asked for.
#[derive(Debug, Deserialize)]
struct Refused {}

schema_of!([] Refused, "Refused", json!({
    "type": "string", "deprecated": true, mark::KIND: mark::REFUSED,
    mark::EXPECTED: "left out: nothing is kept here that it could be compared with",
    "description": "A filter of v2 that is refused: nothing is kept here that it could be compared with.",
}));

/// What all of these ask.
struct Asked {
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
    /// How many accounts there are, as far as they were looked at.
    total_accounts: u64,
    /// The size of the page.
    page_size: u32,
    /// The number of the page, from 0.
    page_number: u32,
    /// Send it as `after` to get the next page; null on the last page.
    next: Option<Number>,
}

/// Lists of the accounts of one level: of each its request, its answer and the operation itself.
macro_rules! lists {
    ($($(#[$about:meta])* $asked:ident, $found:ident { $noun:ident }, $path:literal, $level:ident;)+) => { $(
        paged! { $(#[$about])* $asked {} }

        #[derive(Debug, Serialize, JsonSchema)]
        pub struct $found {
            /// In the order of their ids.
            $noun: Vec<AccountRecord>,
            #[serde(flatten)]
            figures: Figures,
        }

        successes! { $found = OK "accounts found", pages; }

        pub async fn $noun(
            http: Arc<Http>,
            call: Call,
            asked: $asked,
        ) -> Result<Headed<$found>, Problem> {
            let ($noun, figures) = find(&http, &call, AccountType::$level, asked.asked()).await?;
            let next = figures.next.map(|next| ("after", next));
            Ok(page::followed(&call, $path, next, $found { $noun, figures }))
        }
    )+ };
}

// Of a restricted member, only the Agents that it is restricted to.
lists! {
    /// Lists the resellers of a partner
    ListResellers, Resellers { resellers }, "/listResellers", Reseller;
    /// Lists the organizations of a reseller
    ListOrganizations, Organizations { organizations }, "/listOrganizations", Organization;
    /// Lists the Agents of an organization
    ListAccounts, Accounts { accounts }, "/listAccounts", Agent;
}

pub async fn search(
    http: Arc<Http>,
    call: Call,
    asked: Search,
) -> Result<Headed<Accounts>, Problem> {
    let whole = asked.asked();
    // v2 names the last second that is meant.
    let end = |Moment(at): Moment| {
        Timestamp::from_millis(at.seconds() * 1000).plus(Duration::from_secs(1))
    };
    let filter = AccountFilter {
        text: asked.query_text,
        since: asked.created_start.map(|Moment(at)| at),
        before: asked.created_end.map(end),
        external_id: asked.external_account_id,
        plan: asked.product_plan_id,
        billing: asked.billing_id,
        subscribed: asked.subscribed,
        ..whole.filter
    };
    let Word(kind) = asked.account_type;
    let (accounts, figures) = find(&http, &call, kind, Asked { filter, ..whole }).await?;
    let next = figures.next.map(|next| ("after", next));
    Ok(page::followed(&call, "/searchAccounts", next, Accounts { accounts, figures }))
}

/// A page. Without pagination it is the first and as long as may be.
async fn find(
    http: &Http,
    call: &Call,
    kind: AccountType,
    asked: Asked,
) -> Result<(Vec<AccountRecord>, Figures), Problem> {
    let limits = &http.rules.limits;
    let paged = asked.pagination.unwrap_or(asked.page.is_some() || asked.size.is_some());
    let size = asked.size.unwrap_or(limits.default_page);
    let (number, limit) =
        if paged { (asked.page.unwrap_or(0), size) } else { (0, limits.max_page) };
    // What is passed over is read, too: further on by `after`.
    let last = limits.max_walk / limit.max(1);
    if number > last {
        let detail = format!("page must be a whole number from 0 to {last}: go on by after");
        return Err(Problem::invalid(detail));
    }
    let page = AccountPage { after: asked.after, skip: number.saturating_mul(limit), limit };
    let scope = &call.target().scope;
    let found = call.tenancy(http).list_accounts(scope, kind, &asked.filter, page).await?;
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

#[derive(Debug, Serialize, JsonSchema)]
pub struct Found {
    account: AccountRecord,
}

successes! { Found = OK "account found"; }

/// The one in the target's scope.
pub async fn by_external_id(
    http: Arc<Http>,
    call: Call,
    asked: ByExternalId,
) -> Result<Found, Problem> {
    let (tenancy, scope) = (call.tenancy(&http), &call.target().scope);
    let account = tenancy.account_by_external_id(scope, &asked.external_account_id).await?;
    Ok(Found { account: AccountRecord::of(&account) })
}
