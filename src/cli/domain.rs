//! `gatepost domain add|list|remove`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
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
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
    },
    /// List domains with their accounts, and claims that are not proven
    List {
        /// Those of this account
        account: Option<AccountName>,
    },
    /// Take a domain from an account, once no address uses it, or end its claim
    Remove {
        #[arg(value_parser = DomainName::parse)]
        domain: DomainName,
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
    },
}

impl DomainArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Add { domain, account } => {
                let tenancy = global.tenancy().await?;
                let account = account.id(&tenancy).await?;
                tenancy.add_domain(&domain, account).await?;
                if global.json {
                    print_json(&record(&domain, Some(account), None))?;
                } else {
                    say!("{domain} belongs to account {account}")?;
                }
            }
            Action::List { account } => {
                let tenancy = global.tenancy().await?;
                let account = match account {
                    Some(account) => Some(account.id(&tenancy).await?),
                    None => None,
                };
                let domains = tenancy.domains(account).await?;
                if global.json {
                    let rows = domains.iter().map(|HeldDomain { domain, account, challenge }| {
                        record(domain, Some(*account), challenge.as_deref())
                    });
                    print_json(&Value::from(rows.collect::<Vec<_>>()))?;
                } else {
                    for HeldDomain { domain, account, challenge } in &domains {
                        let claimed = challenge.as_ref().map(|text| {
                            format!(
                                "  claimed; to prove the claim, set TXT {} to {text}",
                                proof_name(domain)
                            )
                        });
                        say!("{:<9}  {domain}{}", account.get(), claimed.unwrap_or_default())?;
                    }
                }
            }
            Action::Remove { domain, account } => {
                let tenancy = global.tenancy().await?;
                tenancy.remove_domain(&domain, account.id(&tenancy).await?).await?;
                if global.json {
                    print_json(&record(&domain, None, None))?;
                } else {
                    say!("{domain} no longer belongs to an account")?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The record of a domain; with a challenge while the claim is not proven.
fn record(domain: &DomainName, account: Option<AccountId>, challenge: Option<&str>) -> Value {
    json!({
        "domain": domain.as_str(),
        "accountId": account.map(AccountId::get),
        "verified": account.is_some() && challenge.is_none(),
        "challenge": challenge,
    })
}
