//! The accounts below this one, and the addresses of an Agent.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::filters;
use super::frame::{Frame, Section};
use super::visit::{Answer, Visit};
use crate::domain::clock::Timestamp;
use crate::http::error::Problem;
use crate::http::in_process::Asked;
use crate::http::in_process::shapes::Records;

/// Accounts of a page; fewer Agents, about each of which three operations are asked.
const ROWS: u32 = 100;
const AGENTS: u32 = 20;

/// A page of accounts below one.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Below {
    #[serde(alias = "resellers", alias = "organizations")]
    accounts: Vec<Account>,
    #[serde(default)]
    total_accounts: u64,
    next: Option<i64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    id: i64,
    name: String,
    #[serde(default)]
    username: String,
    account_type: String,
    active: bool,
    parent_id: Option<i64>,
    /// Set for an Agent in a list.
    #[serde(skip)]
    mail: Option<AgentsMail>,
}

/// The mail of an Agent, as far as the caller may see it.
struct AgentsMail {
    addresses: Vec<String>,
    mode: String,
    /// When the newest message came in, whatever became of it.
    last: Option<String>,
}

#[derive(Deserialize)]
struct Policy {
    policy: Mode,
}

#[derive(Deserialize)]
struct Mode {
    mode: String,
}

#[derive(Deserialize)]
struct Addresses {
    addresses: Vec<Address>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Address {
    address: String,
    catch_all: bool,
}

#[derive(Template)]
#[template(path = "accounts.html", config = "src/console/templates/askama.toml")]
struct AccountsPage {
    frame: Frame,
    account: Account,
    level: Option<&'static Level>,
    below: Below,
    addresses: Vec<Address>,
    words: String,
    now: Timestamp,
}

impl AgentsMail {
    async fn of(visit: &Visit, agent: i64) -> Self {
        let addresses = visit.ask::<Addresses>(Asked::of("listAddresses").on(agent)).await;
        let mode = visit.ask::<Policy>(Asked::of("getInboundPolicy").on(agent)).await;
        let newest = Asked::of("listIntakeRecords").on(agent).with("limit", 1);
        let newest = visit.ask::<Records>(newest).await.ok();
        let last = newest.and_then(|records| Some(records.intake.into_iter().next()?.date));
        let addresses = addresses.map_or_else(|_| Vec::new(), |found| found.addresses);
        Self {
            addresses: addresses.into_iter().map(|one| one.address).collect(),
            mode: mode.map(|found| found.policy.mode).unwrap_or_default(),
            last,
        }
    }

    fn ago(&self, now: &Timestamp) -> String {
        self.last.as_deref().map(|last| filters::ago(last, *now)).unwrap_or_default()
    }
}

/// The accounts directly below a level, with the operations about them.
struct Level {
    of: &'static str,
    /// The noun for an account below.
    noun: &'static str,
    kind: &'static str,
    list: &'static str,
    create: &'static str,
    /// The field of a new account's name.
    name: &'static str,
    update: &'static str,
}

const LEVELS: &[Level] = &[
    Level {
        of: "partner",
        noun: "reseller",
        kind: "reseller",
        list: "listResellers",
        create: "createReseller",
        name: "resellerName",
        update: "updateOwnAccount",
    },
    Level {
        of: "reseller",
        noun: "organization",
        kind: "organization",
        list: "listOrganizations",
        create: "createOrganization",
        name: "orgName",
        update: "updateOrganization",
    },
    Level {
        of: "organization",
        noun: "Agent",
        kind: "account",
        list: "listAccounts",
        create: "createAccount",
        name: "accountName",
        update: "updateAccount",
    },
];

fn level_of(kind: &str) -> Option<&'static Level> {
    LEVELS.iter().find(|level| level.of == kind)
}

/// Shows the account with what is directly below.
pub(super) async fn show(visit: Visit) -> Result<Answer, Problem> {
    let account: Account = visit.ask(visit.on("getAccount")).await?;
    let level = level_of(&account.account_type);
    let words = visit.query.get("words").to_owned();
    let lists_agents = level.is_some_and(|level| level.kind == "account");
    let rows = if lists_agents { AGENTS } else { ROWS };
    let mut below = match level {
        None => Below::default(),
        Some(level) if words.is_empty() => {
            let asked = visit.on(level.list).with("pageSize", rows);
            visit.ask(asked.with("after", visit.query.get("after"))).await?
        }
        Some(level) => {
            let asked = visit.on("searchAccounts").with("accountType", level.kind);
            let asked = asked.with("queryText", &words).with("pageSize", rows);
            visit.ask(asked.with("after", visit.query.get("after"))).await?
        }
    };
    if lists_agents {
        for account in &mut below.accounts {
            account.mail = Some(AgentsMail::of(&visit, account.id).await);
        }
    }
    let addresses = match level {
        None => visit.ask::<Addresses>(visit.on("listAddresses")).await?.addresses,
        Some(_) => Vec::new(),
    };
    let frame = visit.frame(Section::Accounts).await?;
    let now = visit.console.http.mint.clock().now();
    Answer::page(&AccountsPage { frame, account, level, below, addresses, words, now })
}

/// Carries out one of the buttons.
pub(super) async fn change(visit: Visit) -> Result<Answer, Problem> {
    let account: Account = visit.ask(visit.on("getAccount")).await?;
    let sent = |name| visit.form.get(name);
    let level = level_of(&account.account_type);
    match (sent("do"), level) {
        ("create", Some(level)) => {
            let body = json!({ level.name: sent("name") });
            visit.carry_out(visit.on(level.create).sends(body)).await?;
            Ok(visit.see("/accounts", "created"))
        }
        (switch @ ("activate" | "deactivate"), Some(level)) => {
            let id = child(&visit)?;
            let body = json!({ "active": switch == "activate" });
            visit.ask::<Value>(Asked::of(level.update).on(id).sends(body)).await?;
            Ok(visit.see("/accounts", "switched"))
        }
        ("delete", Some(level)) => {
            let id = child(&visit)?;
            let (operation, field) = match level.kind {
                "account" => ("deleteAccount", "targetAccountId"),
                _ => ("deleteOrganization", "targetOrganizationId"),
            };
            let body = json!({ field: id, "cascade": sent("cascade") == "yes" });
            visit.ask::<Value>(visit.on(operation).sends(body)).await?;
            Ok(visit.see("/accounts", "deleted"))
        }
        ("address", None) => {
            let body = json!({ "address": sent("address"), "catchAll": sent("catchAll") == "yes" });
            visit.carry_out(visit.on("addAddress").sends(body)).await?;
            Ok(visit.see("/accounts", "address"))
        }
        ("release", None) => {
            let asked = visit.on("removeAddress").with("address", sent("address"));
            visit.ask::<Value>(asked).await?;
            Ok(visit.see("/accounts", "released"))
        }
        _ => Err(Problem::invalid("this button is not known here: open the page again")),
    }
}

fn child(visit: &Visit) -> Result<i64, Problem> {
    visit.form.get("id").parse().map_err(|_| Problem::not_found("account"))
}
