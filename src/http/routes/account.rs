//! `GET /account`: the identity that decides the scope of a key (contract §4), flat at the top
//! level as v2 shows it, inside the usual envelope.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value, json};

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::app::access::Target;
use crate::app::tenancy::member_record;
use crate::app::tenancy::record::account_record;
use crate::domain::account::{Account, Details};
use crate::domain::member::Member;

/// The target, an account or a member, never whoever asks; without a target, the one that owns the
/// key.
pub(in super::super) async fn show(_http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    Ok(success(StatusCode::OK, "account found", identity(call.target())))
}

fn identity(target: &Target) -> Value {
    match (&target.member, target.scope.permitted()) {
        (Some(member), _) => of_member(member),
        (None, None) => account_record(&target.account).into(),
        // To whoever is restricted to some of its Agents: which account it is, and no more.
        (None, Some(_)) => {
            let details = Details::new();
            let known = Account { external_id: None, details, ..target.account.clone() };
            account_record(&known).into()
        }
    }
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
