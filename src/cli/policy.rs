//! `gatepost policy show|set|allow|remove`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::app::tenancy::Tenancy;
use crate::domain::address::{Address, AddressError};
use crate::domain::id::AccountId;
use crate::domain::lookalike;
use crate::domain::policy::{Mode, new_sender};

#[derive(Args, Debug)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Show an Agent's mode and allowlist
    Show {
        /// The Agent, by its id or one of its addresses
        agent: AccountName,
    },
    /// Set the mode; add senders first, then switch to allowlist
    Set {
        /// The Agent, by its id or one of its addresses
        agent: AccountName,
        /// open or allowlist
        mode: Mode,
    },
    /// Add senders to the allowlist, by exact address
    Allow {
        /// The Agent, by its id or one of its addresses
        agent: AccountName,
        #[arg(value_name = "ADDRESS", required = true, value_parser = new_sender)]
        senders: Vec<Address>,
    },
    /// Remove senders from the allowlist
    Remove {
        /// The Agent, by its id or one of its addresses
        agent: AccountName,
        #[arg(value_name = "ADDRESS", required = true)]
        senders: Vec<String>,
    },
}

impl PolicyArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        let (Action::Show { agent }
        | Action::Set { agent, .. }
        | Action::Allow { agent, .. }
        | Action::Remove { agent, .. }) = &self.action;
        let tenancy = global.tenancy().await?;
        let agent = agent.agent(&tenancy).await?;
        let mut new_warnings = Vec::new();
        match &self.action {
            Action::Show { .. } => {}
            Action::Set { mode, .. } => {
                tenancy.set_mode(agent, *mode).await?;
            }
            Action::Allow { senders, .. } => {
                tenancy.allow(agent, senders, None).await?;
                new_warnings = senders.iter().flat_map(warnings).collect();
            }
            Action::Remove { senders, .. } => {
                let texts: Vec<&str> = senders.iter().map(String::as_str).collect();
                let named = tenancy.named_senders(agent, &texts).await?;
                let refused = |(text, one): (&str, Result<_, _>)| {
                    one.map_err(|error: AddressError| format!("{text:?}: {error}").into())
                };
                let senders: Result<Vec<_>, Failure> =
                    texts.into_iter().zip(named).map(refused).collect();
                tenancy.disallow(agent, &senders?).await?;
            }
        }
        show(&tenancy, agent, global.json, &new_warnings).await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A warning about a new entry of the allowlist (threats A13).
#[derive(Serialize)]
struct EntryWarning {
    email: String,
    warning: String,
}

fn warnings(address: &Address) -> Vec<EntryWarning> {
    let found = lookalike::warnings(address).into_iter();
    found.map(|warning| EntryWarning { email: address.to_string(), warning }).collect()
}

async fn show(
    tenancy: &Tenancy,
    agent: AccountId,
    json: bool,
    warnings: &[EntryWarning],
) -> Result<(), Failure> {
    let policy = tenancy.policy(agent).await?;
    let senders = tenancy.allowed_senders(agent, u32::MAX, None).await?.senders;
    if json {
        let allowlist: Vec<String> =
            senders.iter().map(|sender| sender.address.to_string()).collect();
        print_json(&json!({
            "accountId": agent.get(),
            "mode": policy.mode.as_str(),
            "allowlistCount": policy.allowlist_count,
            "allowlist": Value::from(allowlist),
            "warnings": warnings,
        }))?;
        return Ok(());
    }
    say!("mode       {}", policy.mode)?;
    let plural = if policy.allowlist_count == 1 { "" } else { "es" };
    say!("allowlist  {} address{plural}", policy.allowlist_count)?;
    for sender in &senders {
        say!("           {}", sender.address)?;
    }
    for EntryWarning { email, warning } in warnings {
        say!("warning    {email}: {warning}")?;
    }
    Ok(())
}
