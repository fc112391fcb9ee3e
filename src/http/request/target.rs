//! What a request acts on: the one place that reads `targetAccountId`.

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

/// The names under which a request may say what it acts on; they must agree. A field of the body
/// that an operation declares itself is no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim(&'static [&'static str]);

impl Aim {
    /// Most operations.
    pub const ACCOUNT: Self = Self(&[TARGET]);
    /// Operations on an organization.
    pub const ORGANIZATION: Self = Self(&["targetOrganizationId", TARGET]);
    /// Operations on a reseller.
    pub const RESELLER: Self = Self(&["targetResellerId", TARGET]);
    /// Operations on a partner.
    pub const PARTNER: Self = Self(&["targetPartnerId", TARGET]);

    /// Where a query may name it.
    pub const fn names(self) -> &'static [&'static str] {
        self.0
    }
}

/// The target that path and query name, if they name one: looked at before a body is read, so that
/// nobody sends a long one to an account that is out of reach.
pub(in crate::http) async fn before_body(
    http: &Http,
    caller: &Caller,
    (need, aim): (Need, Aim),
    in_path: Option<&str>,
    query: &Query,
) -> Result<Option<AccountId>, Problem> {
    let mut requested = None;
    if let Some(text) = in_path {
        agree(&mut requested, account_of_text(TARGET, text)?)?;
    }
    for name in aim.0 {
        if let Some(text) = query.get(name) {
            agree(&mut requested, account_of_text(name, text)?)?;
        }
    }
    if requested.is_some() {
        http.use_cases.access.target(caller, requested, need).await?;
    }
    Ok(requested)
}

/// The target of a request: what path and query (`requested`) and body name, if they agree, else
/// the caller's own account. `fields` of the body are those that name it; `access` decides whether the key reaches it.
pub(in crate::http) async fn target(
    http: &Http,
    caller: &Caller,
    (need, fields): (Need, &[&str]),
    mut requested: Option<AccountId>,
    body: &Fields,
) -> Result<Target, Problem> {
    for name in fields {
        if let Some(value) = body.get(name) {
            agree(&mut requested, account_of_json(name, value)?)?;
        }
    }
    Ok(http.use_cases.access.target(caller, requested, need).await?)
}

fn agree(requested: &mut Option<AccountId>, id: AccountId) -> Result<(), Problem> {
    if requested.is_some_and(|other| other != id) {
        let detail = "the target is named differently in path, query and body: name one account";
        return Err(Problem::invalid(detail));
    }
    *requested = Some(id);
    Ok(())
}

/// The canonical decimal of an id, in a query or a path.
pub(in crate::http) fn account_of_text(name: &str, text: &str) -> Result<AccountId, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("{name}: {error}")))
}

/// A whole number, or its canonical decimal as a string. `1.0` and `1e0` are no whole numbers here:
/// one account has one spelling.
pub(in crate::http) fn account_of_json(name: &str, value: &Value) -> Result<AccountId, Problem> {
    match value {
        Value::String(text) => account_of_text(name, text),
        Value::Number(number) => account_of_text(name, &number.to_string()),
        _ => Err(Problem::invalid(format!("{name} must be a whole number or its decimal text"))),
    }
}
