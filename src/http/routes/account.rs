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
use crate::domain::account::Account;

/// The target account; without a target, the one that owns the key.
pub(in super::super) async fn show(_http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    Ok(success(StatusCode::OK, "account found", shape(call.account())))
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
