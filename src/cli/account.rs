//! `gatepost account create|update|delete|list|show|deactivate|activate`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Common, Failure, print_json, say};
use crate::app::tenancy::record::account_record;
use crate::app::tenancy::{NewNode, Tenancy};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::domain::id::AccountId;
use crate::store::AccountUpdate;

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
        /// What it is called elsewhere; nothing else below the same parent has the same
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Change the name of an account, or what it is called elsewhere
    Update {
        id: AccountId,
        #[arg(long, required_unless_present = "external_id")]
        name: Option<String>,
        /// What it is called elsewhere; empty takes it away
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Delete an account for good: its keys and its mail stop at once, its messages are erased in
    /// the background
    Delete {
        id: AccountId,
        /// All accounts below it, too
        #[arg(long)]
        cascade: bool,
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

impl AccountArgs {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Create { kind, parent, name, addresses, external_id, common } => {
                if kind != AccountType::Agent && !addresses.is_empty() {
                    return Err("only an Agent (--type account) has addresses".into());
                }
                let tenancy = common.store.tenancy().await?;
                let new = NewNode {
                    addresses: &addresses,
                    external_id: external_id.as_deref(),
                    ..NewNode::plain(kind, parent, &name)
                };
                let (account, _) = tenancy.create_node(&new).await?;
                show(&tenancy, &account, common.json).await?;
            }
            Action::Update { id, name, external_id, common } => {
                let tenancy = common.store.tenancy().await?;
                let external_id = external_id.map(|id| (!id.is_empty()).then_some(id));
                let update = AccountUpdate { name, external_id, ..AccountUpdate::default() };
                let account = tenancy.update_account(id, update).await?;
                show(&tenancy, &account, common.json).await?;
            }
            Action::Delete { id, cascade, common } => {
                let below = common.store.tenancy().await?.delete_account(id, cascade).await?;
                if common.json {
                    print_json(&json!({ "deleted": id.get(), "deletedBelow": below }))?;
                } else {
                    say!("account {id} is deleted, and {below} below it")?;
                }
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
    let mut record = account_record(account);
    let addresses: Vec<_> = addresses.iter().map(|(address, _)| address.to_string()).collect();
    if let Value::Object(fields) = &mut record {
        fields.insert("addresses".to_owned(), json!(addresses));
    }
    record
}
