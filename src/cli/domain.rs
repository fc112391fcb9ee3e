//! `gatepost domain add|list|remove`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Failure, StoreArgs, print_json, say};
use crate::app::tenancy::proof_name;
use crate::domain::domain_name::DomainName;
use crate::domain::id::AccountId;
use crate::store::HeldDomain;

#[derive(Args, Debug)]
pub(super) struct DomainArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Give a domain to an account: Agents below it may have addresses there
    Add {
        #[arg(value_parser = DomainName::parse)]
        domain: DomainName,
        #[arg(long, value_name = "ID")]
        account: AccountId,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List domains and whom they belong to, and those that are claimed and not proven
    List {
        #[arg(long, value_name = "ID")]
        account: Option<AccountId>,
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Take a domain from an account, once no address uses it, or end its claim
    Remove {
        #[arg(value_parser = DomainName::parse)]
        domain: DomainName,
        #[arg(long, value_name = "ID")]
        account: AccountId,
        #[command(flatten)]
        store: StoreArgs,
    },
}

impl DomainArgs {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Add { domain, account, store } => {
                store.tenancy().await?.add_domain(&domain, account).await?;
                say!("{domain} belongs to {account}")?;
            }
            Action::List { account, json, store } => {
                let domains = store.tenancy().await?.domains(account).await?;
                if json {
                    let rows = domains.iter().map(|held| {
                        json!({
                            "domain": held.domain.as_str(),
                            "accountId": held.account.get(),
                            "verified": held.challenge.is_none(),
                            "challenge": held.challenge,
                        })
                    });
                    print_json(&Value::from(rows.collect::<Vec<_>>()))?;
                } else {
                    for HeldDomain { domain, account, challenge } in &domains {
                        let claimed = challenge.as_ref().map(|text| {
                            format!("  claimed; TXT {} must be {text}", proof_name(domain))
                        });
                        say!("{:<9}  {domain}{}", account.get(), claimed.unwrap_or_default())?;
                    }
                }
            }
            Action::Remove { domain, account, store } => {
                store.tenancy().await?.remove_domain(&domain, account).await?;
                say!("{domain} belongs to nobody")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
