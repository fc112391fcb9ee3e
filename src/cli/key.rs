//! `gatepost key create|list|revoke`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::account_name::AccountName;
use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::app::tenancy::{KeyTerms, Tenancy};
use crate::domain::clock::Timestamp;
use crate::domain::id::{KeyId, MemberId};
use crate::domain::key::{Key, KeyOwner, KeyType};
use crate::run;

#[derive(Args, Debug)]
pub(super) struct KeyArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create an API key (shown only once)
    #[command(after_help = "Prints {\"id\":…,\"key\":\"gp_…\"} with --json.")]
    Create {
        #[command(flatten)]
        owner: Owner,
        /// The purpose, to tell keys apart
        #[arg(long, value_name = "TEXT", default_value = "")]
        purpose: String,
        /// Expires after this many days [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=36_500))]
        expires_in_days: Option<u64>,
        /// For the provisioned worker of this Agent: the key gets secrets, and is no administrator's
        #[arg(long)]
        worker: bool,
        /// Tools of MCP may make changes with the key, though the server runs without --mcp-changes
        #[arg(long)]
        mcp_changes: bool,
    },
    /// List the keys of an account and its members, or of one member; never the keys themselves
    List {
        #[command(flatten)]
        owner: Owner,
    },
    /// Revoke a key: it stops at once
    Revoke {
        /// As `gatepost key list` shows it
        #[arg(value_parser = key_id)]
        id: KeyId,
    },
}

/// The owner of keys.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct Owner {
    /// The account, by its id; an Agent by one of its addresses, too
    account: Option<AccountName>,
    /// A member, as `gatepost member list` shows it
    #[arg(long, value_name = "ID")]
    member: Option<MemberId>,
}

impl Owner {
    async fn named(&self, tenancy: &Tenancy) -> Result<KeyOwner, Failure> {
        match (&self.account, self.member) {
            (Some(account), _) => Ok(KeyOwner::Account(account.id(tenancy).await?)),
            (None, Some(member)) => Ok(KeyOwner::Member(member)),
            (None, None) => Err("name an account or a member".into()),
        }
    }
}

impl KeyArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Create { owner, purpose, expires_in_days, worker, mcp_changes } => {
                let now = run::system_mint().clock().now();
                let end = expires_in_days.map(|days| now.plus(Duration::from_secs(days * 86_400)));
                let terms = KeyTerms { purpose: &purpose, expires_at: end, mcp_changes };
                let tenancy = global.tenancy().await?;
                let owner = owner.named(&tenancy).await?;
                let made = match owner {
                    KeyOwner::Account(agent) if worker => {
                        tenancy.issue_worker_key(agent, terms).await?
                    }
                    KeyOwner::Member(_) if worker => {
                        return Err("--worker: name an Agent; no member is a worker".into());
                    }
                    owner => tenancy.issue_key(owner, terms).await?,
                };
                if global.json {
                    print_json(&json!({ "id": made.key.id.to_string(), "key": made.token }))?;
                } else {
                    say!("{}\n{}", made.key.id, made.token)?;
                }
            }
            Action::List { owner } => {
                let tenancy = global.tenancy().await?;
                let keys = keys(&tenancy, owner.named(&tenancy).await?).await?;
                if global.json {
                    print_json(&Value::from(keys.iter().map(as_json).collect::<Vec<_>>()))?;
                } else {
                    let now = run::system_mint().clock().now();
                    for key in &keys {
                        say!("{}", line(key, now))?;
                    }
                }
            }
            Action::Revoke { id } => {
                global.tenancy().await?.revoke_key(id).await?;
                if global.json {
                    print_json(&json!({ "revoked": id.to_string() }))?;
                } else {
                    say!("revoked {id}")?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not a key id; list them with `gatepost key list ID`")]
struct NotKeyId;

fn key_id(text: &str) -> Result<KeyId, NotKeyId> {
    text.parse().map_err(|_| NotKeyId)
}

async fn keys(tenancy: &Tenancy, owner: KeyOwner) -> Result<Vec<Key>, Failure> {
    match owner {
        KeyOwner::Account(account) => Ok(tenancy.keys(account).await?),
        KeyOwner::Member(id) => {
            let member = tenancy.member(id).await?;
            let mut keys = tenancy.keys(member.account).await?;
            keys.retain(|key| key.member == Some(id));
            Ok(keys)
        }
    }
}

fn line(key: &Key, now: Timestamp) -> String {
    let mut line = format!("{}  …{}  {}", key.id, key.last_four, key.purpose);
    let mut say = |words: String| {
        line.push_str("  ");
        line.push_str(&words);
    };
    if key.kind() == KeyType::Worker {
        say("worker".into());
    }
    if key.mcp_changes {
        say("changes by MCP".into());
    }
    if let Some(member) = key.member {
        say(format!("member {member}"));
    }
    match (key.revoked_at, key.expires_at) {
        // The store revokes expired keys, at the time when they expired.
        (at, Some(end)) if end <= at.unwrap_or(now) => say(format!("expired {end}")),
        (Some(_), _) => say("revoked".into()),
        (None, Some(end)) => say(format!("expires {end}")),
        (None, None) => {}
    }
    match key.last_used_at {
        Some(used) => say(format!("used {used}")),
        None => say("never used".into()),
    }
    line
}

fn as_json(key: &Key) -> Value {
    let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
    json!({
        "id": key.id.to_string(),
        "account": key.account.get(),
        "member": key.member.map(MemberId::get),
        "type": key.kind().as_str(),
        "mcpChanges": key.mcp_changes,
        "purpose": key.purpose,
        "lastFour": key.last_four,
        "created": key.created_at.to_string(),
        "lastUsed": time(key.last_used_at),
        "expires": time(key.expires_at),
        "revoked": time(key.revoked_at),
    })
}
