//! `/tokens`: the API keys of an account or a member.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::super::answer::success;
use super::super::call::{self, Call};
use super::super::error::Problem;
use super::super::state::Http;
use crate::app::access::token;
use crate::domain::clock::Timestamp;
use crate::domain::id::KeyId;
use crate::domain::instant;
use crate::domain::key::Key;
use crate::store::NamedKey;

/// The interface's only type of token.
const TYPE: &str = "admin";

/// The keys of the target alone that are in force, oldest first; never the keys themselves.
pub(in super::super) async fn list(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let keys = call.tenancy(&http).keys_in_force(call.target().owner()).await?;
    let tokens: Vec<Value> = keys.iter().map(|key| shape(key, None)).collect();
    Ok(success(StatusCode::OK, "tokens found", json!({ "tokens": tokens })))
}

/// Makes one for the target; the only answer that ever shows it.
pub(in super::super) async fn create(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let body = call.body();
    if body.text("type")?.is_some_and(|kind| kind != TYPE) {
        return Err(Problem::invalid(format!("type must be {TYPE:?}: tokens have no other")));
    }
    let description = body.required_text("description")?;
    let expires_at = expires_at(body.get("expiresAt"))?;
    call.caller().may_issue(expires_at)?;
    let tenancy = call.tenancy(&http);
    let made = tenancy.issue_key(call.target().owner(), description, expires_at).await?;
    let fields = json!({ "token": shape(&made.key, Some(&made.token)) });
    Ok(success(StatusCode::OK, "token created; it is shown this once", fields))
}

/// Revokes one in the scope of the target, by its id or by its value. Only the body can name it by
/// value: in the query `token` is the key that asks.
pub(in super::super) async fn revoke(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let missing = || Problem::not_found("token");
    let id = match (call.query().get("id"), call.body().text("id")?) {
        (Some(one), Some(other)) if one != other => {
            return Err(Problem::invalid("id differs between query and body: send it once"));
        }
        (one, other) => one.or(other),
    };
    let named = match (id, call.body().text("token")?) {
        (Some(id), None) => {
            let id = call::uuid(id).map(KeyId);
            NamedKey::Id(id.ok_or_else(|| Problem::invalid("id is not the id of a token"))?)
        }
        // What has not the form of a key is the key of nobody.
        (None, Some(value)) => NamedKey::Hash(token::hash(value).ok_or_else(missing)?),
        _ => return Err(Problem::invalid("name the token to revoke once: by id, or by token")),
    };
    let tenancy = call.tenancy(&http);
    let revoked = tenancy.revoke_key_among(call.target().keys(), named).await?;
    let revoked = revoked.ok_or_else(missing)?;
    let fields = json!({ "revoked": shape(&revoked, None) });
    Ok(success(StatusCode::OK, "token revoked", fields))
}

/// Unix seconds, or a date; null is never.
fn expires_at(value: Option<&Value>) -> Result<Option<Timestamp>, Problem> {
    let read = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => instant::parse(text),
        // `1.0` has another spelling than the number that it means.
        Some(Value::Number(seconds)) => instant::parse(&seconds.to_string()),
        Some(_) => None,
    };
    read.map(Some).ok_or_else(|| {
        Problem::invalid(
            "expiresAt must be Unix seconds, or a date like 2026-11-20 or 2026-11-20T10:00:00Z",
        )
    })
}

/// `timestamp` is a string of Unix seconds here: so v2 has it for tokens.
fn shape(key: &Key, token: Option<&str>) -> Value {
    let mut shape = Map::new();
    let masked = format!("…{}", key.last_four);
    let mut put = |name: &str, value: Value| shape.insert(name.to_owned(), value);
    put("token", token.map_or(masked, str::to_owned).into());
    put("id", key.id.to_string().into());
    put("description", key.purpose.as_str().into());
    put("type", TYPE.into());
    put("timestamp", key.created_at.seconds().to_string().into());
    put("userId", key.owner().id().into());
    put("lastFour", key.last_four.as_str().into());
    put("createdAt", key.created_at.to_string().into());
    put("lastUsedAt", key.last_used_at.map(|at| at.to_string()).into());
    put("expiresAt", key.expires_at.map(|at| at.to_string()).into());
    Value::Object(shape)
}
