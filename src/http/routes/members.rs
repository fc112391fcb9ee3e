//! `/members` and `/member`: the people with access to an account.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::app::tenancy::Invitation;
use crate::app::tenancy::record::MemberRecord;
use crate::domain::address::Address;
use crate::domain::id::{AccountId, MemberId};
use crate::domain::member::Role;
use crate::http::typed::{Call, Problem, refused, successes};
use crate::store::MemberChange;
use crate::wire::{Named, Word};

/// Lists the members of an account
///
/// The members of an Agent are those of its organization with access to the Agent.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct List {}

pub async fn list(call: Call, _: List) -> Result<Listed, Problem> {
    let members = call.tenancy().members(call.account()).await?;
    Ok(Listed { count: members.len(), members: members.iter().map(MemberRecord::of).collect() })
}

/// Shows a member of an account, or of an account below it
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Show {
    /// The member.
    target_member_id: Named<MemberId>,
}

pub async fn show(call: Call, request: Show) -> Result<MemberAnswer, Problem> {
    let found = call.tenancy().member_of(call.account(), request.target_member_id.0).await?;
    Ok(MemberAnswer { member: MemberRecord::of(&found) })
}

/// Invites a member
///
/// Nothing is sent to the member: the event member.invited has the request.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invite {
    /// The address of the new member.
    #[schemars(example = &"boss@good.example")]
    email: String,
    /// The target of the invitation's link.
    #[schemars(example = &"https://app.example/welcome")]
    redirect_url: Option<String>,
    /// The rights of the member; without a role, those of `member`.
    role: Option<Word<Role>>,
    /// The Agents that the member is restricted to; empty for all.
    #[schemars(extend("x-null" = true, "maxItems" = "members.max_permitted"))]
    permitted_account_ids: Option<Vec<Named<AccountId>>>,
    /// Whether the member should be welcomed.
    send_welcome_email: Option<bool>,
}

/// Invites a member. The default is the narrower role: v2 names no default, and a missing right is
/// noticed sooner than an excessive one.
pub async fn invite(call: Call, request: Invite) -> Result<Invited, Problem> {
    let invitation = Invitation {
        email: email(&request.email)?,
        role: request.role.map_or(Role::Member, |Word(role)| role),
        permitted: request.permitted_account_ids.map(ids),
        redirect_url: request.redirect_url,
        send_welcome_email: request.send_welcome_email,
    };
    let made = call.tenancy().invite(call.account(), invitation).await?;
    Ok(Invited { member: MemberRecord::of(&made) })
}

/// Changes a member
///
/// Fields that are not sent stay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The member.
    target_member_id: Named<MemberId>,
    /// The new address.
    #[schemars(example = &"boss@good.example")]
    email: Option<String>,
    /// The new rights.
    role: Option<Word<Role>>,
    /// The Agents that the member is restricted to from now on; an empty list lifts the
    /// restriction.
    #[schemars(extend("maxItems" = "members.max_permitted"))]
    permitted_account_ids: Option<Vec<Named<AccountId>>>,
}

pub async fn update(call: Call, request: Update) -> Result<Updated, Problem> {
    let change = MemberChange {
        email: request.email.as_deref().map(email).transpose()?,
        role: request.role.map(|Word(role)| role),
        permitted: request.permitted_account_ids.map(ids),
    };
    let (tenancy, Named(id)) = (call.tenancy(), request.target_member_id);
    let changed = tenancy.update_member(call.account(), id, &change).await?;
    Ok(Updated { member: MemberRecord::of(&changed) })
}

/// Removes a member; the member's keys stop at once
///
/// Name the member in the query or in the body.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// The member.
    target_member_id: Named<MemberId>,
}

pub async fn remove(call: Call, request: Remove) -> Result<Removed, Problem> {
    let tenancy = call.tenancy();
    let removed = tenancy.remove_member(call.account(), request.target_member_id.0).await?;
    Ok(Removed { member: MemberRecord::of(&removed) })
}

successes! {
    Listed {
        /// How many members there are.
        count: usize,
        /// Oldest first.
        members: Vec<MemberRecord>,
    } = OK "members found";
    MemberAnswer { member: MemberRecord } = OK "member found";
    Invited { member: MemberRecord } = CREATED "member invited";
    Updated { member: MemberRecord } = CREATED "member updated";
    Removed { member: MemberRecord } = CREATED "member removed";
}

fn email(text: &str) -> Result<Address, Problem> {
    Address::parse(text).map_err(|error| refused("email", &error))
}

/// Repeated ids count once.
fn ids<T: FromIterator<AccountId>>(ids: Vec<Named<AccountId>>) -> T {
    ids.into_iter().map(|Named(id)| id).collect()
}
