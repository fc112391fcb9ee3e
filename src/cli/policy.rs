//! `gatepost policy show|set|allow|remove`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Failure, StoreArgs, print_json, say};
use crate::app::tenancy::Tenancy;
use crate::domain::account::AccountType;
use crate::domain::address::{Address, AddressError};
use crate::domain::id::AccountId;
use crate::domain::lookalike;
use crate::domain::policy::Mode;

#[derive(Args, Debug)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show an Agent's mode and allowlist
    Show(Common),
    /// Set the mode; add senders first, then switch to allowlist
    Set {
        /// open or allowlist
        #[arg(long)]
        mode: Mode,
        #[command(flatten)]
        common: Common,
    },
    /// Add senders to the allowlist, by exact address
    Allow {
        #[arg(long = "address", value_name = "A", required = true, value_parser = Address::parse)]
        addresses: Vec<Address>,
        #[command(flatten)]
        common: Common,
    },
    /// Remove senders from the allowlist
    Remove {
        #[arg(long = "address", value_name = "A", required = true)]
        addresses: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Debug)]
struct Common {
    /// The Agent
    #[arg(long, value_name = "ID")]
    account: AccountId,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl PolicyArgs {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        let common = match &self.action {
            Action::Show(common)
            | Action::Set { common, .. }
            | Action::Allow { common, .. }
            | Action::Remove { common, .. } => common,
        };
        let (agent, tenancy) = (common.account, common.store.tenancy().await?);
        let account = tenancy.account(agent).await?;
        if account.kind != AccountType::Agent {
            return Err(format!(
                "account {agent} is of type {}: only an Agent (type \"account\") has a policy",
                account.kind
            )
            .into());
        }
        let mut warned = Vec::new();
        match &self.action {
            Action::Show(_) => {}
            Action::Set { mode, .. } => {
                tenancy.set_mode(agent, *mode).await?;
            }
            Action::Allow { addresses, .. } => {
                tenancy.allow(agent, addresses, None).await?;
                warned = addresses.iter().flat_map(warnings).collect();
            }
            Action::Remove { addresses, .. } => {
                let texts: Vec<&str> = addresses.iter().map(String::as_str).collect();
                let named = tenancy.named_senders(agent, &texts).await?;
                let refused = |(text, one): (&str, Result<_, _>)| {
                    one.map_err(|error: AddressError| format!("{text:?}: {error}").into())
                };
                let senders: Result<Vec<_>, Failure> =
                    texts.into_iter().zip(named).map(refused).collect();
                tenancy.disallow(agent, &senders?).await?;
            }
        }
        show(&tenancy, agent, common.json, &warned).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What is remarkable about an entry (threats A13), with the entry.
fn warnings(address: &Address) -> Vec<(String, String)> {
    let found = lookalike::warnings(address).into_iter();
    found.map(|warning| (address.to_string(), warning)).collect()
}

async fn show(
    tenancy: &Tenancy,
    agent: AccountId,
    json: bool,
    warned: &[(String, String)],
) -> Result<(), Failure> {
    let policy = tenancy.policy(agent).await?;
    let senders = tenancy.allowed_senders(agent, u32::MAX, None).await?.senders;
    if json {
        let shown =
            |(email, warning): &(String, String)| json!({ "email": email, "warning": warning });
        let allowlist: Vec<String> =
            senders.iter().map(|sender| sender.address.to_string()).collect();
        print_json(&json!({
            "accountId": agent.get(),
            "mode": policy.mode.as_str(),
            "allowlistCount": policy.allowlist_count,
            "allowlist": Value::from(allowlist),
            "warnings": warned.iter().map(shown).collect::<Vec<_>>(),
        }))?;
        return Ok(());
    }
    say!("mode       {}", policy.mode)?;
    say!("allowlist  {} addresses", policy.allowlist_count)?;
    for sender in &senders {
        say!("           {}", sender.address)?;
    }
    for (email, warning) in warned {
        say!("warning    {email}: {warning}")?;
    }
    Ok(())
}
