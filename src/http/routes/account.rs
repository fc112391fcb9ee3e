//! `GET /account`: the identity that decides the scope of a key (contract §4), flat at the top
//! level as v2 shows it, inside the usual envelope.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;

use super::super::Http;
use super::super::answer::success;
use super::super::call::Call;
use super::super::error::Problem;
use crate::app::tenancy::record::account_record;

/// The target account; without a target, the one that owns the key.
pub(in super::super) async fn show(_http: Arc<Http>, call: Call) -> Result<Response, Problem> {
    Ok(success(StatusCode::OK, "account found", account_record(call.account()).into()))
}
