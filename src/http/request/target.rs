//! The target of a request: the only place that reads `targetAccountId`.

use serde_json::Value;

use crate::app::access::need::Need;
use crate::app::access::{Caller, Target};
use crate::domain::id::AccountId;
use crate::http::error::Problem;
use crate::http::request::body::Fields;
use crate::http::request::query::Query;
use crate::http::state::Http;

/// The name of the target in a path, a query or a body.
pub(in crate::http) const TARGET: &str = "targetAccountId";

/// Names under which a request may give the target, in the query or in the body; all given values
/// must agree. A body field that an operation declares itself is no target.
pub type TargetNames = &'static [&'static str];

/// Names for most operations.
pub const ACCOUNT: TargetNames = &[TARGET];
/// Names for operations on an organization.
pub const ORGANIZATION: TargetNames = &["targetOrganizationId", TARGET];
/// Names for operations on a reseller.
pub const RESELLER: TargetNames = &["targetResellerId", TARGET];
/// Names for operations on a partner.
pub const PARTNER: TargetNames = &["targetPartnerId", TARGET];

/// The rights that a request needs on its target, and the fields that may name it.
#[derive(Clone, Copy)]
pub(in crate::http) struct TargetRule<'n> {
    pub(in crate::http) need: Need,
    pub(in crate::http) names: &'n [&'n str],
}

/// Returns the target in path or query, if any. Checked before the body is read, so that nobody
/// sends a long body to an account out of reach.
pub(in crate::http) async fn before_body(
    http: &Http,
    caller: &Caller,
    rule: TargetRule<'_>,
    in_path: Option<&str>,
    query: &Query,
) -> Result<Option<AccountId>, Problem> {
    let mut requested = None;
    if let Some(text) = in_path {
        agree(&mut requested, account_of_text(TARGET, text)?)?;
    }
    for name in rule.names {
        if let Some(text) = query.get(name) {
            agree(&mut requested, account_of_text(name, text)?)?;
        }
    }
    if requested.is_some() {
        http.use_cases.access.target(caller, requested, rule.need).await?;
    }
    Ok(requested)
}

/// Returns the target: `requested` (from path and query) and the body's fields if they agree, or
/// else the caller's own account. `access` decides whether the key reaches it.
pub(in crate::http) async fn target(
    http: &Http,
    caller: &Caller,
    rule: TargetRule<'_>,
    mut requested: Option<AccountId>,
    body: &Fields,
) -> Result<Target, Problem> {
    for name in rule.names {
        if let Some(value) = body.get(name) {
            agree(&mut requested, account_of_json(name, value)?)?;
        }
    }
    Ok(http.use_cases.access.target(caller, requested, rule.need).await?)
}

fn agree(requested: &mut Option<AccountId>, id: AccountId) -> Result<(), Problem> {
    if requested.is_some_and(|other| other != id) {
        let detail = "the target is named differently in path, query and body: name one account";
        return Err(Problem::invalid(detail));
    }
    *requested = Some(id);
    Ok(())
}

/// Parses the canonical decimal of an id in a query or a path.
pub(in crate::http) fn account_of_text(name: &str, text: &str) -> Result<AccountId, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("{name}: {error}")))
}

/// Parses a whole number, or its canonical decimal as a string. `1.0` and `1e0` are refused: an
/// account has one spelling.
pub(in crate::http) fn account_of_json(name: &str, value: &Value) -> Result<AccountId, Problem> {
    match value {
        Value::String(text) => account_of_text(name, text),
        Value::Number(number) => account_of_text(name, &number.to_string()),
        _ => Err(Problem::invalid(format!("{name} must be a whole number or its decimal text"))),
    }
}
