//! `whoami` and `list_inboxes`: who the key is, and what it reaches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::{Answer, Call};
use super::shapes;
use crate::domain::account::AccountType;
use crate::http::error::Problem;
use crate::http::in_process::Asked;

/// Inboxes of one page: each needs a look-up of its addresses.
const USUAL: u32 = 20;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WhoAmI {}

/// The owner of the key.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    /// The account that the key belongs to.
    account: i64,
    /// Its name.
    name: String,
    /// Its level: partner, reseller, organization, or account for an Agent, which has one inbox.
    account_type: &'static str,
    /// The person whose key it is; null for a key of the account itself.
    member: Option<String>,
    /// The only inboxes that the person may use; null for all below the account.
    restricted_to: Option<Vec<i64>>,
    /// Whether tools may change anything: the operator or the key lets them.
    changes: bool,
    /// The version of the server.
    version: &'static str,
}

pub(super) async fn who_am_i(call: Call, _: WhoAmI) -> Result<Answer<Identity>, Problem> {
    let caller = &call.api.caller;
    let permitted =
        |agents: &[crate::domain::id::AccountId]| agents.iter().map(|agent| agent.get()).collect();
    Answer::plain(Identity {
        account: caller.account.id.get(),
        name: caller.account.name.clone(),
        account_type: caller.account.kind.as_str(),
        member: caller.member.as_ref().map(|member| member.email.to_string()),
        restricted_to: caller.permitted().map(permitted),
        changes: call.changes,
        version: env!("CARGO_PKG_VERSION"),
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListInboxes {
    /// `next` of the page before.
    after: Option<i64>,
    /// How many inboxes at most.
    #[schemars(range(min = 1, max = USUAL))]
    limit: Option<u32>,
}

/// Inboxes in reach.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Inboxes {
    /// Ordered by id.
    inboxes: Vec<Inbox>,
    /// Send it as `after` to get the next page; null on the last page.
    next: Option<i64>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Inbox {
    /// Send it as `inbox` of the other tools.
    id: i64,
    /// The name.
    name: String,
    /// The handle.
    username: String,
    /// Whether the inbox takes mail.
    active: bool,
    /// Its addresses.
    addresses: Vec<String>,
}

pub(super) async fn list(call: Call, request: ListInboxes) -> Result<Answer<Inboxes>, Problem> {
    let limit = call.rows(request.limit, USUAL, USUAL)?;
    let (accounts, next) = if call.api.caller.account.kind == AccountType::Agent {
        (vec![itself(&call).await?], None)
    } else {
        let after = request.after.map(|id| id.to_string()).unwrap_or_default();
        let asked = call.on("searchAccounts", None).with("accountType", "account");
        let asked = asked.with("pageSize", limit).with("after", after);
        let found: shapes::Accounts = call.api.ask(asked).await?;
        (found.accounts, found.next)
    };
    let mut inboxes = Vec::with_capacity(accounts.len());
    for account in accounts {
        let addresses = addresses(&call, account.id).await?;
        let shapes::Account { id, name, username, active } = account;
        inboxes.push(Inbox { id, name, username, active, addresses });
    }
    Answer::plain(Inboxes { inboxes, next })
}

/// The account of an Agent's key.
async fn itself(call: &Call) -> Result<shapes::Account, Problem> {
    call.api.ask(Asked::of("getAccount").on(call.home())).await
}

async fn addresses(call: &Call, inbox: i64) -> Result<Vec<String>, Problem> {
    let held: shapes::Addresses = call.api.ask(call.on("listAddresses", Some(inbox))).await?;
    Ok(held.addresses.into_iter().map(|one| one.address).collect())
}
