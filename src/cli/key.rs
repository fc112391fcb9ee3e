//! `gatepost key create|list|revoke`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Failure, StoreArgs, print_json, say};
use crate::domain::id::{AccountId, KeyId};
use crate::domain::key::Key;

#[derive(Args, Debug)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a key; it is shown this once
    Create {
        #[arg(long, value_name = "ID")]
        account: AccountId,
        /// What it is for, to tell keys apart
        #[arg(long, value_name = "TEXT", default_value = "")]
        purpose: String,
        /// Print {"id":…,"key":"gp_…"}
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// List the keys of an account: never the keys themselves
    List {
        #[arg(long, value_name = "ID")]
        account: AccountId,
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
    /// Revoke a key: it stops at once
    Revoke {
        /// As `gatepost key list` shows it
        id: KeyId,
        #[command(flatten)]
        store: StoreArgs,
    },
}

impl KeyArgs {
    pub(super) async fn run(self) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Create { account, purpose, json, store } => {
                let made = store.tenancy().await?.create_key(account, &purpose).await?;
                if json {
                    print_json(&json!({ "id": made.key.id.to_string(), "key": made.token }))?;
                } else {
                    say!("{}\n{}", made.key.id, made.token)?;
                }
            }
            Action::List { account, json, store } => {
                let keys = store.tenancy().await?.keys(account).await?;
                if json {
                    print_json(&Value::from(keys.iter().map(as_json).collect::<Vec<_>>()))?;
                } else {
                    for key in &keys {
                        let state = if key.revoked_at.is_some() { "  revoked" } else { "" };
                        say!("{}  …{}  {}{state}", key.id, key.last_four, key.purpose)?;
                    }
                }
            }
            Action::Revoke { id, store } => {
                store.tenancy().await?.revoke_key(id).await?;
                say!("revoked {id}")?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn as_json(key: &Key) -> Value {
    json!({
        "id": key.id.to_string(),
        "account": key.account.get(),
        "purpose": key.purpose,
        "lastFour": key.last_four,
        "created": key.created_at.to_string(),
        "revoked": key.revoked_at.map(|at| at.to_string()),
    })
}
