//! `/members` and `/member`: the people with access to an account.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use super::super::target::account_of_json;
use crate::app::tenancy::{Invitation, member_record};
use crate::domain::address::Address;
use crate::domain::id::{AccountId, MemberId};
use crate::domain::member::{Member, Role};
use crate::store::MemberChange;

/// What a request names a member by.
const NAME: &str = "targetMemberId";
const PERMITTED: &str = "permittedAccountIds";

/// All of the target, oldest first.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let members = call.tenancy(&http).members(call.account()).await?;
    let members: Vec<Value> = members.iter().map(member_record).collect();
    let fields = json!({ "count": members.len(), "members": members });
    Ok(success(StatusCode::OK, "members found", fields))
}

/// One of the target, or of an account below it.
pub(in super::super) async fn show(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let found = call.tenancy(&http).member_of(call.account(), named(&call)?).await?;
    Ok(answer(StatusCode::OK, "member found", &found))
}

/// Makes one. Nothing is sent: the event `member.invited` says what was asked for. Without a role
/// it gets the narrower one: v2 names no default, and a right is more easily given than noticed.
pub(in super::super) async fn invite(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let body = call.body();
    let redirect_url = body.text("redirectUrl")?.map(str::to_owned);
    let invitation = Invitation {
        email: email(body.required_text("email")?)?,
        role: body.text("role")?.map(role).transpose()?.unwrap_or(Role::Member),
        permitted: permitted(&call)?,
        redirect_url,
        send_welcome_email: body.flag("sendWelcomeEmail")?,
    };
    let made = call.tenancy(&http).invite(call.account(), invitation).await?;
    Ok(answer(StatusCode::CREATED, "member invited", &made))
}

/// Changes one: what is not there stays as it is; an empty list restricts nothing any more.
pub(in super::super) async fn update(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let (body, id) = (call.body(), named(&call)?);
    if body.get(PERMITTED).is_some_and(Value::is_null) {
        return Err(Problem::invalid(format!(
            "{PERMITTED} is null: leave it out to keep it, or send [] to lift the restriction"
        )));
    }
    let change = MemberChange {
        email: body.text("email")?.map(email).transpose()?,
        role: body.text("role")?.map(role).transpose()?,
        permitted: permitted(&call)?,
    };
    let changed = call.tenancy(&http).update_member(call.account(), id, &change).await?;
    Ok(answer(StatusCode::CREATED, "member updated", &changed))
}

/// Removes one; its keys stop at once.
pub(in super::super) async fn remove(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let removed = call.tenancy(&http).remove_member(call.account(), named(&call)?).await?;
    Ok(answer(StatusCode::CREATED, "member removed", &removed))
}

fn answer(status: StatusCode, message: &str, member: &Member) -> Response {
    success(status, message, json!({ "member": member_record(member) }))
}

/// The member that query or body name; both, if they agree.
fn named(call: &Call) -> Result<MemberId, Problem> {
    let id = call.id(NAME)?.and_then(|id| MemberId::new(id.get()));
    id.ok_or_else(|| Problem::invalid(format!("{NAME} is missing: send the id of a member")))
}

fn email(text: &str) -> Result<Address, Problem> {
    Address::parse(text).map_err(|error| Problem::invalid(format!("email: {error}")))
}

fn role(text: &str) -> Result<Role, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("role: {error}")))
}

/// `None` where the body has no such field, or null: that nobody meant to restrict nothing. One
/// that is there twice is there once.
fn permitted(call: &Call) -> Result<Option<BTreeSet<AccountId>>, Problem> {
    let ids = match call.body().get(PERMITTED) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(ids)) => ids,
        Some(_) => {
            return Err(Problem::invalid(format!("{PERMITTED} must be an array of ids")));
        }
    };
    let ids = ids.iter().map(|id| account_of_json(PERMITTED, id));
    ids.collect::<Result<_, _>>().map(Some)
}
