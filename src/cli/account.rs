//! `gatepost account create|update|delete|list|tree|show|deactivate|activate`.

mod tree;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::app::tenancy::record::account_record;
use crate::app::tenancy::{NewNode, Tenancy};
use crate::domain::account::{Account, AccountType};
use crate::domain::address::Address;
use crate::store::{AccountUpdate, HeldAddress};

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
        parent: AccountName,
        #[arg(long)]
        name: String,
        /// An inbound address of the Agent; a domain that nobody owns is claimed for its
        /// organization
        #[arg(long = "address", value_name = "LOCAL@DOMAIN", value_parser = Address::parse)]
        addresses: Vec<Address>,
        /// Its id in another system; unique below the same parent
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
    },
    /// Change the name or the external id of an account
    Update {
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
        #[arg(long, required_unless_present = "external_id")]
        name: Option<String>,
        /// Its id in another system; empty removes it
        #[arg(long, value_name = "ID")]
        external_id: Option<String>,
    },
    /// Delete an account for good: its keys and its mail stop at once, its messages are erased in
    /// the background
    Delete {
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
        /// All accounts below it, too
        #[arg(long)]
        cascade: bool,
    },
    /// List all accounts, oldest first
    List,
    /// Show accounts below each other, with the addresses of Agents
    #[command(after_help = "Prints the records with those below each in `accounts` with --json.")]
    Tree {
        /// This account and all below it [default: all accounts]
        account: Option<AccountName>,
    },
    /// Show one account
    Show {
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
    },
    /// Switch an account off: its keys and its mail stop at once, and those of all below it
    Deactivate {
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
    },
    /// Switch an account on again
    Activate {
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
    },
}

impl AccountArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Create { kind, parent, name, addresses, external_id } => {
                if kind != AccountType::Agent && !addresses.is_empty() {
                    return Err("only an Agent (--type account) has addresses".into());
                }
                let tenancy = global.tenancy().await?;
                let new = NewNode {
                    addresses: &addresses,
                    external_id: external_id.as_deref(),
                    ..NewNode::plain(kind, parent.id(&tenancy).await?, &name)
                };
                let (account, _) = tenancy.create_node(&new).await?;
                show(&tenancy, &account, global.json).await?;
            }
            Action::Update { account, name, external_id } => {
                let tenancy = global.tenancy().await?;
                let external_id = external_id.map(|id| (!id.is_empty()).then_some(id));
                let update = AccountUpdate { name, external_id, ..AccountUpdate::default() };
                let account = tenancy.update_account(account.id(&tenancy).await?, update).await?;
                show(&tenancy, &account, global.json).await?;
            }
            Action::Delete { account, cascade } => {
                let tenancy = global.tenancy().await?;
                let id = account.id(&tenancy).await?;
                let below = tenancy.delete_account(id, cascade).await?;
                if global.json {
                    print_json(&json!({ "deleted": id.get(), "deletedBelow": below }))?;
                } else {
                    say!("deleted account {id}, and {below} below it")?;
                }
            }
            Action::List => {
                let tenancy = global.tenancy().await?;
                let accounts = tenancy.accounts().await?;
                if global.json {
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
            Action::Tree { account } => tree::show(account.as_ref(), global).await?,
            Action::Show { account } => {
                let tenancy = global.tenancy().await?;
                let account = account.account(&tenancy).await?;
                show(&tenancy, &account, global.json).await?;
            }
            Action::Deactivate { account } => switch(&account, false, global).await?,
            Action::Activate { account } => switch(&account, true, global).await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn switch(name: &AccountName, active: bool, global: &GlobalArgs) -> Result<(), Failure> {
    let tenancy = global.tenancy().await?;
    let account = tenancy.set_active(name.id(&tenancy).await?, active).await?;
    show(&tenancy, &account, global.json).await
}

async fn show(tenancy: &Tenancy, account: &Account, json: bool) -> Result<(), Failure> {
    let addresses = tenancy.addresses(account.id).await?;
    if json {
        return print_json(&as_json(account, &addresses));
    }
    say!("{}", line(account))?;
    for HeldAddress { address, catch_all } in &addresses {
        say!("           {address}{}", if *catch_all { " (catch-all)" } else { "" })?;
    }
    Ok(())
}

fn line(account: &Account) -> String {
    let state = if account.active { "" } else { "  inactive" };
    let kind = account.kind.as_str();
    format!("{:<9}  {kind:<12}  {}{state}", account.id.get(), account.name)
}

fn as_json(account: &Account, addresses: &[HeldAddress]) -> Value {
    let mut record = account_record(account);
    let addresses: Vec<_> = addresses.iter().map(|held| held.address.to_string()).collect();
    if let Value::Object(fields) = &mut record {
        fields.insert("addresses".to_owned(), json!(addresses));
    }
    record
}
