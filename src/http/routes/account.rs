//! `GET /account`: the identity that decides the scope of a key (contract §4), flat at the top
//! level as v2 shows it, inside the usual envelope.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::Http;
use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use crate::app::access::Target;
use crate::app::tenancy::member_record;
use crate::domain::account::Account;
use crate::domain::member::Member;

/// The target, an account or a member, never whoever asks; without a target, the one that owns the
/// key.
pub(in super::super) async fn show(_http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    Ok(success(StatusCode::OK, "account found", identity(call.target())))
}

fn identity(target: &Target) -> Value {
    target.member.as_ref().map_or_else(|| shape(&target.account), of_member)
}

/// A member, in the fields of an account. An empty `permittedAccountIds` restricts nothing, and is
/// left out. `active`: a member that is not is removed.
fn of_member(member: &Member) -> Value {
    let mut shape = member_record(member);
    if let Value::Object(fields) = &mut shape {
        if member.permitted.is_empty() {
            fields.remove("permittedAccountIds");
        }
        let email = member.email.to_string();
        fields.insert("name".into(), email.as_str().into());
        fields.insert("parentId".into(), member.account.get().into());
        fields.insert("superAdmin".into(), false.into());
        fields.insert("active".into(), true.into());
        let details = json!({ "name": email, "createdAt": member.created_at.to_string() });
        fields.insert("details".into(), details);
    }
    shape
}

/// `timestamp` is in milliseconds, unlike elsewhere: so v2 has it for accounts. There is no
/// `permittedAccountIds`: an account's own key is not restricted, and absent says so. `active` is
/// the account's own switch.
fn shape(account: &Account) -> Value {
    let lineage = &account.lineage;
    json!({
        "id": account.id.get(),
        "username": account.username,
        "accountType": account.kind.as_str(),
        "name": account.name,
        "accountName": account.name,
        "organizationId": lineage.organization.map(|id| id.get()),
        "resellerId": lineage.reseller.map(|id| id.get()),
        "partnerId": lineage.partner.map(|id| id.get()),
        "parentId": account.parent.map(|id| id.get()),
        "superAdmin": false,
        "active": account.active,
        "timestamp": account.created_at.millis(),
        "details": {
            "name": account.name,
            "createdAt": account.created_at.to_string(),
        },
    })
}
