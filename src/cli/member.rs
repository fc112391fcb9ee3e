//! `gatepost member invite|list|update|remove`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;

use super::account_name::{AccountName, ids};
use super::global_args::GlobalArgs;
use super::{Failure, print_json, say};
use crate::app::tenancy::record::MemberRecord;
use crate::app::tenancy::{Invitation, Tenancy};
use crate::domain::account::Account;
use crate::domain::address::Address;
use crate::domain::id::{AccountId, MemberId};
use crate::domain::member::{Member, Role};
use crate::store::MemberChange;

#[derive(Args, Debug)]
pub(super) struct MemberArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a member; nothing is sent, webhooks get member.invited
    Invite {
        /// Its account; for an Agent, a member of its organization, restricted to that Agent
        account: AccountName,
        #[arg(long, value_name = "LOCAL@DOMAIN", value_parser = Address::parse)]
        email: Address,
        /// admin: all rights of the account; member: all but accounts, members, keys, domains
        #[arg(long, default_value = "member")]
        role: Role,
        /// An Agent that the member is restricted to [default: not restricted]
        #[arg(long = "permit", value_name = "ID")]
        permitted: Vec<AccountName>,
    },
    /// List the members of an account
    List {
        /// The account, by its id; an Agent by one of its addresses, too
        account: AccountName,
    },
    /// Change a member; fields without a flag stay
    Update {
        id: MemberId,
        #[arg(long, value_name = "LOCAL@DOMAIN", value_parser = Address::parse)]
        email: Option<Address>,
        #[arg(long)]
        role: Option<Role>,
        /// An Agent that the member is restricted to, instead of those before
        #[arg(long = "permit", value_name = "ID", conflicts_with = "unrestricted")]
        permitted: Vec<AccountName>,
        /// Lift the restriction to Agents
        #[arg(long)]
        unrestricted: bool,
    },
    /// Remove a member: its keys stop at once
    Remove { id: MemberId },
}

impl MemberArgs {
    pub(super) async fn run(self, global: &GlobalArgs) -> Result<ExitCode, Failure> {
        match self.action {
            Action::Invite { account, email, role, permitted } => {
                let tenancy = global.tenancy().await?;
                let permitted = ids(&permitted, &tenancy).await?;
                let permitted = Some(permitted).filter(|ids| !ids.is_empty());
                let invitation = Invitation {
                    email,
                    role,
                    permitted: permitted.map(|ids| ids.into_iter().collect()),
                    redirect_url: None,
                    send_welcome_email: None,
                };
                let account = account.account(&tenancy).await?;
                show(&tenancy.invite(&account, invitation).await?, global.json)?;
            }
            Action::List { account } => {
                let tenancy = global.tenancy().await?;
                let members = tenancy.members(&account.account(&tenancy).await?).await?;
                if global.json {
                    print_json(&json!(members.iter().map(MemberRecord::of).collect::<Vec<_>>()))?;
                } else {
                    members.iter().try_for_each(|member| show(member, false))?;
                }
            }
            Action::Update { id, email, role, permitted, unrestricted } => {
                let tenancy = global.tenancy().await?;
                let named = unrestricted || !permitted.is_empty();
                let permitted = ids(&permitted, &tenancy).await?;
                let permitted = named.then(|| permitted.into_iter().collect());
                let change = MemberChange { email, role, permitted };
                let account = home(&tenancy, id).await?;
                show(&tenancy.update_member(&account, id, &change).await?, global.json)?;
            }
            Action::Remove { id } => {
                let tenancy = global.tenancy().await?;
                let account = home(&tenancy, id).await?;
                let removed = tenancy.remove_member(&account, id).await?;
                if global.json {
                    print_json(&json!(MemberRecord::of(&removed)))?;
                } else {
                    say!("removed {id}")?;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The account of a member.
async fn home(tenancy: &Tenancy, id: MemberId) -> Result<Account, Failure> {
    let member = tenancy.member(id).await?;
    Ok(tenancy.account(member.account).await?)
}

fn show(member: &Member, json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&json!(MemberRecord::of(member)));
    }
    let Member { id, role, email, permitted, .. } = member;
    let ids: Vec<String> = permitted.iter().map(AccountId::to_string).collect();
    let only = if ids.is_empty() { String::new() } else { format!("  only {}", ids.join(", ")) };
    say!("{:<9}  {:<6}  {email}{only}", id.get(), role.as_str())
}
