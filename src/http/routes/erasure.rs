//! `DELETE /messages/{uuid}` and `DELETE /contacts/{id}`: erasing, for good.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use super::super::state::Http;
use crate::domain::id::{ContactId, MessageId};

/// A message, with its original and what its records tell of it.
pub(in super::super) async fn message(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = MessageId(call.uuid("uuid")?);
    if !call.erasures(&http).message(&call.target().scope, id).await? {
        return Err(Problem::not_found("message"));
    }
    let fields = json!({ "erased": { "messageUuid": id.to_string() } });
    Ok(success(StatusCode::OK, "message erased", fields))
}

/// A contact of an organization with all that is theirs. 202 while some of it is still to be
/// deleted: it is nobody's to read from this answer on.
pub(in super::super) async fn contact(http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    let id = call.path("id").parse::<ContactId>();
    let id = id.map_err(|error| Problem::invalid(format!("id in the path: {error}")))?;
    let erased = call.erasures(&http).contact(&call.target().scope, id).await?;
    let whole = erased.ok_or_else(|| Problem::not_found("contact"))?;
    let (status, message) = match whole {
        true => (StatusCode::OK, "contact erased"),
        false => (StatusCode::ACCEPTED, "contact erased; what is left of it is being deleted"),
    };
    Ok(success(status, message, json!({ "erased": { "contactId": id.get(), "complete": whole } })))
}
