//! What a request acts on: the one place that reads `targetAccountId`.

use serde_json::Value;

use super::Http;
use super::body::Fields;
use super::error::Problem;
use super::query::Query;
use crate::app::access::{Caller, Need, Target};
use crate::domain::id::AccountId;

/// The name of the target in a path, a query or a body.
pub(super) const TARGET: &str = "targetAccountId";

/// The target that path and query name, if they name one: settled before a body is read, so that
/// nobody sends a long one to an account that is out of reach.
pub(super) async fn before_body(
    http: &Http,
    caller: &Caller,
    need: Need,
    in_path: Option<&str>,
    query: &Query,
) -> Result<Option<Target>, Problem> {
    let in_path = in_path.map(account_of_text).transpose()?;
    let in_query = query.get(TARGET).map(account_of_text).transpose()?;
    if in_path.is_some() && in_query.is_some() && in_path != in_query {
        return Err(different());
    }
    let Some(requested) = in_path.or(in_query) else { return Ok(None) };
    Ok(Some(http.use_cases.access.target(caller, Some(requested), need).await?))
}

/// The target of a request: what path, query and body name, if they agree, else the caller's own
/// account. `access` decides whether the key reaches it.
pub(super) async fn target(
    http: &Http,
    caller: &Caller,
    need: Need,
    settled: Option<Target>,
    body: &Fields,
) -> Result<Target, Problem> {
    let in_body = body.get(TARGET).map(account_of_json).transpose()?;
    match settled {
        None => Ok(http.use_cases.access.target(caller, in_body, need).await?),
        Some(target) if in_body.is_none_or(|id| id == target.account.id) => Ok(target),
        Some(_) => Err(different()),
    }
}

fn different() -> Problem {
    Problem::invalid(format!("{TARGET} names different accounts in path, query and body: name one"))
}

fn account_of_text(text: &str) -> Result<AccountId, Problem> {
    text.parse().map_err(|error| Problem::invalid(format!("{TARGET}: {error}")))
}

/// A whole number, or its canonical decimal as a string. `1.0` and `1e0` are no whole numbers here:
/// one account has one spelling.
fn account_of_json(value: &Value) -> Result<AccountId, Problem> {
    match value {
        Value::String(text) => account_of_text(text),
        Value::Number(number) => number.as_i64().and_then(AccountId::new).ok_or_else(|| {
            Problem::invalid(format!("{TARGET}: a whole number from 1 to 9007199254740991"))
        }),
        _ => Err(Problem::invalid(format!("{TARGET} must be a whole number or its decimal text"))),
    }
}
