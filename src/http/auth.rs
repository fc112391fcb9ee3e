//! Who is calling: the one place that reads the token.

use super::Http;
use super::error::Problem;
use super::query;
use crate::app::access::Caller;

/// The caller behind the query parameter `token`. A key that is missing, empty, there twice, of
/// another form, unknown, revoked or of an inactive account is one and the same 401.
pub(super) async fn caller(http: &Http, raw_query: &str) -> Result<Caller, Problem> {
    let token = query::token(raw_query);
    Ok(http.use_cases.access.caller(token.as_deref()).await?)
}
