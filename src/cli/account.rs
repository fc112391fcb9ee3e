//! `gatepost account create|list|show|deactivate|activate`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Failure, StoreArgs, print_json, say};
use crate::app::tenancy::Tenancy;
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::id::AccountId;

#[derive(Args, Debug)]
pub(super) struct AccountArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create an account below its parent: reseller below partner, organization below reseller,
    /// account (an Agent) below organization
    Create {
        /// reseller, organization or account
        #[arg(long = "type", value_name = "TYPE")]
        kind: AccountType,
        /// The account directly above
        #[arg(long, value_name = "ID")]
        parent: AccountId,
        #[arg(long)]
        name: String,
        /// An inbound address of the Agent; a domain that nobody owns is claimed for its
        /// organization
        #[arg(long = "address", value_name = "LOCAL@DOMAIN", value_parser = Address::parse)]
        addresses: Vec<Address>,
        #[command(flatten)]
        common: Common,
    },
    /// List all accounts, oldest first
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Show one account
    Show {
        id: AccountId,
        #[command(flatten)]
        common: Common,
    },
    /// Switch an account off: its keys and its mail stop at once, and those of all below it
    Deactivate {
        id: AccountId,
        #[command(flatten)]
        common: Common,
    },
    /// Switch an account on again
    Activate {
        id: AccountId,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Debug)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl AccountArgs {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Create { kind, parent, name, addresses, common } => {
                if kind != AccountType::Agent && !addresses.is_empty() {
                    return Err("only an Agent (--type account) has addresses".into());
                }
                let tenancy = common.store.tenancy().await?;
                let account = tenancy.create_account(kind, parent, &name, &addresses).await?;
                show(&tenancy, &account, common.json).await?;
            }
            Action::List { common } => {
                let tenancy = common.store.tenancy().await?;
                let accounts = tenancy.accounts().await?;
                if common.json {
                    let mut rows: Vec<Value> = Vec::with_capacity(accounts.len());
                    for account in &accounts {
                        rows.push(as_json(account, &tenancy.addresses(account.id).await?));
                    }
                    print_json(&Value::from(rows))?;
                } else {
                    for account in &accounts {
                        say!("{}", line(account))?;
                    }
                }
            }
            Action::Show { id, common } => {
                let tenancy = common.store.tenancy().await?;
                let account = tenancy.account(id).await?;
                show(&tenancy, &account, common.json).await?;
            }
            Action::Deactivate { id, common } => switch(id, false, &common).await?,
            Action::Activate { id, common } => switch(id, true, &common).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn switch(id: AccountId, active: bool, common: &Common) -> Result<(), Failure> {
    let tenancy = common.store.tenancy().await?;
    let account = tenancy.set_active(id, active).await?;
    show(&tenancy, &account, common.json).await
}

async fn show(tenancy: &Tenancy, account: &Account, json: bool) -> Result<(), Failure> {
    let addresses = tenancy.addresses(account.id).await?;
    if json {
        return print_json(&as_json(account, &addresses));
    }
    say!("{}", line(account))?;
    for (address, catch_all) in &addresses {
        say!("           {address}{}", if *catch_all { " (catch-all)" } else { "" })?;
    }
    Ok(())
}

fn line(account: &Account) -> String {
    let state = if account.active { "" } else { "  inactive" };
    let kind = account.kind.as_str();
    format!("{:<9}  {kind:<12}  {}{state}", account.id.get(), account.name)
}

fn as_json(account: &Account, addresses: &[(Address, bool)]) -> Value {
    let id = |id: Option<AccountId>| id.map(AccountId::get);
    json!({
        "id": account.id.get(),
        "accountType": account.kind.as_str(),
        "name": account.name,
        "username": account.username,
        "parentId": id(account.parent),
        "partnerId": id(account.lineage.partner),
        "resellerId": id(account.lineage.reseller),
        "organizationId": id(account.lineage.organization),
        "active": account.active,
        "addresses": addresses.iter().map(|(address, _)| address.to_string()).collect::<Vec<_>>(),
    })
}
